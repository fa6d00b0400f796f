"""Tests call extensions through the command line, in the same way as built-in commands."""

from tests.cli.conftest import run

__all__ = ["run"]
