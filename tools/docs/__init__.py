"""Generates `docs/reference/*.md`, and the quoted output in the other pages of the documentation."""
