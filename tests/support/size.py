"""Which tests a run has, and how much they do.

`make test` has those without the mark `long`, `make test-long` those with it. `make test-thorough` has all, and
draws and repeats more.
"""

from __future__ import annotations

import os
from typing import Final

_TESTS: Final = os.environ.get("GPU_PLATFORM_TESTS", "")
LONG: Final = _TESTS == "long"
THOROUGH: Final = _TESTS == "thorough"


def size(usual: int, thorough: int) -> int:
    """Return the number of examples or repetitions of this run."""
    return thorough if THOROUGH else usual
