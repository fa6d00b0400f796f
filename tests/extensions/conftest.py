"""Tests call extensions through the command line, like the commands of the core."""

from tests.cli.conftest import run

__all__ = ["run"]
