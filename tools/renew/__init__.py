"""Compares the catalogue's machine types with a cloud's API, and updates the catalogue on request."""
