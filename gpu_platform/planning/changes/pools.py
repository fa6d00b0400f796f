"""Classify pool changes between two deployments as in-place changes, rolling updates or replacements, with their
causes and the lost GPUs.

Pulumi's preview shows resources. This report shows the effect on GPU users in advance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Network
from typing import Any, Final, Literal, cast

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.changes.declared_properties import fields_text
from gpu_platform.planning.changes.deployed import mapping_of
from gpu_platform.planning.changes.pool_facts import (
    CLUSTER_PROTECT,
    EXISTING,
    platform_of,
    pool_facts,
    properties,
)
from gpu_platform.planning.clouds.section import ALL_ZONES, NOT_SET, per_zone
from gpu_platform.planning.clouds.windows import CapacityWindow, utc_text
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

Effect = Literal["removed", "renamed", "replaced", "rolled", "shrunk"]
_SIZES = ("least_nodes", "nodes", "most_nodes")
_WORST_FIRST = ("replace", "roll", "shrink")
Order = Literal["delete-first", "create-first"]

BLOCKS: Final = "capacity_blocks"
# With several capacity blocks, each block has its own values for these properties.
_OF_A_BLOCK: Final = {"capacity_reservation", "subnet_ids", "subnets"}
_PER_ZONE: Final = "node_count"
"""Property that contains the node count of each zone, on platforms that require the same count in each zone."""

# Properties that contain the pool's name, so they differ even if only the name has changed.
_NAMED_AFTER_THE_POOL = {
    "node_group_name",
    "placement_group",
    "placement_policy",
    "user_data",
    "template",
    "node_class",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One changed field of the stack file, and why the change removes nodes."""

    field: str
    old: str
    new: str
    because: str
    source: str

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"{self.field}: {self.old or '(none)'} → {self.new or '(none)'}: {self.because}{source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """Planned change to the nodes of one pool of the last deployment.

    `nodes` is the number of lost nodes, based on the pool's desired size. `gpus` is the number of their GPUs,
    which is 0 for a CPU pool. `gpus_most` counts the GPUs of all nodes that an autoscaler may have created.
    `order` indicates whether a pool or node is deleted before its replacement is created. It is None without a
    replacement. If `protected` is set, the engine refuses to delete the pool because of the field `protected_by`.
    """

    pool: str
    effect: Effect
    nodes: int
    gpus: int
    gpus_most: int
    order: Order | None
    protected: bool
    causes: tuple[Cause, ...]
    protected_by: str = CLUSTER_PROTECT

    def __str__(self) -> str:
        most = f" (at most {self.gpus_most} if the autoscaler has scaled up)" if self.gpus_most > self.gpus else ""
        lost = _gpus(self.gpus) if self.gpus or not self.nodes else _nodes(self.nodes)
        head = f"pool {self.pool} is {self.effect}: {lost} lost{most}{self._how()}"
        tail = (
            "; it is protected, so `up` refuses: "
            f"set {self.protected_by}: false and run `up` with only that change first"
            if self.protected
            else ""
        )
        return "\n".join([head + tail, *(f"  {cause}" for cause in self.causes)])

    @property
    def successor(self) -> str | None:
        """Name of the new pool if this pool was renamed."""
        return self.causes[0].new if self.effect == "renamed" else None

    def _how(self) -> str:
        if self.order is None:
            return ""
        if self.effect == "rolled":
            when = (
                "before its replacement is created"
                if self.order == "delete-first"
                else "after its replacement is ready"
            )
            return f", node by node, each {when}"
        if self.order == "delete-first":
            return "; the old pool is deleted first, because there is no capacity for both at the same time"
        return "; the new pool is created first"

    def to_json(self) -> dict[str, Any]:
        """Return the change for a JSON report."""
        return {
            "pool": self.pool,
            "effect": self.effect,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "gpus_most": self.gpus_most,
            "order": self.order,
            "protected": self.protected,
            "causes": [
                {
                    "field": cause.field,
                    "old": cause.old,
                    "new": cause.new,
                    "because": cause.because,
                    "source": cause.source,
                }
                for cause in self.causes
            ],
        }


def pool_changes(
    previous: object, plan: EnvironmentPlan, catalog: Catalog, now: datetime | None = None
) -> tuple[PoolChange, ...]:
    """Return the changes that remove nodes from pools, in the order in which the last deployment listed the pools.

    `previous` is the output `pools` of the deployed stack; unknown keys are ignored. Pools of existing clusters
    are skipped, because the stack does not own their nodes. If `now` is None, every capacity block is assumed to
    have nodes.
    """
    before = _readable(previous)
    facts = pool_facts(plan)
    added = [pool for pool in plan.pools if pool.name not in before]
    pools = {pool.name: pool for pool in plan.pools}
    platforms = plan.cluster.cloud.platforms if plan.cluster.cloud is not None else ()
    found: list[PoolChange] = []
    for name, old in before.items():
        if old["platform"] == EXISTING:
            continue
        if name in pools:
            times: Collection[str] = old.get("windows", {}).values()
            if now is not None and times and not any(_may_be_open(one, now) for one in times):
                old = {**old, "nodes": 0, "most_nodes": 0}
            found += _changed(old, facts[name], pools[name], platforms, catalog)
            found += _without_blocks(old, facts[name], pools[name], catalog, now)
            continue
        successor = next((pool for pool in added if _alike(old, facts[pool.name])), None)
        if successor is not None:
            added.remove(successor)
        found.append(_gone(name, old, successor))
    return tuple(found)


def _without_blocks(
    old: Mapping[str, Any], new: Mapping[str, Any], pool: PoolPlan, catalog: Catalog, now: datetime | None
) -> Iterator[PoolChange]:
    """Yield a change if capacity blocks were removed from a pool and one of these blocks may have nodes now."""
    if not old["properties"].get(BLOCKS) or old["platform"] != new["platform"]:
        return
    before, after = (_times_of_blocks(facts["properties"]) for facts in (old, new))
    gone = [block for block in before if block not in after and (now is None or _may_be_open(before[block], now))]
    if not gone:
        return
    known = catalog.pool_properties[(platform_of(pool), BLOCKS)]
    cause = Cause(
        field=f"{pool.path}.capacity.blocks",
        old=", ".join(gone),
        new="",
        because=known.because,
        source=str(known.source),
    )
    yield _loss(pool.name, "shrunk", {**old, "protected": False}, None, [cause])


def _times_of_blocks(properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the start and end of each capacity block of a pool, by reservation, from the pool's properties."""
    several = properties.get(BLOCKS) or ""
    found = dict(block.split(" ", 1) for block in several.split(", ") if " " in block)
    return found or {properties.get("capacity_reservation", ""): "/"}


def _may_be_open(times: str, now: datetime) -> bool:
    starts, ends = (datetime.fromisoformat(one) if one else None for one in times.split("/"))
    return (starts is None or starts <= now) and (ends is None or now < ends)


def resized_pools(previous: object, plan: EnvironmentPlan) -> tuple[str, ...]:
    """Return the EKS managed node groups whose `count` differs from the last deployment.

    `previous` is the output `pools` of the deployed stack. If an older release wrote no sizes into it, nothing
    differs.
    """
    before, now = _readable(previous), pool_facts(plan)
    return tuple(
        name
        for name, facts in now.items()
        if name in before
        and facts["platform"] == before[name]["platform"] == "eks"
        and any(int(before[name].get(key, facts[key])) != facts[key] for key in _SIZES)
    )


def sized_pools(previous: object, plan: EnvironmentPlan) -> tuple[str, ...]:
    """Return the deployed pools whose node count the next `up` sets to `desired`, no matter who has resized them.

    These are pools without an autoscaler, and pools whose `count` was edited. `previous` is the output `pools` of
    the deployed stack.
    """
    before, edited = _readable(previous), resized_pools(previous, plan)
    return tuple(
        pool.name
        for pool in plan.pools
        if pool.name in edited or (pool.cloud_nodes.sets_size == "always" and _stays(pool, before))
    )


def unused_sizes(previous: object, plan: EnvironmentPlan, replaced: Collection[str]) -> Mapping[str, int]:
    """Return the deployed pools for which an edit to `desired` changes no nodes, with the number before the edit.

    For these pools, `desired` applies only when the pool is created. `previous` is the output `pools` of the
    deployed stack. Pools in `replaced` are left out, because they are created again.
    """
    before = _readable(previous)
    return {
        pool.name: nodes
        for pool in plan.pools
        if pool.cloud_nodes.sets_size == "on-creation"
        and pool.name not in replaced
        and _stays(pool, before)
        and (nodes := int(before[pool.name]["nodes"])) != pool.nodes.desired
    }


def recreated_pools(changes: Collection[PoolChange]) -> frozenset[str]:
    """Return the names of the pools that are replaced. All settings of these pools apply again."""
    return frozenset(change.pool for change in changes if change.effect == "replaced")


def unused_text(pool: PoolPlan) -> str:
    """Return why an edit to `desired` changes no nodes of a deployed pool, and how to change their number."""
    return (
        "the edit changes no nodes, because desired applies only when the pool is created; afterwards the "
        f"autoscaler sets the number; for a fixed number, write count: {{desired: {pool.nodes.desired}}}"
    )


def loses_autoscaler(deployed: Mapping[str, Any], pool: PoolPlan, plan: EnvironmentPlan) -> bool:
    """Return whether the size of the deployed pool was set by an autoscaler, but will be set by `up` from now on.

    The result is False if the last deployment did not record who sets the size.
    """
    old, new = (
        mapping.get(_PER_ZONE) for mapping in (mapping_of(deployed.get("properties")), properties(pool, plan))
    )
    return old is not None and new is not None and per_zone(old) is None and per_zone(new) is not None


def _stays(pool: PoolPlan, before: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a cloud pool was deployed on its present platform."""
    return pool.cloud is not None and pool.name in before and before[pool.name]["platform"] == platform_of(pool)


def resized_node_groups(previous: object, plan: EnvironmentPlan, now: datetime) -> tuple[str, ...]:
    """Return the node groups that the next `up` resizes to `desired` nodes.

    They belong to pools whose `count` was edited, except pools that are currently off because of their schedule.
    Among capacity blocks with a start time, only the block that may have nodes now is included. If this block
    began before a deployment could schedule its start, it is included even without an edit. `now` needs a time
    zone.
    """
    edited, before = resized_pools(previous, plan), _readable(previous)
    found: list[str] = []
    for pool in plan.pools:
        for group in pool.cloud_nodes.sized_groups:
            wanted = pool.name in edited
            if group.scheduled is not None:
                late = not _was_scheduled(before.get(pool.name), group.scheduled)
                wanted = group.scheduled.is_open(now) and (late or wanted)
            elif pool.schedule is not None and not pool.schedule.is_on(now):
                wanted = False  # the next scheduled start uses the edited number
            if wanted:
                found.append(group.name)
    return tuple(found)


def _was_scheduled(deployed: Mapping[str, Any] | None, window: CapacityWindow) -> bool:
    """Return whether the last deployment scheduled the start of a capacity block.

    The result is True if an older release made the deployment.
    """
    if deployed is None:
        return False
    if "windows" not in deployed:
        return True
    known: str | None = deployed["windows"].get(window.reservation)
    return known is not None and known.split("/")[0] in ("", utc_text(window.starts))


def _readable(previous: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the pools in the output `pools` that have the expected form.

    Pools that an older release wrote in another form are left out.
    """
    if not isinstance(previous, Mapping):
        return {}
    keys = {"platform", "nodes", "most_nodes", "gpus_per_node", "protected", "properties"}
    pools = cast("Mapping[str, object]", previous)
    return {
        name: cast("Mapping[str, Any]", facts)
        for name, facts in pools.items()
        if isinstance(facts, Mapping) and keys <= cast("Mapping[str, Any]", facts).keys()
    }


def _alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    def telling(facts: Mapping[str, Any]) -> Mapping[str, Any]:
        properties = facts["properties"].items()
        return {
            **{key: facts[key] for key in ("platform", "nodes", "gpus_per_node")},
            **{key: value for key, value in properties if key not in _NAMED_AFTER_THE_POOL},
        }

    return telling(old) == telling(new)


def _gone(name: str, old: Mapping[str, Any], successor: PoolPlan | None) -> PoolChange:
    if successor is None:
        because = "the stack file no longer declares the pool"
        return _loss(
            name, "removed", old, None, [Cause(field="pools", old=name, new="", because=because, source="")]
        )
    because = "a renamed pool is a new pool; it is created, then the old one is deleted"
    if _deletes_first(successor):
        because += (
            "; the reservation has capacity for only one of them, so the new pool gets no nodes before the old "
            "one is deleted"
        )
    cause = Cause(field=f"{successor.path}.name", old=name, new=successor.name, because=because, source="")
    return _loss(name, "renamed", old, "create-first", [cause])


def _changed(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    pool: PoolPlan,
    platforms: tuple[str, ...],
    catalog: Catalog,
) -> Iterator[PoolChange]:
    if old["platform"] != new["platform"]:
        field = f"{pool.path}.provisioner" if old["platform"] in platforms else "cluster.provider"
        cause = Cause(
            field=field,
            old=old["platform"],
            new=new["platform"],
            because="the provisioner of existing nodes cannot change; a new pool is created, then the old one is "
            "deleted",
            source="",
        )
        yield _loss(pool.name, "replaced", old, "create-first", [cause])
        return
    several, release_named = bool(old["properties"].get(BLOCKS)), False
    causes: dict[str, dict[str, Cause]] = {effect: {} for effect in _WORST_FIRST}
    for name, value in new["properties"].items():
        before = old["properties"].get(name)
        if before is None or name == BLOCKS or (several and name in _OF_A_BLOCK):
            continue
        if not _takes_away(name, before, value):
            continue
        known = catalog.pool_properties[(platform_of(pool), name)]
        if known.by_upgrade and pool.cloud_nodes.roll_limits.new_nodes_only:
            continue
        field, because = fields_text(platform_of(pool), name, pool.path), known.because
        if name == _PER_ZONE and pool.nodes.desired >= old["nodes"]:
            field, because = f"{pool.path}.zones", because + _keep_all(old, pool)
        elif name == "node_locations":
            because += _peak(old, new, pool)
        cause = Cause(field=field, old=before, new=value, because=because, source=str(known.source))
        causes[known.effect][field] = cause
        release_named = release_named or name == "release_version"
    effect = next((effect for effect in _WORST_FIRST if causes[effect]), None)
    if effect == "replace":
        yield _loss(pool.name, "replaced", old, _replaces(pool), list(causes[effect].values()))
    elif effect == "roll":
        rolls = list(causes[effect].values())
        if not release_named:
            rolls[-1] = _with_image(rolls[-1], pool)
        yield _loss(pool.name, "rolled", {**old, "protected": False}, _rolls(pool), rolls)
    gone = _gone_nodes(old, new)
    if effect in ("roll", "shrink") and causes["shrink"] and gone > 0:
        yield _loss(
            pool.name,
            "shrunk",
            {**old, "nodes": gone, "most_nodes": gone, "protected": False},
            None,
            list(causes["shrink"].values()),
        )


def _gone_nodes(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """Return how many nodes a smaller pool loses.

    If the number of nodes per zone decreases, the zones of the last deployment lose nodes, even if new zones give
    the pool more nodes in total.
    """
    before, after = _per_zone(old), _per_zone(new)
    if before and after is not None:
        return max(0, before - after) * (int(old["nodes"]) // before)
    return int(old["nodes"]) - int(new["nodes"])


def _per_zone(facts: Mapping[str, Any]) -> int | None:
    return per_zone(facts["properties"].get(_PER_ZONE, NOT_SET))


def _keep_all(old: Mapping[str, Any], pool: PoolPlan) -> str:
    """Return how to give a pool more zones without losing nodes in its present zones. Return an empty string if
    the pool also leaves zones.
    """
    zones = pool.cloud_nodes.zones
    if not set(old["properties"].get("node_locations", ALL_ZONES).split(", ")) <= set(zones):
        return ""
    count = (_per_zone(old) or 0) * len(zones)
    return (
        f"; to keep all nodes, write count: {{desired: {count}}} with these zones, or add a pool in the new zones"
    )


def _peak(old: Mapping[str, Any], new: Mapping[str, Any], pool: PoolPlan) -> str:
    """Return a note about nodes that exist only while zones are removed, or an empty string.

    A larger number of nodes per zone first applies to the old zones, including the zones that are then removed.
    """
    before, after = _per_zone(old), _per_zone(new)
    if not before or after is None:
        return ""
    zones = int(old["nodes"]) // before
    peak = after * zones
    if after <= before or peak <= max(int(old["nodes"]), int(new["nodes"])):
        return ""
    return (
        f"; before that, each of the {zones} old zones gets {counted(after, 'node')}, so the pool has {peak} "
        "nodes for a while, which quota and capacity must allow; to avoid this, first deploy these zones with "
        f"count: {{desired: {before * len(pool.cloud_nodes.zones)}}}"
    )


def _with_image(cause: Cause, pool: PoolPlan) -> Cause:
    """Return the cause of a rolling update, with the image that the new nodes get."""
    image = pool.cloud_nodes.roll_limits.image
    return replace(cause, because=f"{cause.because}; {image}") if image else cause


def _takes_away(name: str, old: str, new: str) -> bool:
    """Return whether changing a property removes nodes. Adding nodes or zones, or unsetting the zones, removes no
    nodes.
    """
    if name in ("nodes", "desired_size"):
        return int(new) < int(old)
    if name == _PER_ZONE:
        before, after = per_zone(old), per_zone(new)
        return before is not None and after is not None and after < before
    if name == "release_version":
        return new not in (old, NOT_SET)  # no rolling update if no release is set
    if name == "subnet_ids":
        return new not in (old, ALL_ZONES)
    if name == "node_group_name":
        return old != NOT_SET == new  # a node group keeps its name when reserved capacity is added to its pool
    if name == "subnets":
        before, after = (dict(one.split("=") for one in text.split(", ") if one) for text in (old, new))
        return any(after.get(zone, subnet) != subnet for zone, subnet in before.items())
    if name == "nodes_cidr" and old and new:
        return not IPv4Network(old).subnet_of(IPv4Network(new))
    if name == "node_locations" and old.startswith("all") != new.startswith("all"):
        return old.startswith("all")
    if name == "node_locations":
        return not set(old.split(", ")) <= set(new.split(", "))
    return old != new


def _deletes_first(pool: PoolPlan) -> bool:
    return pool.cloud_nodes.replaced_delete_first


def _replaces(pool: PoolPlan) -> Order | None:
    if pool.cloud is None:
        return None  # a simulated node changes in place
    return "delete-first" if _deletes_first(pool) else "create-first"


def _rolls(pool: PoolPlan) -> Order:
    return "delete-first" if pool.cloud_nodes.rolled_delete_first else "create-first"


def _loss(
    name: str, effect: Effect, old: Mapping[str, Any], order: Order | None, causes: list[Cause]
) -> PoolChange:
    return PoolChange(
        pool=name,
        effect=effect,
        nodes=int(old["nodes"]),
        gpus=int(old["nodes"]) * int(old["gpus_per_node"]),
        gpus_most=int(old["most_nodes"]) * int(old["gpus_per_node"]),
        order=order,
        protected=bool(old["protected"]),
        protected_by=_protected_by(old),
        causes=tuple(causes),
    )


def _protected_by(old: Mapping[str, Any]) -> str:
    """Return the field to change before the pool can be deleted. Older releases protected pools with
    `cluster.production`.
    """
    return str(old.get("protected_by", CLUSTER_PROTECT)).replace("cluster.production", CLUSTER_PROTECT)


def _nodes(count: int) -> str:
    return f"{counted(count, 'node')} without GPUs {'is' if count == 1 else 'are'}"


def _gpus(count: int) -> str:
    return f"{counted(count, 'GPU')} {'is' if count == 1 else 'are'}" if count else "no GPUs are"
