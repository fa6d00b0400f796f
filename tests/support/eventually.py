"""The one way in which a test waits for something that another process or thread does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_VARIABLE: Final = "GPU_PLATFORM_TEST_PATIENCE"
PATIENCE_SECONDS: Final = float(os.environ.get(PATIENCE_VARIABLE) or 240)
"""How long a test waits for a condition: so long that only a broken program or test takes it."""

DEADLINES_SECONDS: Final = (2.0, 8.0, 32.0, 128.0)
"""Where a test lets a deadline of the program pass: tried in turn until what comes before it was quick enough."""

_Answer = TypeVar("_Answer")
_TRUE: Final = object()


def eventually(ask: Callable[[], _Answer], expected: object = _TRUE) -> _Answer:
    """Call `ask` until its answer is true (or equals `expected`, where it is given), and return that answer.

    Fails with the last answer after `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = 0.01
    while True:
        late = time.monotonic() > deadline  # asked once more after the deadline: this process may have slept
        answer = ask()
        if answer if expected is _TRUE else answer == expected:
            return answer
        wanted = "a true answer" if expected is _TRUE else repr(expected)
        assert not late, f"after {PATIENCE_SECONDS:g} s: {answer!r}, not {wanted}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
