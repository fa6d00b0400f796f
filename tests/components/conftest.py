from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gpu_platform.engine.record import RecordedProgram, ResourceRecord, record_program
from gpu_platform.program import record_stack
from gpu_platform.stacks import load_stack

PROGRAMS = Path(__file__).parent / "programs"


@cache
def _recorded(stack: str) -> RecordedProgram:
    return record_stack(load_stack(stack))


class Recorded:
    """What a program registered, with ways to find it."""

    def __init__(self, program: RecordedProgram) -> None:
        self.program = program
        self.resources = program.resources

    def of(self, kind: str) -> list[ResourceRecord]:
        return [r for r in self.resources if r.type.rsplit(":", 1)[-1] == kind]

    def one(self, kind: str, name: str) -> ResourceRecord:
        found = [r for r in self.of(kind) if name in (r.name, r.inputs.get("metadata", {}).get("name", r.name))]
        assert len(found) == 1, [r.urn for r in self.of(kind)]
        return found[0]


@pytest.fixture
def stack() -> Callable[[str], Recorded]:
    return lambda name: Recorded(_recorded(name))


@pytest.fixture
def program() -> Callable[[str], Recorded]:
    def run(name: str) -> Recorded:
        recorded = record_program(PROGRAMS / f"{name}.py", project="alone", stack="test", config={})
        return Recorded(recorded)

    return run
