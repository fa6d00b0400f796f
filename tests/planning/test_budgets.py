"""Which PodDisruptionBudgets prevent an eviction, according to the API server's eviction subresource."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.live.disruption import budgets_of, guarded_pod
from gpu_platform.planning.changes.budgets import Block, block_of, merged

POD: dict[str, Any] = {
    "metadata": {"namespace": "vision", "name": "web-1", "labels": {"app": "web"}},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
UNREADY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}


def budget(name: str = "guard", **rest: Any) -> dict[str, Any]:
    """Return a PodDisruptionBudget. `rest` sets its spec, status, generation and namespace."""
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2}
    return {
        "metadata": {
            "namespace": rest.get("namespace", "vision"),
            "name": name,
            "generation": rest.get("generation", 1),
        },
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **rest.get("spec", {})},
        "status": {"observedGeneration": 1, **status, **rest.get("status", {})},
    }


def found(*budgets: dict[str, Any], **pod: Any) -> Block | None:
    return block_of(guarded_pod({**POD, **pod}), budgets_of(budgets))


NEVER = {"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}


@pytest.mark.parametrize(
    ("status", "forever", "words"),
    [
        (NEVER, True, "never allows an eviction: it needs 2 healthy pods of 2"),
        ({**NEVER, "desiredHealthy": 3}, True, "it needs 3 healthy pods of 2"),
        ({}, False, "allows no eviction now: it needs 1 healthy pod and has 1"),
        ({"currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 0}, False, "allows no eviction now"),
    ],
)
def test_a_budget_never_allows_an_eviction_if_it_needs_every_pod_that_is_expected(
    status: dict[str, Any], forever: bool, words: str
) -> None:
    block = found(budget(status=status))
    assert block is not None
    assert (block.forever, block.budgets, block.pods) == (forever, ("vision/guard",), ("vision/web-1",))
    assert words in block.why
    assert bool(block.fix) is forever


def test_a_budget_that_allows_a_disruption_blocks_nothing() -> None:
    assert found(budget(status={"disruptionsAllowed": 1})) is None


@pytest.mark.parametrize(
    "pod",
    [
        {"status": {"phase": "Pending"}},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {**POD["metadata"], "deletionTimestamp": "2026-11-22T00:00:00Z"}},
    ],
)
def test_pods_that_do_not_run_are_evicted_whatever_their_budget(
    pod: dict[str, Any],
) -> None:
    assert found(budget(status=NEVER), **pod) is None


@pytest.mark.parametrize(
    ("spec", "status", "blocked"),
    [
        ({}, {"currentHealthy": 1, "desiredHealthy": 1}, False),  # enough other pods are healthy without this pod
        ({}, {"currentHealthy": 0, "desiredHealthy": 1}, True),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, {"currentHealthy": 0}, True),
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {"currentHealthy": 0}, False),
        # For pods that are not ready, eviction.go requires desiredHealthy > 0.
        ({"minAvailable": 0}, {"currentHealthy": 0, "desiredHealthy": 0}, True),
    ],
)
def test_a_pod_that_is_not_ready_is_evicted_by_the_budgets_policy(
    spec: dict[str, Any], status: dict[str, Any], blocked: bool
) -> None:
    assert (found(budget(spec=spec, status=status), **UNREADY) is not None) is blocked


def test_two_budgets_of_one_pod_block_for_ever_even_if_each_allows_it() -> None:
    generous = {"status": {"disruptionsAllowed": 1}, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    block = found(budget("one", **generous), budget("two", **generous), **UNREADY)
    assert block is not None
    assert (block.forever, block.budgets) == (True, ("vision/one", "vision/two"))
    assert "the eviction API evicts no pod with more than one budget" in block.why
    assert block.fix == "change the selectors so that only one budget selects the pods"


def test_a_status_older_than_the_spec_blocks_for_now() -> None:
    block = found(budget(generation=2, status={**NEVER, "disruptionsAllowed": 1}))
    assert block is not None
    assert not block.forever
    assert "has not evaluated" in block.why


def test_a_budget_that_kubernetes_cannot_evaluate_blocks_forever() -> None:
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": 'found no controllers for pod "web-1"',
    }
    block = found(budget(spec={"maxUnavailable": 1}, status={"conditions": [condition]}))
    assert block is not None
    assert block.forever
    assert 'found no controllers for pod "web-1"' in block.why


@pytest.mark.parametrize(
    ("spec", "rule", "fix"),
    [
        ({"maxUnavailable": 0}, "(maxUnavailable: 0)", "raise maxUnavailable"),
        ({"minAvailable": "100%"}, "(minAvailable: 100%)", "lower minAvailable"),
    ],
)
def test_the_reason_quotes_the_budgets_rule_and_the_fix_changes_it(
    spec: dict[str, Any], rule: str, fix: str
) -> None:
    block = found(budget(spec=spec, status=NEVER))
    assert block is not None
    assert rule in block.why
    assert block.fix.startswith(fix)


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_budget_selects_pods_as_kubernetes_does(selector: dict[str, Any] | None, selects: bool) -> None:
    assert (found(budget(spec={"selector": selector}, status=NEVER)) is not None) is selects


def test_a_budget_of_another_namespace_blocks_nothing() -> None:
    assert found(budget(namespace="speech", status=NEVER)) is None


def test_pods_are_grouped_by_reason_with_lasting_blocks_first() -> None:
    passing = Block(pods=("vision/z",), budgets=("vision/b",), forever=False, why="now")
    lasting = [
        Block(pods=(f"vision/{name}",), budgets=("vision/a",), forever=True, why="x", fix="y") for name in "ba"
    ]
    assert [block.pods for block in merged([passing, *lasting])] == [("vision/a", "vision/b"), ("vision/z",)]
