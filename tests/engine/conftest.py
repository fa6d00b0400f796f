"""Runs the toy programs of this room."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.engine.record import RecordedProgram, record_program

PROGRAMS = Path(__file__).parent / "programs"

Record = Callable[..., RecordedProgram]


@pytest.fixture
def record() -> Record:
    """Records a program of `programs/` by its name, with the platform object as its configuration."""

    def run(name: str, platform: Mapping[str, Any] | None = None, **options: Any) -> RecordedProgram:
        config = {
            "gpu-platform:platform": json.dumps(platform or {"team": "vision", "replicas": 4}),
            "gpu-platform:token": "hunter2",
        }
        options = {"stack": "test", **options}
        return record_program(
            PROGRAMS / f"{name}.py",
            project="gpu-platform",
            config=config,
            secret_config=["gpu-platform:token"],
            **options,
        )

    return run
