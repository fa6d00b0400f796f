from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import command_line
from tests.support.command_line import Ran

Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """Return a function that runs a command of the CLI and returns its exit code, output and errors."""
    return command_line.run
