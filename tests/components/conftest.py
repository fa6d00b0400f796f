from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_platform.deploy.recorded.record import record_program
from tests.support.recorded import Recorded, record_shipped

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def stack() -> Callable[[str], Recorded]:
    return lambda name: Recorded(record_shipped(name))


@pytest.fixture
def program() -> Callable[[str], Recorded]:
    def run(name: str) -> Recorded:
        recorded = record_program(PROGRAMS / f"{name}.py", project="alone", stack="test", config={})
        return Recorded(recorded)

    return run
