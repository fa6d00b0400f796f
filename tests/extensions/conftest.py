"""Extensions are called by the command line, as the core's commands are."""

from tests.cli.conftest import run

__all__ = ["run"]
