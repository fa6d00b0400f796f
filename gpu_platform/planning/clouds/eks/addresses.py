"""Count the subnet addresses that nodes and their pods use, and check whether a new VPC has enough for its pools.

On a cluster that the program creates, pods use prefixes of 16 addresses. A node uses one address for each
interface with an IP address, the prefixes of its pods, and one free prefix (WARM_PREFIX_TARGET=1;
aws/amazon-vpc-cni-k8s, docs/prefix-and-ip-target.md, read 2026-11-23). Every node runs pods, so each node uses at
least one prefix for its pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from math import ceil
from typing import Final, Literal

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.eks.cloud_nodes import surge_nodes
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan, VpcPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.vpc import PREFIXES, zone_subnets
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.vendors import pod_cap
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems

_PREFIX: Final = 16  # number of addresses in a /28
_RESERVED: Final = 5  # addresses that AWS reserves in each subnet; VPC user guide, "Subnet CIDR blocks"
_MORE_ROOM: Final = "name more zones in the pools, or name a VPC with larger subnets in create.network"
_Field = Literal["cidr", "pods_cidr"]


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """The number of subnet addresses that a node uses.

    `least` is the number when the node runs its first pods, and `most` is the number when it is full of pods.
    """

    least: int
    most: int


def addresses_of_node(cloud: object | None) -> int:
    """Return how many addresses a node uses for itself, one for each interface that has an IP address."""
    if isinstance(cloud, EksPoolPlan) and cloud.interfaces:
        return sum(one.interface_type != "efa-only" for one in cloud.interfaces)
    return 1


def addresses_with_pods(own: int, vcpus: int) -> NodeAddresses:
    """Return the addresses that a node uses if its pods use prefixes.

    `own` is the number of addresses that the node's interfaces use.
    """
    return NodeAddresses(own + 2 * _PREFIX, own + _PREFIX * (1 + ceil(pod_cap(vcpus) / _PREFIX)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group of similar nodes at its maximum size, with the number of subnet addresses that each node uses.

    `path` is the stack file field that sets the number of nodes. `rolled` is the number of nodes that a rolling
    update adds.
    """

    name: str
    path: str = ""
    zones: frozenset[str]
    nodes: int
    rolled: int
    own: int
    vcpus: int

    def takes(self, field: _Field, *, pods_apart: bool) -> NodeAddresses:
        if field == "pods_cidr":
            return addresses_with_pods(1, self.vcpus)
        return NodeAddresses(self.own, self.own) if pods_apart else addresses_with_pods(self.own, self.vcpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shortage:
    """Zones whose subnets have too few addresses for the nodes in `groups`."""

    field: _Field
    zones: tuple[str, ...]
    room: int
    groups: tuple[_Group, ...]
    least: int
    most: int

    @property
    def nodes(self) -> str:
        """The number of nodes and the names of their groups, as text for messages."""
        return f"{counted(sum(one.nodes for one in self.groups), 'node')} of " + ", ".join(
            one.name for one in self.groups
        )


def check_addresses(
    cluster: EksClusterPlan, pools: Sequence[PoolPlan], catalog: Catalog, problems: Problems
) -> tuple[Decision, ...]:
    """Record a problem if a new VPC has too few addresses for nodes with their first pods.

    Return a warning if it has too few addresses for nodes that are full of pods.

    The range of a subnet or VPC cannot be changed after its creation. `problems` points at `create`.
    """
    if cluster.create is None or not isinstance(vpc := cluster.create.vpc, VpcPlan):
        return ()
    groups = [*_groups(cluster, pools, catalog)]
    worst: dict[_Field, _Shortage] = {}
    for short in sorted(_shortages(vpc, groups), key=lambda one: one.most / one.room):
        if (
            short.field not in worst
            or short.least > short.room
            or worst[short.field].least <= worst[short.field].room
        ):
            worst[short.field] = short
    warnings: list[Decision] = []
    for field, short in worst.items():
        where = _where(short, vpc)
        wider = _wider(vpc, field, groups)
        if short.least <= short.room:
            why = f"{short.nodes} use {short.most} addresses when they are full of pods: " + (
                f"write {field}: {wider} before the VPC is created" if wider else _MORE_ROOM
            )
            warnings.append(
                Decision(subject=f"cluster {cluster.name}", what="warning: addresses", chosen=where, why=why)
            )
        elif wider:
            allowed = (
                f"{short.least} or more, which {short.nodes} use, including the nodes that a rolling update adds"
            )
            problems.at(field).add(where, allowed, f"write {field}: {wider} before the VPC is created")
        else:
            _refuse_nodes(short, vpc, groups, problems)
    return tuple(warnings)


def _where(short: _Shortage, vpc: VpcPlan) -> str:
    return f"{short.room} addresses in {', '.join(short.zones)} (of {getattr(vpc, short.field)})"


def _refuse_nodes(found: _Shortage, vpc: VpcPlan, groups: Sequence[_Group], problems: Problems) -> None:
    """Record a problem for the largest pool if even the widest range of a new VPC is too small.

    The message counts the addresses of the widest range.
    """
    widest = _widest(vpc, found.field)
    alike = (one for one in _shortages(widest, groups) if (one.field, one.zones) == (found.field, found.zones))
    short = next(alike, found)
    with_range = "" if widest == vpc else f" and {found.field}: {getattr(widest, found.field)}"
    largest = max(short.groups, key=lambda one: one.nodes if one.path else 0)
    each = largest.takes(short.field, pods_apart=vpc.pods_cidr is not None).least
    fewer = max(0, largest.nodes - ceil((short.least - short.room) / each))
    Problems(largest.path, problems.found).add(
        f"{largest.nodes} nodes that use {largest.nodes * each} addresses, including the nodes that a rolling "
        "update adds",
        f"{fewer}, or more zones: {short.nodes} need more than {_where(short, widest)}",
        f"write {max(0, fewer - largest.rolled)}{with_range}, or {_MORE_ROOM}",
    )


def _groups(cluster: EksClusterPlan, pools: Sequence[PoolPlan], catalog: Catalog) -> Iterator[_Group]:
    assert cluster.create is not None  # noqa: S101 - the caller has a new VPC
    everywhere = frozenset(cluster.create.vpc.zone_names)
    system = cluster.create.system_pool
    yield _Group(
        name="the system nodes",
        zones=frozenset(zone for zone in everywhere if not is_local_zone(zone)),
        nodes=system.max_size + cluster.system_surge,
        rolled=cluster.system_surge,
        own=1,
        vcpus=max(
            (catalog.machine_types[one].vcpu for one in system.instance_types if one in catalog.machine_types),
            default=0,
        ),
    )
    for index, pool in enumerate(pools):
        if isinstance(pool.cloud, EksPoolPlan | KarpenterPoolPlan) and pool.nodes.max:
            yield _Group(
                name=f"pool {pool.name}",
                path=f"pools[{index}].count.{'max' if pool.nodes.max > pool.nodes.desired else 'desired'}",
                zones=frozenset(pool.cloud_nodes.zones) or everywhere,
                nodes=pool.nodes.max + surge_nodes(pool, cluster),
                rolled=surge_nodes(pool, cluster),
                own=addresses_of_node(pool.cloud),
                vcpus=catalog.machine_types[pool.machine_type].vcpu,
            )


def _shortages(vpc: VpcPlan, groups: Sequence[_Group]) -> Iterator[_Shortage]:
    """Yield a shortage for each set of zones whose subnets are too small for the nodes that can run only there."""
    rooms: dict[_Field, dict[str, int]] = {"cidr": {one.zone: _room(one.private_cidr) for one in vpc.zones}}
    if vpc.pods_cidr is not None:
        rooms["pods_cidr"] = {one.zone: _room(one.pods_cidr) for one in vpc.zones if one.pods_cidr is not None}
    for field, by_zone in rooms.items():
        for zones in sorted({*(one.zones for one in groups), frozenset(by_zone)}, key=sorted):
            inside = tuple(one for one in groups if one.zones <= zones)
            takes = [(one.nodes, one.takes(field, pods_apart=vpc.pods_cidr is not None)) for one in inside]
            least = sum(nodes * node.least for nodes, node in takes)
            most = sum(nodes * node.most for nodes, node in takes)
            room = sum(by_zone[zone] for zone in zones)
            if most > room:
                yield _Shortage(
                    field=field, zones=tuple(sorted(zones)), room=room, groups=inside, least=least, most=most
                )


def _room(cidr: str) -> int:
    return IPv4Network(cidr).num_addresses - _RESERVED


def _wider(vpc: VpcPlan, field: _Field, groups: Sequence[_Group]) -> str | None:
    """Return the widest range of a field. Return None if the field already has this range, or if the range has too
    few addresses for all nodes.
    """
    larger = _widest(vpc, field)
    short = any(one.field == field and one.least > one.room for one in _shortages(larger, groups))
    return None if short or larger == vpc else getattr(larger, field)


def _widest(vpc: VpcPlan, field: _Field) -> VpcPlan:
    wider = str(IPv4Network(getattr(vpc, field)).supernet(new_prefix=PREFIXES[0]))
    ranges = {"cidr": vpc.cidr, "pods_cidr": vpc.pods_cidr, field: wider}
    zones = tuple(zone_subnets(str(ranges["cidr"]), one.zone, ranges["pods_cidr"]) for one in vpc.zones)
    return replace(vpc, cidr=str(ranges["cidr"]), pods_cidr=ranges["pods_cidr"], zones=zones)
