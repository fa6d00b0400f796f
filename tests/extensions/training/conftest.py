"""Tests of the package for containers. Those that need PyTorch run by `make test-training` alone."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["torch_*"]
