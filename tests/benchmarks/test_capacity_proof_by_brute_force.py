"""Every verdict of `capacity` equals the verdict of a brute-force search that shares no code with the planner."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import brute_force
import pytest
import random_stacks
from brute_force import TooLarge, fits, has_units
from capacity_proof import verdict_of_capacity
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_stacks import CLUSTERS, random_stack

from gpu_platform.base.errors import BadInput
from tests.support.size import size


@settings(max_examples=size(40, 4000))
@given(st.integers(0, 10**9))
def test_the_verdict_on_a_random_small_stack_equals_brute_force(seed: int) -> None:
    stack = random_stack(seed)
    try:
        verdict = verdict_of_capacity(stack)
        expected = fits(stack)
    except (BadInput, TooLarge):
        assume(False)
        return
    assert verdict == expected, stack


def test_the_random_stacks_have_both_verdicts_on_every_provider_and_hard_cases() -> None:
    providers = ("sandbox", "existing", "eks", "gke")
    every = {(provider, verdict) for provider in providers for verdict in ("placed", "impossible")}
    seen: set[tuple[str, str]] = set()
    hard = 0
    for seed in range(300):
        if seen == every and hard >= 10:
            break
        stack = random_stack(seed)
        try:
            seen.add((stack["cluster"]["provider"], verdict_of_capacity(stack)))
            hard += has_units(stack) and fits(stack) == "impossible"
        except (BadInput, TooLarge):
            continue
    assert seen == every
    assert hard >= 10


@pytest.mark.parametrize("module", [brute_force, random_stacks])
def test_what_proves_the_planner_does_not_import_it(module: Any) -> None:
    source = ast.parse(Path(module.__file__).read_text("utf-8"))
    imported = [alias.name for node in ast.walk(source) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.startswith(("gpu_platform", "tests", "ortools"))]


_NODES = {"selector": {"pool": "a"}}


def _stack(machine_type: str, *teams: dict[str, Any], provider: str = "sandbox", **pool: Any) -> dict[str, Any]:
    whole = {"name": "a", "machine_type": machine_type, "count": {"desired": 1}, "workload": "training", **pool}
    return {
        "kind": "environment",
        "cluster": CLUSTERS[provider],
        "pools": [whole],
        "teams": list(teams),
        # With a lower value, a stack whose quotas exceed the capacity would be refused without a verdict.
        "overcommit": 4.0,
    }


def _team(quota: dict[str, Any], *workloads: dict[str, Any]) -> dict[str, Any]:
    named = [
        {"name": f"w{index}", "pool": "a", "cpu": "100m", "memory": "100Mi", "gpus": 1, **one}
        for index, one in enumerate(workloads)
    ]
    members = ["group:red@example.com"]
    return {"name": "red", "members": members, "priority": "training", "quota": quota, "workloads": named}


def _of(*gpus: int) -> list[dict[str, Any]]:
    return [{"gpus": count} for count in gpus]


def _sliced(replicas: int) -> dict[str, Any]:
    return {"mode": "time-slicing", "replicas": replicas}


# Of 48 cores, 190m are reserved for the system and 50m for the sandbox's node agent, so pods can use 47760m.
@pytest.mark.parametrize(
    ("stack", "verdict"),
    [
        (_stack("g4dn.12xlarge", _team({"gpus": 4})), "placed"),
        (_stack("g4dn.12xlarge", _team({"gpus": 5})), "impossible"),
        (_stack("g4dn.12xlarge", _team({"gpus": 2}, {"cpu": "47760m"})), "impossible"),
        (_stack("g4dn.12xlarge", _team({"gpus": 1}, {"cpu": "47760m"})), "placed"),
        (_stack("g4dn.12xlarge", _team({"gpus": 1}, {"cpu": "47761m"})), "impossible"),
        # On an existing cluster, a node with 3 interfaces of 9 addresses each and 2 host pods can run 29 pods.
        # DaemonSets use 21 of these 29 pods.
        (
            _stack("g4dn.xlarge", _team({"shared": 8}), provider="existing", nodes=_NODES, sharing=_sliced(12)),
            "placed",
        ),
        (
            _stack("g4dn.xlarge", _team({"shared": 9}), provider="existing", nodes=_NODES, sharing=_sliced(12)),
            "impossible",
        ),
        # Pods with 5, 5, 4 and 2 GPUs on two nodes with 8 GPUs: no two of the three large pods share a node.
        (_stack("p4d.24xlarge", _team({"gpus": 15}, *_of(5, 5, 4)), count={"desired": 2}), "impossible"),
        (_stack("p4d.24xlarge", _team({"gpus": 16}, *_of(5, 5, 3, 3)), count={"desired": 2}), "placed"),
        # Pods with 3, 3 and 2 GPUs fit on two NUMA nodes with 4 GPUs, but the third pod needs both NUMA nodes.
        (_stack("p4d.24xlarge", _team({"gpus": 8}, *_of(3, 3, 2)), topology={"policy": "best-effort"}), "placed"),
        (
            _stack("p4d.24xlarge", _team({"gpus": 8}, *_of(3, 3, 2)), topology={"policy": "restricted"}),
            "impossible",
        ),
        (_stack("p4d.24xlarge", _team({"gpus": 8}, *_of(3, 4, 1)), topology={"policy": "restricted"}), "placed"),
        (_stack("p4d.24xlarge", _team({"gpus": 8}, *_of(5, 3)), topology={"policy": "restricted"}), "placed"),
        (
            _stack(
                "g2-standard-4",
                _team({"gpus": 2}),
                provider="gke",
                zones=["us-central1-a"],
                count={"desired": 1, "max": 2},
            ),
            "placed",
        ),
        (_stack("g4dn.xlarge", _team({"gpus": 2}), count={"desired": 1, "max": 2}), "placed"),
    ],
)
def test_brute_force_and_capacity_give_the_verdicts_of_a_hand_calculation(
    stack: dict[str, Any], verdict: str
) -> None:
    assert fits(stack) == verdict
    assert _verdict_or_refusal(stack) == verdict


def _verdict_or_refusal(stack: dict[str, Any]) -> str:
    """Return the verdict of `capacity`, or "impossible" if the planner refuses a pod as too large."""
    try:
        return verdict_of_capacity(stack)
    except BadInput as refusal:
        (problem,) = refusal.problems
        assert "because DaemonSets leave no more" in str(problem)
        return "impossible"
