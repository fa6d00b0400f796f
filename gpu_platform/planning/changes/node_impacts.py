"""Impact on nodes and their pods when pools, MIG layouts, software versions or sharing change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.errors import Problem
from gpu_platform.base.quantity import counted, duration_text
from gpu_platform.catalog import Catalog
from gpu_platform.planning.changes import durations
from gpu_platform.planning.changes.declared_properties import property_of
from gpu_platform.planning.changes.deployed import (
    NOT_DEPLOYED,
    evicting_taints,
    mapping_of,
    software_facts,
    texts_of,
    units_of,
)
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, Part, Phase, short
from gpu_platform.planning.changes.live_types import LiveState, RunningPod
from gpu_platform.planning.changes.pool_facts import platform_of, properties
from gpu_platform.planning.changes.pools import (
    PoolChange,
    loses_autoscaler,
    recreated_pools,
    resized_pools,
    sized_pools,
    unused_sizes,
    unused_text,
)
from gpu_platform.planning.clouds.schedules import DRAIN_SECONDS
from gpu_platform.planning.clouds.section import ALL_ZONES
from gpu_platform.planning.kubernetes_versions import minor_version
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_POOL_EFFECTS: Final = {
    "removed": Effect.REMOVES_CAPACITY,
    "shrunk": Effect.REMOVES_CAPACITY,
    "renamed": Effect.REPLACES,
    "replaced": Effect.REPLACES,
    "rolled": Effect.ROLLS_NODES,
}
_EMPTY_FIRST: Final = (
    "undo the change, set {path}.count.desired: 0 and min: 0, and run `up`; "
    "then make the change again, run `up`, and restore count; nothing was changed"
)
_PARTITIONED: Final = "a GPU is partitioned again only while no process uses it"
# The operator's upgrade controller is on by default, and upgrades one node at a time (maxParallelUpgrades).
# Source: NVIDIA GPU Operator docs, "GPU Driver Upgrades", read 2026-11-22.
_DRIVER_ORDER: Final = "cordon, evict its GPU pods, restart the driver, validate, uncordon"


def impact_of_pool(
    change: PoolChange,
    plan: EnvironmentPlan,
    live: LiveState | None,
    deployed: Mapping[str, Any],
    catalog: Catalog,
) -> Impact:
    """Return the impact of a pool change that removes nodes. `deployed` contains the pool's facts from the last
    deployment.
    """
    replaced = "each" if change.effect == "rolled" else "the old pool"
    order = {
        None: "",
        "delete-first": f"{replaced} is deleted before its replacement is created",
        "create-first": "the replacement is created first",
    }[change.order]
    because = "; ".join(
        dict.fromkeys(cause.because + (f" ({cause.source})" if cause.source else "") for cause in change.causes)
    )
    nodes = None if live is None else live.nodes.get(change.pool, ())
    count = int(deployed.get("nodes") or 0) if nodes is None else len(nodes)
    gpus = count * int(deployed["gpus_per_node"])
    if change.effect == "shrunk":
        count, gpus = change.nodes, change.gpus
        kept = {name for pool in plan.pools if pool.name == change.pool for name in pool.nodes.names}
        if kept and nodes is not None:
            nodes = tuple(name for name in nodes if name not in kept)
        elif not change.causes[0].field.endswith(".blocks"):
            because += "; the cloud chooses which nodes are deleted, so all pods of the pool are listed"
    planned = {pool.name: pool for pool in plan.pools}.get(change.successor or change.pool)
    if change.effect == "rolled":
        needed = planned.cloud_nodes.roll_limits.only_while if planned is not None else ""
        only_while = f", {needed}" if needed else ""
        order = f"one node after another{only_while}; {order}"
    if change.protected:
        because += "; the pool is protected, so `up` refuses"
    refusal = _needs_empty(change, planned, count)
    if refusal is not None:
        because += f"; {refusal.allowed}, so `up` refuses"
    return Impact(
        subject=f"pool {change.pool}",
        effect=_POOL_EFFECTS[change.effect],
        field=", ".join(cause.field for cause in change.causes),
        old="; ".join(cause.old for cause in change.causes),
        new="; ".join(cause.new for cause in change.causes),
        nodes=count,
        gpus=gpus,
        pods=None if live is None or nodes is None else live.pods_on(nodes),
        order=order,
        duration=durations.of_pool(change, str(deployed.get("platform")), planned, plan, count, catalog),
        parts=_parts_of_pool(change, plan),
        because=because,
        changes_nodes=True,
        refusal=refusal,
    )


def _needs_empty(change: PoolChange, pool: PoolPlan | None, nodes: int) -> Problem | None:
    """Return why a rolling update of the pool's existing nodes is impossible, or None if it is possible."""
    if change.effect != "rolled" or not nodes or pool is None or pool.cloud is None:
        return None
    why = pool.cloud_nodes.roll_limits.needs_empty
    fields = ", ".join(cause.field for cause in change.causes)
    found = f"a rolling update of {counted(nodes, 'node')} of pool {change.pool}"
    return Problem(fields, found, why, _EMPTY_FIRST.format(path=pool.path)) if why else None


def impacts_of_resized(
    previous: Mapping[str, Any], plan: EnvironmentPlan, live: LiveState | None, covered: set[str]
) -> Iterator[Impact]:
    """Yield the impact on pools that lose nodes because `up` sets the number of nodes to `desired`.

    An autoscaler or a person has added these nodes, and `desired` is not lower than before. Pools in `covered` are
    skipped, because another impact covers them. If the cluster was not read, only pools that lose their autoscaler
    are included.
    """
    edited, is_set = resized_pools(previous, plan), sized_pools(previous, plan)
    for pool in plan.pools:
        if pool.name not in is_set or pool.name in covered:
            continue
        deployed, desired = mapping_of(previous.get(pool.name)), pool.nodes.desired
        members: tuple[str, ...] | None = None
        if live is not None:
            members = live.nodes.get(pool.name, ())
            if pool.name not in edited:  # the Node of an instance that is being replaced may still exist
                members = tuple(name for name in members if name not in live.not_ready)
        elif not loses_autoscaler(deployed, pool, plan):
            continue
        present = int(deployed.get("most_nodes", 0)) if members is None else len(members)
        if present <= desired:
            continue
        gone = present - desired
        because = (
            f"an edit of count sets the number of nodes to desired; write desired: {present} to keep them"
            if pool.name in edited
            else "without an autoscaler, `up` sets the number of nodes to desired, no matter who changed it; "
            f"to keep them, write count: {{desired: {_in_each_zone(present, pool)}}}"
        )
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.REMOVES_CAPACITY,
            field=f"{pool.path}.count",
            old=f"at most {counted(present, 'node')}" if members is None else f"{counted(present, 'node')} now",
            new=str(desired),
            nodes=gone,
            gpus=gone * pool.gpus_per_node,
            pods=None if live is None or members is None else live.pods_on(members),
            parts=(
                Part(Phase.NODES, f"pool {pool.name}", "the nodes in excess of the new node count are deleted"),
            ),
            because=f"{because}; the cloud chooses which nodes are deleted, so all pods of the pool are listed",
            changes_nodes=True,
        )


def _in_each_zone(nodes: int, pool: PoolPlan) -> int:
    """Round a node count up to a multiple of the number of zones, if the pool's platform requires the same number
    of nodes in each zone.
    """
    return nodes + -nodes % (len(pool.cloud_nodes.zones) or 1) if pool.cloud_nodes.equal_zones else nodes


def impacts_of_unused_sizes(
    previous: Mapping[str, Any], plan: EnvironmentPlan, changes: Sequence[PoolChange]
) -> Iterator[Impact]:
    """Yield an impact for each edit to `desired` that changes no nodes, because `desired` applies only when the
    pool is created.
    """
    unused = unused_sizes(previous, plan, recreated_pools(changes))
    for pool in plan.pools:
        if pool.name in unused:
            yield Impact(
                subject=f"pool {pool.name}",
                effect=Effect.IN_PLACE,
                field=f"{pool.path}.count.desired",
                old=str(unused[pool.name]),
                new=str(pool.nodes.desired),
                because=unused_text(pool),
            )


def impacts_of_left_zones(
    previous: Mapping[str, Any], plan: EnvironmentPlan, changes: Sequence[PoolChange]
) -> Iterator[Impact]:
    """Yield a refusal for each pool that no longer sets zones, because the cloud would not move the pool out of
    its present zones.

    A pool that is replaced moves to the zones of the cluster, because Pulumi creates it from the program's inputs,
    including properties in `ignore_changes`. Sources: pulumi_gcp, container.NodePool, nodeLocations ("will not
    revert upon being unset"); pulumi/pulumi at 1b594989, pkg/resource/deploy/step_generator.go; read 2026-11-29.
    """
    replaced = recreated_pools(changes)
    for pool in plan.pools:
        platform, deployed = platform_of(pool), mapping_of(previous.get(pool.name))
        name = property_of("zones", platform)
        if name is None or deployed.get("platform") != platform or pool.name in replaced:
            continue
        old = mapping_of(deployed.get("properties")).get(name, ALL_ZONES)
        if old == ALL_ZONES or properties(pool, plan)[name] != ALL_ZONES:
            continue
        if plan.cluster.cloud is not None and set(old.split(", ")) == set(plan.cluster.cloud.known_zones):
            continue  # the pool is already in all zones
        stays = f"it stays in {old}, because unset zones do not change an existing pool"
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.IN_PLACE,
            field=f"{pool.path}.zones",
            old=str(old),
            new=ALL_ZONES,
            because=f"{stays}, so `up` refuses",
            refusal=Problem(
                f"{pool.path}.zones",
                f"no zones for pool {pool.name}, which is in {old}",
                f"a list of zones: {stays}",
                f"write zones: [{old}] to leave it there, or all zones that it should have; `preview` then shows "
                "what moves. Nothing was changed",
            ),
        )


def _parts_of_pool(change: PoolChange, plan: EnvironmentPlan) -> tuple[Part, ...]:
    """Return the steps that `up` takes for a pool. Deletion is the last step, unless the old pool must be deleted
    before its replacement is created.
    """
    subject = f"pool {change.pool}"
    deleted = Part(Phase.DELETION, subject, "deleted")
    if change.effect == "removed":
        return (deleted,)
    if change.effect == "shrunk":
        in_sandbox = plan.cluster.cloud is None  # real clouds delete nodes while they update the pool
        return (
            Part(
                Phase.DELETION if in_sandbox else Phase.NODES,
                subject,
                "the nodes in excess of the new node count are deleted",
            ),
        )
    if change.successor is not None:
        return (Part(Phase.NODES, f"pool {change.successor}", "created"), deleted)
    if change.effect == "replaced" and change.order == "create-first":
        return (
            Part(Phase.NODES, subject, "the new pool is created"),
            Part(Phase.DELETION, subject, "the old pool is deleted"),
        )
    if change.effect == "replaced":
        text = "deleted, then created again" if change.order else "the Nodes change in place"
        return (Part(Phase.NODES, subject, text),)
    pool = next(pool for pool in plan.pools if pool.name == change.pool)
    by_itself = pool.cloud_nodes.roll_limits.unlimited
    text = (
        "the definition changes; the nodes are replaced later, without `up`"
        if by_itself
        else "rolling update of the nodes"
    )
    return (Part(Phase.NODES, subject, text),)


def impacts_of_mig(
    changes: Sequence[MigNodeChange], plan: EnvironmentPlan, live: LiveState | None
) -> Iterator[Impact]:
    by_pool: dict[str, list[MigNodeChange]] = {}
    for change in changes:
        by_pool.setdefault(change.pool, []).append(change)
    planned = {pool.name: pool for pool in plan.pools}
    limits = _of_layouts(by_pool, planned, plan.changes.max_unavailable)
    for name, nodes in by_pool.items():
        at_a_time = nodes[0].at_a_time
        pods = None if live is None else _drained(live, [change.node for change in nodes])
        order = f"{at_a_time} at a time: cordon, drain, partition, validate, uncordon"
        if any(pod.block is not None and pod.block.forever for pod in pods or ()):
            order += "; `up` stops at a node that cannot be drained, before it applies anything else"
        yield Impact(
            subject=f"pool {name}",
            effect=Effect.ROLLS_NODES,
            field=f"{planned[name].path}.sharing.layout",
            old=nodes[0].old,
            new=nodes[0].new,
            nodes=len(nodes),
            gpus=len(nodes) * planned[name].gpus_per_node,
            pods=pods,
            order=order,
            duration=limits[name],
            node_names=tuple(node.named(nodes[0].old) for node in nodes),
            parts=(_layout_part(name),),
            because=_PARTITIONED,
            changes_nodes=True,
        )


def impacts_of_replaced_nodes(
    plan: EnvironmentPlan, live: LiveState | None, because: str, covered: Collection[str] = ()
) -> Iterator[Impact]:
    """Yield the impact of an upgrade on each pool whose nodes the upgrade drains. Pools that keep their version
    are not affected.

    Pools in `covered` are skipped, because another impact covers them.
    """
    for pool in plan.pools:
        if pool.name in covered or pool.cloud_nodes.keeps_version:
            continue
        members = None if live is None else live.nodes.get(pool.name, ())
        count = pool.nodes.desired if members is None else len(members)
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.ROLLS_NODES,
            field="",
            old="",
            new="",
            nodes=count,
            gpus=count * pool.gpus_per_node,
            pods=None if live is None or members is None else live.pods_on(members),
            duration=durations.Duration(None, "the owner of the nodes decides when the nodes are upgraded"),
            because=because,
        )


def _of_layouts(
    by_pool: Mapping[str, Sequence[MigNodeChange]], planned: Mapping[str, PoolPlan], most: int | None
) -> dict[str, durations.Duration]:
    """Return how long the layout change in each pool can take.

    `most` is the maximum number of nodes across all pools that may be unavailable at a time, or None for no limit.
    """
    found: dict[str, durations.Duration] = {}
    for name, nodes in by_pool.items():
        rules, at_a_time = planned[name].sharing.mig_roll, nodes[0].at_a_time
        assert rules is not None  # noqa: S101 - `up` rolls no other nodes
        together = at_a_time if most is None else min(at_a_time, most)
        found[name] = durations.of_mig(rules, len(nodes), together, again=any(node.failed for node in nodes))
    if most is None or len(found) == 1:
        return found
    total = sum(duration.seconds or 0 for duration in found.values())
    because = f"together with the other pools, because changes.max_unavailable is {most}"
    return {name: durations.Duration(total, f"{because}; {duration.why}") for name, duration in found.items()}


def _drained(live: LiveState, nodes: Iterable[str]) -> tuple[RunningPod, ...]:
    """Return the running pods on nodes that `up` or the operator drains, and the DaemonSet pods that keep their
    GPUs during the drain.
    """
    wanted = set(nodes)
    daemons = (pod for pod in live.daemons if pod.node in wanted)
    return (*(pod.in_drain() for pod in live.pods_on(wanted)), *daemons)


def _layout_part(pool: str) -> Part:
    return Part(Phase.LAYOUTS, f"pool {pool}", "MIG layout, node by node")


def impacts_of_software(
    previous: object, plan: EnvironmentPlan, live: LiveState | None, covered: tuple[set[str], set[str]]
) -> Iterator[Impact]:
    """Yield the impact of changed software versions, and of changes to the resources that nodes offer.

    Pools in `covered` are skipped, because another impact covers them.
    """
    before = mapping_of(previous)
    if not before:
        return
    now = software_facts(plan)
    if _differs(before, now, "kubernetes"):
        problem = _kubernetes_problem(str(before["kubernetes"]), plan, live)
        phase = Phase.SANDBOX if plan.cluster.access == "sandbox" else Phase.CLUSTER
        yield Impact(
            subject="cluster",
            effect=Effect.IN_PLACE,
            field="kubernetes",
            old=str(before["kubernetes"]),
            new=now["kubernetes"],
            duration=durations.of_kubernetes(plan),
            parts=(Part(phase, "cluster", f"Kubernetes {now['kubernetes']}"),),
            because="the control plane is upgraded; nodes follow with their pools"
            if problem is None
            else f"{problem.allowed}, so `up` refuses",
            refusal=problem,
        )
    if _differs(before, now, "operator"):
        yield Impact(
            subject="operator",
            effect=Effect.RESTARTS_PODS,
            field="operator",
            old=str(before["operator"]),
            new=now["operator"],
            duration=durations.of_operator(plan),
            parts=(Part(Phase.NODES, "operator", "another release"),),
            because="the operator's pods are replaced, including the pods on the nodes; a release that changes "
            "the driver DaemonSet also replaces the drivers node by node, as a new driver version does",
        )
    if before.get("cleanup", now["cleanup"]) != now["cleanup"]:
        yield _of_cleanup(str(before["cleanup"]), now["cleanup"])
    fair, was_fair = now["fair_sharing"], before.get("fair_sharing")
    if fair is not None and was_fair is not None and fair != was_fair:
        yield _of_fair_sharing(fair=fair)
    pools = mapping_of(before.get("pools"))
    lost, partitioned = covered
    # The operator is installed for the first time, or is removed together with its operands.
    moves = NOT_DEPLOYED in (before.get("operator"), now["operator"])
    offered = {name for pool in plan.pools for name in pool.units_per_node}
    gone = {name for facts in pools.values() for name in units_of(mapping_of(facts).get("offers"))} - offered
    for pool in plan.pools:
        if pool.name not in pools:
            continue
        old, new = mapping_of(pools[pool.name]), now["pools"][pool.name]
        other_layout = old.get("layout", new["layout"]) != new["layout"]
        if pool.name not in lost:
            rows = _of_owners(pool, old, new, live, plan)
            yield from rows if not moves else (replace(row, field="cluster.parts.gpu_operator") for row in rows)
            yield from _of_nodes(pool, old, new, live, plan, layout=other_layout and pool.name not in partitioned)
            yield from _of_node_metadata(pool, old, new, live)
            yield from _of_schedule(pool, mapping_of(old.get("schedule")), mapping_of(new["schedule"]))
        if pool.name in lost or other_layout:
            yield from _of_fewer_units(pool, old, new, live, gone)
        else:
            yield from _of_sharing(pool, old, new, live)
    released = (
        pools.keys() - lost - {pool.name for pool in plan.pools}
    )  # pools that the stack file no longer declares and whose nodes another owner manages
    for name in sorted(released):
        yield _of_released_pool(name, mapping_of(pools[name]), live)
    left = set[str]() if live is None else _released_nodes(plan, released, live)
    if live is not None and not left.isdisjoint(live.held):
        yield _of_held({node: keys for node, keys in sorted(live.held.items()) if node in left})
    if gone:
        yield _of_gone(sorted(gone), live)


def _kubernetes_problem(deployed: str, plan: EnvironmentPlan, live: LiveState | None) -> Problem | None:
    """Return why the cloud cannot change the Kubernetes version, or None if it can.

    The planned version is compared with the running version if the cluster was read, and otherwise with the
    `deployed` version.
    """
    running = minor_version(live.kubernetes) if live is not None and live.kubernetes is not None else None
    cloud = plan.cluster.cloud
    return cloud.kubernetes_problem(running or deployed) if cloud is not None else None


def _differs(before: Mapping[str, Any], now: Mapping[str, Any], key: str) -> bool:
    return key in before and before[key] not in (now[key], NOT_DEPLOYED)


def _of_cleanup(old: str, new: str) -> Impact:
    """Return the impact of changing which objects the clean-up deletes."""
    return Impact(
        subject="clean-up",
        effect=Effect.IN_PLACE if new == NOT_DEPLOYED else Effect.REMOVES_CAPACITY,
        field="cleanup",
        old=f"deletes {old}",
        new=f"deletes {new}",
        parts=(Part(Phase.TEAMS, "clean-up", "changed rules for deletion"),),
        because="nothing in team namespaces is deleted any more"
        if new == NOT_DEPLOYED
        else "the next run of the clean-up deletes these team workloads and their pods; volumes stay",
    )


def _of_fair_sharing(*, fair: bool) -> Impact:
    """Return the impact of turning fair sharing on or off. With fair sharing, borrowed quota is divided according
    to the teams' weights.
    """
    texts = ("the first team that requests quota borrows it", "teams borrow in proportion to their weights")
    return Impact(
        subject="queues",
        effect=Effect.RESTARTS_PODS if fair else Effect.REMOVES_CAPACITY,
        field="queueing.fair_sharing",
        old=texts[not fair],
        new=texts[fair],
        parts=(Part(Phase.TEAMS, "queues", "fair sharing"),),
        because="Kueue preempts workloads of a team that borrows more than its fair share, "
        "so that a team that borrows less can start its workloads, unless queueing.preemption.reclaim is never; "
        "preempted workloads return to the queue and start from the beginning"
        if fair
        else "Kueue no longer preempts workloads of a team that borrows more than its fair share, so these "
        "workloads run until they finish, or until the owner of the quota needs it",
    )


def _of_schedule(pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Impact]:
    """Yield the impact of a changed schedule.

    Adding or removing a schedule changes properties of the pool, so another impact covers it.
    """
    if not old or not new or old["text"] == new["text"]:
        return
    fewer = float(new["hours"]) < float(old["hours"])
    yield Impact(
        subject=f"pool {pool.name}",
        effect=Effect.REMOVES_CAPACITY if fewer else Effect.IN_PLACE,
        field=f"{pool.path}.schedule",
        old=str(old["text"]),
        new=str(new["text"]),
        parts=(Part(Phase.NODES, f"pool {pool.name}", "changed schedule"),),
        because="workloads that are still running when the pool stops are terminated after "
        f"{duration_text(DRAIN_SECONDS)}, as before; only the stop times change",
    )


def _of_nodes(
    pool: PoolPlan,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    live: LiveState | None,
    plan: EnvironmentPlan,
    *,
    layout: bool,
) -> Iterator[Impact]:
    nodes = _node_count(pool, live)
    pods = None if live is None else _drained(live, live.nodes.get(pool.name, ()))
    before, now = old.get("driver_at_boot", NOT_DEPLOYED), new["driver_at_boot"]
    if before != now and NOT_DEPLOYED not in (before, now) and nodes:
        how = f" To replace one: {pool.cloud_nodes.replacement}." if pool.cloud is not None else ""
        named = " `gpu-platform validate` lists the nodes with another driver (driver-version)"
        if pool.driver_version is None:
            named = " The driver of the image is not known, so `validate` does not compare drivers"
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.IN_PLACE,
            field="operator.driver.version",
            old=str(before),
            new=now,
            nodes=nodes,
            gpus=nodes * pool.gpus_per_node,
            parts=(Part(Phase.NODES, f"pool {pool.name}", "another driver for newly booted nodes"),),
            because="nodes get their driver when they boot: running nodes keep the old driver until then, and "
            "`up` does not reboot them; a reboot after a fault also changes the driver."
            f"{how}{named}",
        )
    if layout:
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.ROLLS_NODES,
            field=f"{pool.path}.sharing.layout",
            old=str(old["layout"]),
            new=new["layout"],
            nodes=nodes,
            gpus=nodes * pool.gpus_per_node,
            pods=pods,
            duration=_of_unread_layout(pool, nodes),
            parts=(_layout_part(pool.name),),
            because=_PARTITIONED,
            changes_nodes=True,
        )


def _of_owners(
    pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], live: LiveState | None, plan: EnvironmentPlan
) -> Iterator[Impact]:
    """Yield the impact of a changed version of the operator's driver, and of components that the operator adds or
    removes.
    """
    before, now = old.get("driver", new["driver"]), new["driver"]
    if before != now and NOT_DEPLOYED in (before, now):
        yield _of_driver_owner(pool, before, now, live)
    elif before != now:
        yield _of_driver(pool, before, now, live, plan)
    operands = texts_of(old.get("operands", new["operands"]))
    for operand in _OPERAND_FIELDS:
        installed = operand in new["operands"]
        if (operand in operands) != installed:
            yield _of_operand(pool, operand, _node_count(pool, live), installed=installed)


def _of_driver(pool: PoolPlan, old: str, new: str, live: LiveState | None, plan: EnvironmentPlan) -> Impact:
    nodes = _node_count(pool, live)
    pods = None if live is None else _drained(live, live.nodes.get(pool.name, ()))
    places = _driver_places(plan, live)
    return Impact(
        subject=f"pool {pool.name}",
        effect=Effect.ROLLS_NODES,
        field="operator.driver.version",
        old=old,
        new=new,
        nodes=nodes,
        gpus=nodes * pool.gpus_per_node,
        pods=None if pods is None else tuple(pod for pod in pods if pod.gpu),
        order=_driver_order(plan, places),
        duration=durations.of_driver(plan, places.waiting, places.kept),
        parts=(Part(Phase.NODES, f"pool {pool.name}", "the operator replaces the driver, node by node"),),
        because="a driver is replaced only while no process uses its GPUs",
        changes_nodes=True,
    )


def _of_driver_owner(pool: PoolPlan, old: str, new: str, live: LiveState | None) -> Impact:
    """Return the impact on existing nodes if the operator starts or stops managing their driver.

    If the operator's driver is turned off, the operator deletes the driver's DaemonSet at once, without its
    upgrade controller. The driver's pod does nothing on a node whose host has a driver. Sources:
    NVIDIA/gpu-operator, controllers/object_controls.go (DaemonSet); its release notes
    (`nvidia.com/gpu.deploy.driver=pre-installed`); read 2026-11-29.
    """
    nodes, subject = _node_count(pool, live), f"pool {pool.name}"
    impact = Impact(
        subject=subject,
        effect=Effect.IN_PLACE,
        field="operator.driver.owner",
        old=old,
        new=new,
        nodes=nodes,
        gpus=nodes * pool.gpus_per_node,
        parts=(Part(Phase.NODES, subject, "the operator installs its driver on hosts without a driver"),),
        because="a node whose host has a driver keeps it, and fails validation if its version differs; to get the "
        "operator's driver, remove the host's driver and the node's label "
        f"{names.DEPLOY_DRIVER_LABEL}, and reboot the node",
    )
    if new != NOT_DEPLOYED:
        return impact
    on_nodes = None if live is None else live.pods_on(live.nodes.get(pool.name, ()))
    return replace(
        impact,
        effect=Effect.REMOVES_CAPACITY,
        pods=None if on_nodes is None else tuple(pod.deleted() for pod in on_nodes if pod.gpu),
        order="all nodes at once, without cordon and eviction",
        duration=durations.Duration(None, "a node has no GPUs until its host has a driver"),
        parts=(Part(Phase.NODES, subject, "the operator removes its driver"),),
        because="the operator deletes its driver's pods, which unload the driver if they can, so pods with GPUs "
        "may fail, and new pods with GPUs cannot start: drain the nodes first",
        changes_nodes=True,
    )


_OPERAND_FIELDS: Final = {"toolkit": "operator.toolkit", "device_plugin": "cluster.parts.device_plugin"}
# The toolkit changes the container runtime's configuration when it starts, and restores it when it exits.
# After both changes, the toolkit restarts the runtime.
# Source: NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer/main.go (Run), read 2026-11-29.
# The kubelet drops the resources of a device plugin that exits.
# Source: Kubernetes docs, Device Plugins, read 2026-11-29.
_OPERAND_EFFECTS: Final = {
    "toolkit": "the toolkit restarts the container runtime; pods keep running",
    "device_plugin": "running pods keep their GPUs, and new pods get no GPU until the plugin that "
    "replaces this one registers",
}


def _of_operand(pool: PoolPlan, operand: str, nodes: int, *, installed: bool) -> Impact:
    """Return the impact of adding or removing the operator's toolkit or device plugin. All nodes change at
    once.
    """
    what = operand.replace("_", " ")
    owners = ("of the owner of the nodes", "of the operator")
    without = "" if installed else f"; new pods with GPUs need the owner's {what} on each node"
    return Impact(
        subject=f"pool {pool.name}",
        effect=Effect.RESTARTS_PODS,
        field=_OPERAND_FIELDS[operand],
        old=f"{what} {owners[not installed]}",
        new=f"{what} {owners[installed]}",
        nodes=nodes,
        gpus=nodes * pool.gpus_per_node,
        order="all nodes at once",
        parts=(
            Part(Phase.NODES, f"pool {pool.name}", f"the operator's {what} {'starts' if installed else 'ends'}"),
        ),
        because=f"{_OPERAND_EFFECTS[operand]}{without}",
        changes_nodes=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DriverPlaces:
    """Nodes with the operator's driver, grouped by whether they need or occupy an upgrade slot.

    `waiting` is the number of nodes that need an upgrade slot of the operator's upgrade controller. `failed` and
    `not_ready` nodes occupy a slot and do not release it. `cordoned` nodes need no slot. Source:
    NVIDIA/k8s-operator-libs, pkg/upgrade/upgrade_inplace.go and common_manager.go; read 2026-11-29.
    """

    waiting: int
    failed: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()

    @property
    def kept(self) -> int:
        """Number of upgrade slots that failed nodes and nodes that are not ready occupy permanently."""
        return len(self.failed) + len(self.not_ready)


def _driver_places(plan: EnvironmentPlan, live: LiveState | None) -> _DriverPlaces:
    """Group the nodes with the operator's driver by whether they need or occupy an upgrade slot. The operator's
    limits apply to all pools together.
    """
    pools = [pool for pool in plan.pools if pool.software.driver == "operator"]
    if live is None:
        return _DriverPlaces(waiting=sum(pool.nodes.desired for pool in pools))
    nodes = [node for pool in pools for node in live.nodes.get(pool.name, ())]
    failed = [node for node in nodes if node in live.driver_failed]
    nodes = [node for node in nodes if node not in (*failed, *live.driver_skipped)]
    not_ready = [node for node in nodes if node in live.not_ready]
    cordoned = [node for node in nodes if node in live.cordoned and node not in not_ready]
    waiting = len(nodes) - len(not_ready) - len(cordoned)
    return _DriverPlaces(
        waiting=waiting, failed=tuple(failed), not_ready=tuple(not_ready), cordoned=tuple(cordoned)
    )


def _driver_order(plan: EnvironmentPlan, places: _DriverPlaces) -> str:
    """Return the order in which drivers are replaced, and the nodes that prevent other nodes from getting their
    new driver.
    """
    at_a_time = durations.driver_upgrades_at_a_time(plan)
    order = f"{counted(at_a_time, 'node')} at a time across all pools: {_DRIVER_ORDER}"
    if places.cordoned:
        order += f"; in addition, all cordoned nodes ({', '.join(places.cordoned)}) are upgraded at the same time"
    if not places.kept:
        return order
    reasons: list[str] = []
    fixes: list[str] = []
    if places.failed:
        reasons.append(f"the last upgrade of {', '.join(places.failed)} has failed")
        fixes.append("follow the advice of the `driver-upgrade` check of `validate` for these nodes")
    if places.not_ready:
        reasons.append(f"{', '.join(places.not_ready)} cannot finish the upgrade while not ready")
        fixes.append(
            f"delete the nodes that are not ready, or first label them {names.DRIVER_UPGRADE_SKIP_LABEL}=true"
        )
    left = at_a_time - places.kept
    which = " and ".join(reasons)
    held = (
        f"{which}, so only {left} more at a time"
        if left > 0
        else f"no other node starts its upgrade while {which}"
    )
    return f"{order}; {held}: {'; '.join(fixes)}"


def _of_node_metadata(
    pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], live: LiveState | None
) -> Iterator[Impact]:
    """Yield the impact of removed labels, and of new taints that evict running pods. Labels and taints
    also change on existing nodes.

    The program does not set the taints and labels of nodes with another owner. Sources: EKS API,
    UpdateNodegroupConfig; GKE docs, Update node labels and taints for existing node pools; Kubernetes docs, Taints
    and Tolerations, and DaemonSet; read 2026-11-29.
    """
    nodes = _node_count(pool, live)
    if not nodes or (pool.cloud is None and pool.nodes.ownership != "created"):
        return
    subject = f"pool {pool.name}"
    before = texts_of(old.get("evicting_taints"))
    added = [one for one in evicting_taints(pool) if str(one) not in before]
    if added and "evicting_taints" in old:
        on_nodes = None if live is None else live.pods_on(live.nodes.get(pool.name, ()))
        pods = None if on_nodes is None else tuple(pod.deleted() for pod in on_nodes if not pod.endures(added))
        yield Impact(
            subject=subject,
            effect=Effect.ROLLS_NODES,
            field=f"{pool.path}.taints",
            old=", ".join(before),
            new=", ".join(map(str, evicting_taints(pool))),
            nodes=nodes,
            gpus=nodes * pool.gpus_per_node,
            pods=pods,
            order="all nodes at once, regardless of disruption budgets",
            duration=durations.Duration(None, "each pod has its own termination grace period"),
            parts=(Part(Phase.NODES, subject, "the nodes get the taint"),),
            because="the nodes stay, and Kubernetes evicts each pod on them that does not tolerate the new "
            "NoExecute taint, including pods of DaemonSets; a NoSchedule taint evicts no running pods",
            changes_nodes=True,
        )
    labels: Mapping[str, str] = mapping_of(old.get("labels"))
    lost = [f"{key}={value}" for key, value in labels.items() if new["labels"].get(key) != value]
    if lost:
        yield Impact(
            subject=subject,
            effect=Effect.REMOVES_CAPACITY,
            field=f"{pool.path}.labels",
            old=", ".join(lost),
            new=", ".join(
                f"{key}={value}" for key, value in new["labels"].items() if labels.get(key) not in (None, value)
            ),
            nodes=nodes,
            parts=(Part(Phase.NODES, subject, "the nodes lose the label"),),
            because="pods of DaemonSets that select the old label are deleted from these nodes; other pods "
            "that select it keep running, but their replacements do not start there",
        )


def _of_sharing(
    pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], live: LiveState | None
) -> Iterator[Impact]:
    before, after = units_of(old.get("offers")), units_of(new["offers"])
    if before != after:
        lost = any(count > after.get(name, 0) for name, count in before.items())
        nodes = _node_count(pool, live)
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.REMOVES_CAPACITY if lost else Effect.IN_PLACE,
            field=f"{pool.path}.sharing",
            old=_offer_text(before, nodes),
            new=_offer_text(after, nodes),
            nodes=nodes,
            duration=durations.of_sharing(),
            parts=(Part(Phase.NODES, f"pool {pool.name}", "changed GPU sharing"),),
            because=f"{old.get('sharing')} becomes {new['sharing']}; running pods keep their GPUs",
        )


def _of_fewer_units(
    pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], live: LiveState | None, gone: set[str]
) -> Iterator[Impact]:
    """Yield an impact if the changed nodes of a pool offer fewer units of a resource.

    Resources in `gone` are skipped, because another impact covers them.
    """
    before, after = units_of(old.get("offers")), units_of(new["offers"])
    fewer = [name for name, count in before.items() if count > after.get(name, 0) and name not in gone]
    if fewer:
        nodes = _node_count(pool, live)
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.REMOVES_CAPACITY,
            field=pool.path,
            old=_offer_text(before, nodes),
            new=_offer_text(after, nodes),
            nodes=nodes,
            because=f"a changed node offers fewer {', '.join(map(short, fewer))}",
        )


def _of_released_pool(name: str, old: Mapping[str, Any], live: LiveState | None) -> Impact:
    nodes = None if live is None else len(live.nodes.get(name, ()))
    return Impact(
        subject=f"pool {name}",
        effect=Effect.REMOVES_CAPACITY,
        field="pools",
        old=_offer_text(units_of(old.get("offers")), 1 if nodes is None else nodes)
        + (" on each node" if nodes is None else ""),
        new=NOT_DEPLOYED,
        nodes=nodes,
        parts=(Part(Phase.DELETION, f"pool {name}", "the nodes no longer belong to the platform"),),
        because="the nodes stay with their owner; the platform no longer offers or validates them, and removes no "
        "taint or cordon of the node agent",
    )


def _released_nodes(plan: EnvironmentPlan, released: Collection[str], live: LiveState) -> set[str]:
    """Return the nodes that belong to other owners and that no pool contains any more."""
    found = {node for name in released for node in live.nodes.get(name, ())}
    for pool in plan.pools:
        if pool.nodes.names:
            found |= set(live.nodes.get(pool.name, ())) - set(pool.nodes.names)
    return found - {node for pool in plan.pools for node in pool.nodes.names}


def _of_held(held: Mapping[str, Sequence[str]]) -> Impact:
    """Return the impact on nodes that stay tainted or cordoned because no node agent runs on them any more.

    The impact contains the commands that release the nodes.
    """
    commands = [
        f"kubectl uncordon {node}; kubectl annotate node {node} {key}-"
        if key == names.CORDON_ANNOTATION
        else f"kubectl taint node {node} {key}-"
        for node, keys in held.items()
        for key in keys
    ]
    return Impact(
        subject=", ".join(held),
        effect=Effect.IN_PLACE,
        field="pools",
        old="the node agent keeps them tainted or cordoned until they pass its checks",
        new="they stay tainted or cordoned",
        nodes=len(held),
        because="no agent releases the nodes any more: " + "; ".join(commands),
    )


def _of_gone(gone: Sequence[str], live: LiveState | None) -> Impact:
    """Return the impact of resources that no pool offers any more, with the owners of pods that request them."""
    pods = () if live is None else live.pods
    owners = sorted({f"{pod.namespace}: {pod.owner}" for pod in pods if not pod.units.keys().isdisjoint(gone)})
    return Impact(
        subject="resources",
        effect=Effect.REMOVES_CAPACITY,
        field="pools",
        old=", ".join(map(short, gone)),
        new=NOT_DEPLOYED,
        because="no pool offers these resources any more; new and waiting pods that request them never start"
        + (f"; now requested by {', '.join(owners)}" if owners else ""),
    )


def _node_count(pool: PoolPlan, live: LiveState | None) -> int:
    return pool.nodes.desired if live is None else len(live.nodes.get(pool.name, ()))


def _of_unread_layout(pool: PoolPlan, nodes: int) -> durations.Duration:
    """Return how long a pool's layout change can take if no node was read. The change is then known only from the
    last deployment.
    """
    rules = pool.sharing.mig_roll
    if rules is None or pool.nodes.ownership == "selected":
        return durations.Duration(None, "the owner of the nodes changes the layout, not `up`")
    return durations.of_mig(rules, nodes, rules.max_unavailable)


def _offer_text(units: Mapping[str, int], nodes: int) -> str:
    return ", ".join(f"{count * nodes} x {short(name)}" for name, count in sorted(units.items())) or "nothing"
