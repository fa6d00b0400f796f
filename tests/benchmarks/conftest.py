"""The benchmarks are scripts: a test imports them from their folder, as they import each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
