"""Messages that explain why a rollout of MIG layouts does not continue."""

from __future__ import annotations

import pytest

from gpu_platform.base import names
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.rollout.plan import NodeChange, PoolRollout
from gpu_platform.deploy.rollout.run import _AllPools, _PoolRoll
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning.sharing.section import MigRollPlan


@pytest.mark.parametrize(
    ("of_all_pools", "fix"),
    [
        (None, "sharing.max_unavailable: 2"),
        (2, "sharing.max_unavailable: 2"),
        (1, "sharing.max_unavailable: 2 and changes.max_unavailable: 2"),
    ],
)
def test_a_blocked_rollout_names_unavailable_nodes_and_limiting_fields(of_all_pools: int | None, fix: str) -> None:
    labels = {names.MIG_CONFIG_LABEL: "lab-new"}
    change = NodeChange(node="lab-1", pool="lab", old="", new="", labels=labels, allocatable={}, drains=True)
    rules = MigRollPlan(max_unavailable=1, drain_timeout_seconds=1, drains=True)
    pool = PoolRollout(pool="lab", rules=rules, changes=(change,), elsewhere=("lab-0",), nodes=2)
    limits = _AllPools(of_all_pools, (), lambda: "")
    roll = _PoolRoll(KubernetesClient.__new__(KubernetesClient), pool, "s", "", Progress(quiet=True), limits)
    roll.finish()
    [outcome] = roll.outcomes
    assert outcome.why == (
        "sharing.max_unavailable is 1, and these nodes are unavailable: lab-0; "
        f"`gpu-platform validate` shows what to do about each node, or write {fix}"
    )
