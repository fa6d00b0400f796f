"""Runs the declaration that the current test has set."""

from tests.components.public_programs import DECLARATION

DECLARATION.get()()
