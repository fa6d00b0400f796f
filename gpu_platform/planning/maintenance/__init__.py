"""Decide when nodes may be changed, and how many at a time."""
