"""Declares what the test that runs it says."""

from tests.components.public_programs import DECLARATION

DECLARATION.get()()
