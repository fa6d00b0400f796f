"""Tests of the package that runs in training containers. Tests that need PyTorch run only with `make
test-training`.
"""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["torch_*"]
