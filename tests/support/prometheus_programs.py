"""The Prometheus binaries that tests run, either built by `make test-prometheus` or found on PATH."""

from __future__ import annotations

import shutil
from typing import Final

import pytest

from sandbox import build


def _found(program: str) -> str | None:
    built = build.built_prometheus(program)
    return str(built) if built is not None else shutil.which(program)


PROMETHEUS: Final = _found("prometheus")
PROMTOOL: Final = _found("promtool")
_WHY: Final = "is neither built (make test-prometheus) nor on PATH (Debian: apt-get install prometheus)"
needs_prometheus: Final = pytest.mark.skipif(PROMETHEUS is None, reason=f"prometheus {_WHY}")
needs_promtool: Final = pytest.mark.skipif(PROMTOOL is None, reason=f"promtool {_WHY}")
