"""Impact of changed pools, MIG layouts, software versions and sharing on nodes and their pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpu_platform.planning.changes.deployed import NOT_DEPLOYED, mapping_of, software_facts, units_of
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, short
from gpu_platform.planning.changes.live import LiveState
from gpu_platform.planning.changes.pools import PoolChange
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

_POOL_EFFECTS: Final = {
    "removed": Effect.REMOVES_CAPACITY,
    "shrunk": Effect.REMOVES_CAPACITY,
    "renamed": Effect.REPLACES,
    "replaced": Effect.REPLACES,
    "rolled": Effect.ROLLS_NODES,
}
# NVIDIA GPU Operator docs, "GPU Driver Upgrades", read 2026-11-22: the upgrade controller is on by default with
# maxParallelUpgrades 1; it cordons a node, deletes its GPU pods, restarts the driver, validates and uncordons.
_PARTITIONED: Final = "a GPU is partitioned again only while no process uses it"
_DRIVER_ORDER: Final = "one node after another: cordon, delete its GPU pods, restart the driver, uncordon"


def impact_of_pool(
    change: PoolChange, plan: EnvironmentPlan, live: LiveState | None, deployed: Mapping[str, Any]
) -> Impact:
    """Return the impact of a pool that loses nodes; `deployed`: its facts in the last deployment."""
    order = {
        None: "",
        "delete-first": "the old one is deleted before its replacement is created",
        "create-first": "the replacement is created first",
    }[change.order]
    if change.effect == "rolled":
        order = f"one node after another; {order}"
    because = "; ".join(
        dict.fromkeys(cause.because + (f" ({cause.source})" if cause.source else "") for cause in change.causes)
    )
    nodes = None if live is None else live.nodes.get(change.pool, ())
    count = int(deployed.get("nodes") or 0) if nodes is None else len(nodes)
    if change.effect == "shrunk":
        count = change.gpus // (int(deployed.get("gpus_per_node") or 0) or 1)
        kept = {name for pool in plan.pools if pool.name == change.pool for name in pool.nodes.names}
        if kept and nodes is not None:
            nodes = tuple(name for name in nodes if name not in kept)
        else:
            because += "; the cloud chooses the nodes that go: the pods are those of the whole pool"
    if change.protected:
        because += "; the pool is protected, so `up` refuses"
    return Impact(
        subject=f"pool {change.pool}",
        effect=_POOL_EFFECTS[change.effect],
        field=", ".join(cause.field for cause in change.causes),
        old="; ".join(cause.old for cause in change.causes),
        new="; ".join(cause.new for cause in change.causes),
        nodes=count,
        gpus=change.gpus,
        pods=None if live is None or nodes is None else live.pods_on(nodes),
        order=order,
        because=because,
        changes_nodes=True,
    )


def impacts_of_mig(
    changes: Sequence[MigNodeChange], plan: EnvironmentPlan, live: LiveState | None
) -> Iterator[Impact]:
    by_pool: dict[str, list[MigNodeChange]] = {}
    for change in changes:
        by_pool.setdefault(change.pool, []).append(change)
    planned = {pool.name: pool for pool in plan.pools}
    for name, nodes in by_pool.items():
        rounds = -(-len(nodes) // nodes[0].at_a_time)
        yield Impact(
            subject=f"pool {name}",
            effect=Effect.ROLLS_NODES,
            field=f"{planned[name].path}.sharing.layout",
            old=nodes[0].old,
            new=nodes[0].new,
            nodes=len(nodes),
            gpus=len(nodes) * planned[name].gpus_per_node,
            pods=None if live is None else live.pods_on(change.node for change in nodes),
            order=f"{nodes[0].at_a_time} at a time: cordon, drain, partition, validate, uncordon",
            seconds_most=rounds * nodes[0].seconds_most,
            because=_PARTITIONED,
            changes_nodes=True,
        )


def impacts_of_replaced_nodes(plan: EnvironmentPlan, live: LiveState | None, because: str) -> Iterator[Impact]:
    """Yield the impact of an upgrade that drains all nodes of all pools, whoever does it."""
    for pool in plan.pools:
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
            because=because,
        )


def impacts_of_software(
    previous: object, plan: EnvironmentPlan, live: LiveState | None, covered: tuple[set[str], set[str]]
) -> Iterator[Impact]:
    """Yield the changes of versions and of what nodes offer; pools in `covered` have rows of their own."""
    before = mapping_of(previous)
    if not before:
        return
    now = software_facts(plan)
    for key, subject, effect, because in (
        ("kubernetes", "cluster", Effect.IN_PLACE, "the control plane is upgraded; nodes follow with their pools"),
        ("operator", "operator", Effect.RESTARTS_PODS, "its own pods are replaced; GPU pods keep running"),
    ):
        if key in before and before[key] not in (now[key], NOT_DEPLOYED):
            yield Impact(
                subject=subject, effect=effect, field=key, old=str(before[key]), new=now[key], because=because
            )
    pools = mapping_of(before.get("pools"))
    lost, partitioned = covered
    for pool in plan.pools:
        if pool.name in pools and pool.name not in lost:
            old = dict(mapping_of(pools[pool.name]))
            if pool.name in partitioned:
                old |= {key: now["pools"][pool.name][key] for key in ("layout", "offers")}
            yield from _of_nodes(pool, old, now["pools"][pool.name], live)


def _of_nodes(
    pool: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], live: LiveState | None
) -> Iterator[Impact]:
    names_ = None if live is None else live.nodes.get(pool.name, ())
    nodes = pool.nodes.desired if names_ is None else len(names_)
    pods = None if live is None or names_ is None else live.pods_on(names_)
    if old.get("driver") != new["driver"] and NOT_DEPLOYED not in (old.get("driver"), new["driver"]):
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.ROLLS_NODES,
            field="operator.driver.version",
            old=str(old.get("driver")),
            new=new["driver"],
            nodes=nodes,
            gpus=nodes * pool.gpus_per_node,
            pods=None if pods is None else tuple(pod for pod in pods if pod.gpu),
            order=_DRIVER_ORDER,
            because="a driver is replaced only while no process uses its GPUs",
            changes_nodes=True,
        )
    if "layout" in old and old["layout"] != new["layout"]:
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.ROLLS_NODES,
            field=f"{pool.path}.sharing.layout",
            old=str(old["layout"]),
            new=new["layout"],
            nodes=nodes,
            gpus=nodes * pool.gpus_per_node,
            pods=pods,
            because=_PARTITIONED,
            changes_nodes=True,
        )
        return
    before, after = units_of(old.get("offers")), units_of(new["offers"])
    if before != after:
        lost = any(count > after.get(name, 0) for name, count in before.items())
        yield Impact(
            subject=f"pool {pool.name}",
            effect=Effect.REMOVES_CAPACITY if lost else Effect.IN_PLACE,
            field=f"{pool.path}.sharing",
            old=_offer_text(before, nodes),
            new=_offer_text(after, nodes),
            nodes=nodes,
            because=f"{old.get('sharing')} becomes {new['sharing']}; pods that run keep their GPUs",
        )


def _offer_text(units: Mapping[str, int], nodes: int) -> str:
    return ", ".join(f"{count * nodes} x {short(name)}" for name, count in sorted(units.items())) or "nothing"
