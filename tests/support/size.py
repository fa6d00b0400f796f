"""How much tests draw and repeat: little in `make test` and `make test-long`, much in `make test-thorough`."""

from __future__ import annotations

import os
from typing import Final

THOROUGH: Final = os.environ.get("GPU_PLATFORM_TESTS") == "thorough"


def size(usual: int, thorough: int) -> int:
    """Return the number of examples or repetitions of this run."""
    return thorough if THOROUGH else usual
