"""Adds the folder `benchmarks` to the import path, because its scripts import each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
