"""Handles live nodes whose MIG layout changes. `preview` shows them. `up` drains and changes them, and keeps their
MIG labels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.names import MIG_CONFIG_LABEL
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.rollout.hold import hold, release
from gpu_platform.deploy.rollout.live_cluster import read_cluster
from gpu_platform.deploy.rollout.node import Outcome
from gpu_platform.deploy.rollout.plan import Rollout, plan_rollout
from gpu_platform.deploy.rollout.run import roll
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.live_objects import LiveObjects, ObjectsOnce
from gpu_platform.planning import EnvironmentPlan, Plan


def preview_rollout(plan: Plan, outputs: Mapping[str, Any], objects: ObjectsOnce) -> Rollout | None:
    """Return the nodes that `up` would drain and change.

    If the cluster does not answer, print a line and return None.
    """
    try:
        return _rollout(plan, outputs, objects.cluster, objects.read)
    except UnknownOutcome as reason:
        print(f"MIG layouts of live nodes were not checked: {reason}", file=sys.stderr)
        return None


def rollout_as_json(rollout: Rollout | None) -> list[dict[str, Any]] | None:
    """Return the nodes that a rollout drains, for a JSON report."""
    return None if rollout is None else [change.to_json() for change in rollout.changes if change.drains]


def change_nodes(
    plan: Plan, outputs: Mapping[str, Any], cluster: ClusterAccess, progress: Progress, closed: Callable[[], str]
) -> tuple[Outcome, ...]:
    """Change the MIG layout of live nodes, node by node. Raises RolloutFailed if the change to a node fails.

    `closed` returns the reason why no further node may be changed, or an empty string.
    """
    rollout = _rollout(plan, outputs, cluster)  # read again, because time has passed since the announcement
    if plan.kind != "environment" or not rollout.changes:
        return ()
    with progress.step("changing MIG layouts"):
        return roll(cluster.client(), plan, rollout, progress, closed)


def rolled_configs(plan: Plan) -> dict[str, str]:
    """Return, for each pool, the MIG config that all live nodes of the pool have after `change_nodes`."""
    pools = plan.pools if plan.kind == "environment" else ()
    return {pool.name: pool.labels[MIG_CONFIG_LABEL] for pool in pools if MIG_CONFIG_LABEL in pool.labels}


def hold_nodes(plan: Plan, cluster: ClusterAccess) -> None:
    """Take ownership of the MIG labels of nodes, so that no engine can change all layouts at the same time."""
    # In a cloud, the node pool sets its labels regardless of field managers.
    if plan.kind == "environment" and plan.cluster.cloud is None:
        hold(cluster.client(), plan)


def release_nodes(plan: Plan, cluster: ClusterAccess) -> None:
    """Release the ownership of MIG labels on an existing cluster after the stack is destroyed."""
    if plan.kind == "environment" and plan.cluster.access == "kubeconfig":
        release(cluster.client(), plan.stack)


def _rollout(
    plan: Plan,
    outputs: Mapping[str, Any],
    cluster: ClusterAccess,
    objects: Callable[[], LiveObjects] | None = None,
) -> Rollout:
    if plan.kind != "environment" or not _cluster_exists(plan, outputs):
        return Rollout()
    return plan_rollout(plan, read_cluster(cluster.client(), objects))


def _cluster_exists(plan: EnvironmentPlan, outputs: Mapping[str, Any]) -> bool:
    """Return whether the cluster may exist. A cloud cluster exists only after a deployment with outputs."""
    return plan.cluster.cloud is None or bool(outputs)
