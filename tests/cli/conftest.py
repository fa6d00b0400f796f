from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import command_line
from tests.support.command_line import Ran

Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """Call the command line; the answer is its exit code, what it printed, and its errors."""
    return command_line.run
