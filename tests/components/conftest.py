from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gpu_platform.engine.record import RecordedProgram, record_program
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack
from tests.support.recorded import Recorded

PROGRAMS = Path(__file__).parent / "programs"


@cache
def _recorded(stack: str) -> RecordedProgram:
    return record_stack(load_stack(stack))


@pytest.fixture
def stack() -> Callable[[str], Recorded]:
    return lambda name: Recorded(_recorded(name))


@pytest.fixture
def program() -> Callable[[str], Recorded]:
    def run(name: str) -> Recorded:
        recorded = record_program(PROGRAMS / f"{name}.py", project="alone", stack="test", config={})
        return Recorded(recorded)

    return run
