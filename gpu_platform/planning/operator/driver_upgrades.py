"""Decide how the operator's upgrade controller replaces the driver on running nodes.

Sources: NVIDIA/gpu-operator v26.7.0, values.yaml, templates/clusterpolicy.yaml and cmd/gpu-operator/main.go
(gpuPodSpecFilter); NVIDIA/k8s-operator-libs, api/upgrade/v1alpha1 and pkg/upgrade; read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, duration_text
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.maintenance import plan_window
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.changes import Changes, Window

EVICTION_SECONDS: Final = 900
"""Time limit in seconds for evicting a node's pods. `up` uses the same limit when it changes a MIG layout. The
operator's default is 300.
"""
_ALL: Final = "100%"
"""Value of `maxUnavailable`, which also counts cordoned nodes and nodes that are not ready.

With a lower value, all upgrades would stop as soon as this many nodes are cordoned or not ready. A failed upgrade
keeps its slot of `maxParallelUpgrades`, which limits how far a bad driver spreads. Only cordoned nodes are
upgraded without a slot. A node that is not ready takes a slot like any other node, and keeps it until it is ready.
Source: pkg/upgrade/common_manager.go, GetUpgradesAvailable and GetUpgradesInProgress, and upgrade_inplace.go,
ProcessUpgradeRequiredNodes; read 2026-11-29.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDeletion:
    """Settings for evicting a node's GPU pods. With `force`, pods that no controller recreates are evicted too."""

    force: bool
    timeout_seconds: int
    delete_empty_dir: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode:
    """Settings for draining a node, which also evicts pods without GPUs."""

    enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePolicy:
    """Chart values for the upgrade controller. `gpu_pod_deletion` is named `podDeletion` in a ClusterPolicy."""

    auto_upgrade: bool
    max_parallel_upgrades: int
    max_unavailable: str
    gpu_pod_deletion: PodDeletion
    drain: DrainNode


def plan_upgrade_policy(
    resolved_pools: Sequence[ResolvedPool], changes: Changes, nodes: int
) -> Decided[UpgradePolicy]:
    """Return the upgrade policy for pools on which the operator installs the driver. `nodes` is the number of
    nodes in all these pools.
    """
    declared = [resolved.pool.upgrade.max_unavailable for resolved in resolved_pools]
    at_a_time = min((count for count in declared if count), default=changes.max_unavailable or 1)
    policy = UpgradePolicy(
        auto_upgrade=True,
        max_parallel_upgrades=at_a_time,
        max_unavailable=_ALL,
        gpu_pod_deletion=PodDeletion(force=False, timeout_seconds=EVICTION_SECONDS, delete_empty_dir=True),
        drain=DrainNode(enable=False),
    )
    which = (
        "lowest upgrade.max_unavailable"
        if any(declared)
        else "changes.max_unavailable"
        if changes.max_unavailable
        else "changes.max_unavailable is not set"
    )
    decision = Decision(
        subject="operator",
        what="driver upgrade",
        chosen=f"{counted(at_a_time, 'node')} at a time",
        why=f"{which}; cordoned nodes do not count towards this limit; GPU pods are evicted within "
        f"{duration_text(EVICTION_SECONDS)}, as PodDisruptionBudgets allow",
    )
    raised = "upgrade.max_unavailable" if any(declared) else "changes.max_unavailable"
    return Decided(policy, (decision, *_window_warning(changes.window, nodes, at_a_time, raised)))


def _window_warning(window: Window | None, nodes: int, at_a_time: int, raised: str) -> tuple[Decision, ...]:
    """Return a warning if a maintenance window may close before all nodes have the new driver.

    The operator's policy has no time window. `raised` is the field that allows more nodes at a time.
    """
    rounds = -(-nodes // at_a_time)
    planned = plan_window(window)
    if planned is None or rounds * EVICTION_SECONDS < planned.seconds:
        return ()
    return (
        Decision(
            subject="operator",
            what="warning: driver upgrade",
            chosen=f"{counted(nodes, 'node')} may take longer than the window of {duration_text(planned.seconds)}",
            why=f"{counted(rounds, 'round')} of at most {duration_text(EVICTION_SECONDS)} for evictions, plus "
            "the time to replace the driver; the operator continues after the window closes. Allow more nodes at "
            f"a time ({raised}) or a longer window, or stop the upgrade with the label "
            f"{names.DRIVER_UPGRADE_SKIP_LABEL}=true on the waiting nodes",
        ),
    )


def as_cluster_policy(driver: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart's section `driver` with the field names of a ClusterPolicy, where `gpuPodDeletion` is named
    `podDeletion`.
    """
    policy = dict(driver.get("upgradePolicy") or {})
    if not policy:
        return dict(driver)
    policy["podDeletion"] = policy.pop("gpuPodDeletion")
    return {**driver, "upgradePolicy": policy}
