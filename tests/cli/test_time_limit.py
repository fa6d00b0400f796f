"""`--timeout` stops a command at its limit and reports its state. Below the limit, the option has no effect."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base import interruption
from gpu_platform.base.errors import BadInput
from gpu_platform.base.progress import Progress
from gpu_platform.cli.interrupted import TimedOut, explained, parse_timeout, time_limit
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.planning import Plan
from gpu_platform.stack.loaded import load_stack


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(interruption, "_state", interruption._State(begun=True))
    with interruption.handled(restore=True):
        yield


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return the plan of a stack whose sandbox does not exist."""
    monkeypatch.setenv("GPU_PLATFORM_SANDBOX_DIR", str(tmp_path))
    return load_stack("local").plan


def _never_done(plan: Plan, limit_seconds: int, *, signalled: bool = False) -> None:
    """Run a step that never finishes, in the same way as `up` runs its steps."""
    progress = Progress(quiet=True)
    with time_limit(limit_seconds), explained("gpu-platform up local", plan, ClusterAccess(plan), progress):
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        with progress.step("waiting until all objects are ready"):
            threading.Event().wait()


def test_a_command_over_its_limit_is_stopped_with_a_fix(plan: Plan) -> None:
    with pytest.raises(TimedOut) as stopped:
        _never_done(plan, 1)
    first, *_, last = str(stopped.value).splitlines()
    assert first == "not finished within 1 s: interrupted while waiting until all objects are ready"
    assert last == "run `gpu-platform up local` to continue"


def test_cordoned_nodes_are_unknown_if_the_cluster_does_not_answer(plan: Plan) -> None:
    with pytest.raises(TimedOut, match=r"\nit is unknown which nodes are cordoned: there is no sandbox"):
        _never_done(plan, 1)


def test_a_signal_within_the_limit_is_no_timeout(plan: Plan) -> None:
    with pytest.raises(KeyboardInterrupt):
        _never_done(plan, 3600, signalled=True)
    assert interruption.exit_code() == 143
    assert interruption.explanation().endswith("run `gpu-platform up local` to continue")


def test_what_ends_within_the_limit_is_not_stopped_later() -> None:
    with time_limit(3600):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("text", ["0s", "5x", "-1m", "", "45"])
def test_a_limit_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="a duration of at least 1s"):
        parse_timeout(text)
