"""Compares the catalogue's machine types with a cloud's API, and writes the differences on request."""
