"""Adds the benchmarks' folder to the import path, because the scripts in it import each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
