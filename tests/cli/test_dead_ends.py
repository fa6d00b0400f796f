"""`up` stops waiting for a node that a controller has given up on, but waits for a node that may still recover."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.base import interruption
from gpu_platform.base.errors import Finding, UnknownOutcome
from gpu_platform.cli import dead_ends
from gpu_platform.cli.dead_ends import NodesGivenUp, ended_by_dead_ends, past_the_gate
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import load_stack

GIVEN_UP = {"serve-0": "node serve-0: driver-upgrade is upgrade-failed: delete the pod"}
Looks = Iterator[Mapping[str, str] | None]


class Cluster(ClusterAccess):
    """A fake cluster that can be reached. `look` defines the state of its nodes."""

    def client(self) -> Any:
        return None


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(interruption, "_state", interruption._State(begun=True))
    monkeypatch.setattr(dead_ends, "_POLL_SECONDS", 0.001)
    with interruption.handled(restore=True):
        yield


@pytest.fixture
def plan() -> EnvironmentPlan:
    found = load_stack("local").plan
    assert isinstance(found, EnvironmentPlan)
    return found


def look(monkeypatch: pytest.MonkeyPatch, looks: Looks, until: int = 0) -> threading.Event:
    """Simulate the nodes. Each check returns the next state in `looks`. If the state is None, the cluster does not
    respond.

    The first check happens before the run. Return an event that is set after `until` checks.
    """
    count, reached = itertools.count(1), threading.Event()

    def found(*_: object) -> dict[str, str]:
        now = next(looks)
        if next(count) == until:
            reached.set()
        if now is None:
            raise UnknownOutcome("no answer")
        return dict(now)

    monkeypatch.setattr(dead_ends, "dead_ends", found)
    return reached


def test_a_node_given_up_during_the_run_ends_it_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, plan: EnvironmentPlan
) -> None:
    look(monkeypatch, itertools.chain([{}, {}], itertools.repeat(GIVEN_UP)))
    named = "serve-0: driver-upgrade is upgrade-failed: delete the pod"
    with pytest.raises(NodesGivenUp, match=named), ended_by_dead_ends(plan, Cluster(plan)):
        threading.Event().wait()
    assert not interruption.was_raised()


def test_a_node_that_comes_back_ends_nothing(monkeypatch: pytest.MonkeyPatch, plan: EnvironmentPlan) -> None:
    looks: Looks = itertools.cycle([{}, GIVEN_UP, GIVEN_UP, None])
    reached = look(monkeypatch, itertools.chain([{}], looks), until=60)
    with ended_by_dead_ends(plan, Cluster(plan)):
        assert reached.wait(60)


def test_a_node_given_up_earlier_is_named_and_may_recover(
    monkeypatch: pytest.MonkeyPatch, plan: EnvironmentPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = look(monkeypatch, itertools.chain([GIVEN_UP] * 50, itertools.repeat({})), until=60)
    with ended_by_dead_ends(plan, Cluster(plan)):
        assert reached.wait(60)
    assert capsys.readouterr().err == f"warning: {GIVEN_UP['serve-0']}\n"


def test_a_cluster_that_does_not_exist_yet_is_not_watched(
    monkeypatch: pytest.MonkeyPatch, plan: EnvironmentPlan
) -> None:
    reached = look(monkeypatch, itertools.repeat(None), until=1)
    with ended_by_dead_ends(plan, Cluster(plan)):
        assert reached.is_set()


def test_a_signal_to_the_command_is_no_node_that_is_given_up(
    monkeypatch: pytest.MonkeyPatch, plan: EnvironmentPlan
) -> None:
    look(monkeypatch, itertools.repeat({}))
    with pytest.raises(KeyboardInterrupt), ended_by_dead_ends(plan, Cluster(plan)):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("failure", "named"),
    [
        (NodesGivenUp("waiting does not help"), True),
        (
            Finding("not ready: DaemonSet.apps validate-train in namespace gpu-platform-validation: after 20 s"),
            True,
        ),
        (Finding("pulumi up of stack local failed: gpu-platform-validation/validate-serve timed out"), True),
        (Finding("not ready: DaemonSet.apps validate-training in namespace other: after 20 s"), False),
        (Finding("not ready: Deployment.apps keda-operator in namespace keda: after 20 s"), False),
    ],
)
def test_a_failed_node_validation_names_the_way_to_continue(
    failure: Finding, named: bool, plan: EnvironmentPlan
) -> None:
    assert ("validation: {gate: false}" in past_the_gate(plan, failure)) is named


def test_a_stack_without_a_gate_has_no_way_past_it(plan: EnvironmentPlan) -> None:
    open_ = replace(plan, validation=replace(plan.validation, gate=False))
    assert past_the_gate(open_, NodesGivenUp("waiting does not help")) == ""
