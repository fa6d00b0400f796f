"""`up` and `preview` for live nodes whose MIG layout changes: shown before, changed one by one, held after."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from gpu_platform.cluster_access import client_of
from gpu_platform.errors import UnknownOutcome
from gpu_platform.planning import EnvironmentPlan, Plan
from gpu_platform.progress import Progress
from gpu_platform.rollout.hold import hold, release
from gpu_platform.rollout.live import read_cluster
from gpu_platform.rollout.node import Outcome
from gpu_platform.rollout.plan import Rollout, plan_rollout
from gpu_platform.rollout.run import roll


def preview_rollout(plan: Plan, outputs: Mapping[str, Any]) -> Rollout | None:
    """Say on standard error which nodes `up` would drain and change; None where the cluster does not tell."""
    try:
        rollout = _rollout(plan, outputs)
    except UnknownOutcome as reason:
        print(f"not looked at for nodes whose MIG layout changes: {reason}", file=sys.stderr)
        return None
    _warn(rollout)
    return rollout


def rollout_as_json(rollout: Rollout | None) -> list[dict[str, Any]] | None:
    """Return the nodes of a rollout for a JSON report."""
    return None if rollout is None else [change.to_json() for change in rollout.changes if change.drains]


def change_nodes(plan: Plan, outputs: Mapping[str, Any], progress: Progress) -> tuple[Outcome, ...]:
    """Bring live nodes to their new MIG layout, node by node; raises RolloutFailed where one does not get it."""
    rollout = _rollout(plan, outputs)
    if plan.kind != "environment" or not rollout.changes:
        return ()
    _warn(rollout)
    with progress.step("changing MIG layouts"):
        return roll(client_of(plan), plan, rollout, progress)


def hold_nodes(plan: Plan) -> None:
    """Keep the nodes' layouts from an engine that would change them all at once."""
    # On a cloud whoever owns the node pool writes labels without regard to who holds them.
    if plan.kind == "environment" and plan.cluster.cloud is None:
        hold(client_of(plan), plan)


def release_nodes(plan: Plan) -> None:
    """Let go of the nodes of somebody else's cluster, once the stack is destroyed."""
    if plan.kind == "environment" and plan.cluster.access == "kubeconfig":
        release(client_of(plan), plan.stack)


def _rollout(plan: Plan, outputs: Mapping[str, Any]) -> Rollout:
    if plan.kind != "environment" or not _is_there(plan, outputs):
        return Rollout()
    return plan_rollout(plan, read_cluster(client_of(plan)))


def _is_there(plan: EnvironmentPlan, outputs: Mapping[str, Any]) -> bool:
    """Return whether there are nodes to look at: a cloud's cluster is reached by what the last deployment says."""
    return plan.cluster.cloud is None or bool(outputs)


def _warn(rollout: Rollout) -> None:
    for pool in rollout.drained:
        print(f"warning: {pool}", file=sys.stderr)
