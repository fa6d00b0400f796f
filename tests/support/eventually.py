"""Waits for the effects of another process or thread. Every test that waits for a condition uses this module."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_VARIABLE: Final = "GPU_PLATFORM_TEST_PATIENCE"
PATIENCE_SECONDS: Final = float(os.environ.get(PATIENCE_VARIABLE) or 240)
"""Maximum time that a test waits for a condition. Only a broken program or test takes this long."""

DEADLINES_SECONDS: Final = (2.0, 8.0, 32.0, 128.0)
"""Timeouts that a test tries in turn, because the program may need longer on a slow machine."""

_Answer = TypeVar("_Answer")
_TRUE: Final = object()


def eventually(ask: Callable[[], _Answer], expected: object = _TRUE) -> _Answer:
    """Call `ask` until its answer is true, or equals `expected` if that is given, and return the answer.

    Fails with the last answer after `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = 0.01
    while True:
        # `ask` is called again after the deadline, because this process may have been suspended.
        late = time.monotonic() > deadline
        answer = ask()
        if answer if expected is _TRUE else answer == expected:
            return answer
        wanted = "a true answer" if expected is _TRUE else repr(expected)
        assert not late, f"after {PATIENCE_SECONDS:g} s: {answer!r}, not {wanted}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)
