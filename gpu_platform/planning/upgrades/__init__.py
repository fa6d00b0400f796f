"""Decide what of a stack is outdated or near the end of its support, and in which order to upgrade it."""
