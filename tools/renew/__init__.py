"""Renews the catalogue's machine types: what a cloud has now, what differs, and its new values."""
