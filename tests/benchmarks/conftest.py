"""Adds the benchmarks' folder to the import path, because benchmarks are scripts that import each other from it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
