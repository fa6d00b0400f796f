"""Numbers of examples and repetitions, which are high only in `make test-thorough`."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("GPU_PLATFORM_TESTS") == "thorough"


def size(usual: int, thorough: int) -> int:
    """Return the number of examples or repetitions for this run."""
    return thorough if THOROUGH else usual
