"""Tests call extensions through the command line, in the same way as the commands of the core."""

from tests.cli.conftest import run

__all__ = ["run"]
