"""Generates `docs/reference/*.md`, and the quoted output in other pages of the documentation."""
