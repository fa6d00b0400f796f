"""Calculate the maximum duration of a change from the limits that the program and the platform set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, duration_text
from gpu_platform.catalog import Catalog
from gpu_platform.planning.changes.pools import PoolChange
from gpu_platform.planning.clouds.daemonsets import HELM_SECONDS
from gpu_platform.planning.clouds.section import Timeouts
from gpu_platform.planning.mig.progress import CHANGE_SECONDS
from gpu_platform.planning.operator.driver_upgrades import EVICTION_SECONDS
from gpu_platform.planning.plan import EnvironmentPlan, Plan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.section import MigRollPlan

ENGINE_SECONDS: Final = 600
"""How long both engines wait until a Kubernetes object is ready or deleted, if the object has no other time limit.
"""
MIG_MANAGER_SECONDS: Final = 300
"""Time limit for the MIG manager of a node to become ready after its restart."""
MIG_OFFER_SECONDS: Final = 60
"""Time limit for a node to offer the new resources after the MIG manager reports success."""
SETTLE_SECONDS: Final = 60
"""How long `up` waits for the operands to reconcile a change after all objects are ready."""


@dataclass(frozen=True, slots=True)
class Duration:
    """The maximum duration of a change. `seconds` is None if nothing limits it.

    `why` names the limits that are added up or, if nothing limits the duration, the event that the change waits
    for.
    """

    seconds: int | None
    why: str

    def __str__(self) -> str:
        return (
            f"no limit: {self.why}"
            if self.seconds is None
            else f"at most {duration_text(self.seconds)} ({self.why})"
        )


# -- pools ------------------------------------------------------------------------------------------------------


def of_pool(
    change: PoolChange, platform: str, pool: PoolPlan | None, plan: EnvironmentPlan, nodes: int, catalog: Catalog
) -> Duration:
    """Return how long it can take to remove, shrink or replace a pool, or to change it by a rolling update.

    `platform` is the platform of the deployed pool. `pool` is the planned pool with the same name, or its
    successor. `nodes` is the number of affected nodes.
    """
    if plan.cluster.cloud is None:
        return _of_simulated_nodes(change)
    if change.effect == "rolled" and pool is not None and pool.cloud is not None:
        return _of_roll(platform, pool, nodes, catalog)
    old = plan.cluster.cloud.pool_timeouts.get(platform, Timeouts())
    deletion = old.delete or ENGINE_SECONDS
    drain = _drain_text(platform, "delete", catalog)
    if change.effect == "shrunk" and old.update is not None:
        return Duration(old.update, "the engine's limit for the update of the pool")
    if change.effect in ("removed", "shrunk"):
        return Duration(deletion, f"the engine's limit for the deletion of the pool{drain}")
    new = pool.cloud_nodes.timeouts if pool is not None and pool.cloud is not None else old
    creation = new.create or ENGINE_SECONDS
    beside = "; the replacement of the cluster takes additional time" if _replaces_cluster(change) else ""
    why = f"the engine's limits: {duration_text(creation)} for the new pool"
    why += f", {duration_text(deletion)} for the deletion of the old pool{drain}{beside}"
    return Duration(creation + deletion, why)


def _of_simulated_nodes(change: PoolChange) -> Duration:
    limit = duration_text(ENGINE_SECONDS)
    if change.effect in ("removed", "shrunk"):
        return Duration(ENGINE_SECONDS, "the engine's limit for the deletion of the Nodes, which are not drained")
    if change.effect == "renamed":
        return Duration(
            2 * ENGINE_SECONDS,
            f"the engine's limits: {limit} for the new Nodes, {limit} for the deletion of the old Nodes, which "
            "are not drained",
        )
    return Duration(ENGINE_SECONDS, "the engine's limit for the Nodes to become ready; they are not drained")


def _of_roll(platform: str, pool: PoolPlan, nodes: int, catalog: Catalog) -> Duration:
    assert pool.cloud is not None  # noqa: S101 - the caller's condition
    limits, update = pool.cloud_nodes.roll_limits, pool.cloud_nodes.timeouts.update
    if limits.unlimited or update is None:
        return Duration(None, limits.unlimited or "the engine does not wait for the cloud")
    how = "all nodes together" if limits.at_a_time is None else rounds_text(nodes, limits.at_a_time)
    return Duration(
        update, f"the engine's limit for the update of the pool: {how}{_drain_text(platform, 'update', catalog)}"
    )


def _drain_text(platform: str, action: str, catalog: Catalog) -> str:
    limit = catalog.drain_limits.get((platform, action))
    if limit is None:
        return ""
    return f", drain {duration_text(limit.seconds)} for each node, then {limit.then}"


def _replaces_cluster(change: PoolChange) -> bool:
    return change.effect == "replaced" and any(
        cause.field.startswith("cluster.") and cause.field != "cluster.provider" for cause in change.causes
    )


def rounds_of(nodes: int, at_a_time: int) -> int:
    """Return the number of rounds in which a change reaches all nodes. The minimum is one round."""
    return max(1, -(-nodes // max(1, at_a_time)))


def rounds_text(nodes: int, at_a_time: int) -> str:
    """Return the number and size of the rounds as text, such as `2 rounds of 3 nodes`."""
    count, size = rounds_of(nodes, at_a_time), max(1, min(at_a_time, nodes))
    return f"{counted(count, 'round')} of {counted(size, 'node')}"


# -- MIG layouts ------------------------------------------------------------------------------------------------


def mig_node_seconds(rules: MigRollPlan, *, again: bool = False) -> int:
    """Return the maximum number of seconds to change the MIG layout of one node, including the wait for disruption
    budgets.

    `again` means that the node's last change failed, so that the MIG manager has to change the layout twice.
    """
    drain = rules.drain_timeout_seconds if rules.drains else 0
    change = CHANGE_SECONDS + MIG_OFFER_SECONDS
    return 2 * drain + MIG_MANAGER_SECONDS + change * (2 if again else 1)


def of_mig(rules: MigRollPlan, nodes: int, at_a_time: int, *, again: bool = False) -> Duration:
    """Return how long it can take to change the MIG layout of live nodes. `again` means that a node's last change
    failed.
    """
    drain = duration_text(rules.drain_timeout_seconds)
    parts = [f"disruption budgets {drain}", f"drain {drain}"] if rules.drains else []
    parts.append(f"restart of the MIG manager {duration_text(MIG_MANAGER_SECONDS)}")
    parts.append(f"partition {duration_text(CHANGE_SECONDS)}{' twice' if again else ''}")
    parts.append(f"new resources {duration_text(MIG_OFFER_SECONDS)}{' twice' if again else ''}")
    seconds = rounds_of(nodes, at_a_time) * mig_node_seconds(rules, again=again)
    return Duration(seconds, f"{rounds_text(nodes, at_a_time)}: {', '.join(parts)}")


# -- software ---------------------------------------------------------------------------------------------------


def of_driver(plan: EnvironmentPlan, nodes: int, kept: int = 0) -> Duration:
    """Return how long a driver change on the nodes of all pools can take. There is no upper limit, because the
    operator waits for each node indefinitely.

    `nodes` is the number of nodes that wait for an upgrade slot. `kept` is the number of slots that are taken by
    nodes whose upgrade never finishes. Source: NVIDIA/k8s-operator-libs, pkg/upgrade. Eviction is limited by
    `podDeletion.timeoutSeconds`, and validation by 600 s. A node whose driver does not become ready fails only
    after a container has restarted more than ten times. Read 2026-11-22.
    """
    at_a_time = driver_upgrades_at_a_time(plan) - kept
    turns = (
        f"until the driver of a node is ready, {rounds_text(nodes, at_a_time)} over all pools"
        if at_a_time > 0
        else "for the nodes whose upgrade does not finish"
    )
    gate = plan.validation
    waits = (
        f"`up` waits for at most {duration_text(gate.timeout_seconds)} (validation.timeout)"
        if gate.gate
        else "`up` does not wait for it"
    )
    return Duration(
        None,
        f"the operator waits {turns}; GPU pods have {duration_text(EVICTION_SECONDS)} to terminate, otherwise the "
        f"node's upgrade fails; {waits}"
        + ("; the operator continues after the maintenance window closes" if plan.changes.window else ""),
    )


def driver_upgrades_at_a_time(plan: EnvironmentPlan) -> int:
    """Return how many nodes the operator's upgrade controller may upgrade at the same time."""
    policy = _mapping(_mapping(plan.operator.helm_values, "driver"), "upgradePolicy")
    found = policy or _mapping(_mapping(plan.operator.cluster_policy, "driver"), "upgradePolicy")
    return int(found.get("maxParallelUpgrades") or 1)


def of_operator(plan: EnvironmentPlan) -> Duration:
    """Return how long it can take to install another operator release."""
    if plan.operator.install == "helm":
        return Duration(
            HELM_SECONDS,
            "Helm's limit for the operator's own pods, after which Helm rolls back; "
            "the operator then replaces the pods on the nodes, without a limit",
        )
    return Duration(None, "the operator replaces its pods on each node; `up` does not wait for it")


def of_kubernetes(plan: EnvironmentPlan) -> Duration:
    """Return how long a change to the control plane's Kubernetes version can take."""
    cloud = plan.cluster.cloud
    if cloud is not None and cloud.create is not None and cloud.timeouts.update is not None:
        return Duration(cloud.timeouts.update, "the engine's limit for the update of the cluster")
    if plan.cluster.access == "sandbox":
        return Duration(
            None, "the sandbox stops and starts its control plane; a version that it lacks is built first"
        )
    return Duration(None, "the owner of the cluster upgrades Kubernetes, not `up`")


def of_sharing() -> Duration:
    """Return how long a change to the number of logical GPUs can take."""
    return Duration(
        None,
        "the device plugin of each node reloads its configuration; "
        f"`up` waits for the reload for at most {duration_text(SETTLE_SECONDS)}",
    )


# -- objects ----------------------------------------------------------------------------------------------------


def of_object(kind: str, namespace: str, name: str, plan: Plan, *, deleted: bool) -> Duration | None:
    """Return how long a change to a Kubernetes object can take, or None for a cloud resource.

    `kind` is either `Kind.group` or a Pulumi type token, which contains colons.
    """
    if ":" in kind:
        return None
    if deleted:
        return Duration(ENGINE_SECONDS, "the engine's limit for the deletion")
    if namespace in {team.namespace for team in plan.teams}:
        return Duration(
            None, f"`up` does not wait until the pods of {name} are ready; it reports the pods that are not ready"
        )
    if plan.kind == "environment" and namespace == names.VALIDATION_NAMESPACE and kind == "DaemonSet.apps":
        if not plan.validation.gate:
            return Duration(None, "without validation.gate, `up` does not wait for the validation")
        return Duration(plan.validation.timeout_seconds, "validation.timeout")
    return Duration(ENGINE_SECONDS, "the engine's limit for the object to become ready")


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return values.get(key) or {}
