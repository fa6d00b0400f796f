"""A training run that is stopped in the middle of a step and continues with a different number of processes."""

from __future__ import annotations

import pytest

from gpu_platform_training.exit_codes import FINISHED, INTERRUPTED

from .launched import Ended, Pod

_STEPS = "14"
_PAUSE = 6
# In float32, a sum over four parts is rounded differently than a sum over two.
_TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    whole, stopped = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("stopped")
    options = ("--parallel", request.param, "--checkpoint-every", "4", "--report-every", "5")
    uninterrupted = Pod(whole, 4, _STEPS, options=options).end()
    pod = Pod(stopped, 4, _STEPS, "pause", str(_PAUSE), options=options)
    pod.terminate_in_the_middle_of_a_step()
    interrupted = pod.end()
    return {
        "uninterrupted": uninterrupted,
        "interrupted": interrupted,
        "resumed": Pod(stopped, 2, _STEPS, options=options).end(),
    }


def test_a_stopped_training_says_that_it_saved_and_can_go_on(runs: dict[str, Ended]) -> None:
    assert runs["interrupted"].code == INTERRUPTED, runs["interrupted"].output
    assert "stopped from outside: saved at step" in runs["interrupted"].output


def test_the_next_attempt_goes_on_where_the_last_one_stopped(runs: dict[str, Ended]) -> None:
    stopped, resumed = runs["interrupted"].losses, runs["resumed"]
    assert resumed.code == FINISHED, resumed.output
    assert max(stopped) >= _PAUSE
    assert min(resumed.losses) == max(stopped) + 1
    assert "with 2 processes" in resumed.output


def test_the_loss_curve_equals_the_curve_of_an_uninterrupted_training(runs: dict[str, Ended]) -> None:
    assert runs["uninterrupted"].code == FINISHED, runs["uninterrupted"].output
    together = {**runs["interrupted"].losses, **runs["resumed"].losses}
    assert len(together) == int(_STEPS)
    assert together == pytest.approx(runs["uninterrupted"].losses, rel=_TOLERANCE)
