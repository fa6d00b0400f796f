"""Check and plan the system nodes of a new EKS cluster, which have no GPUs.

No autoscaler changes the number of system nodes, because the Cluster Autoscaler scales only pools, and Karpenter
itself runs on system nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.controllers import (
    ControllerPods,
    Room,
    largest,
    requests_text,
    room_text,
    without_room,
)
from gpu_platform.planning.clouds.daemonsets import DaemonSet
from gpu_platform.planning.clouds.eks.capacity import names_reservation
from gpu_platform.planning.clouds.eks.cluster_plan import SystemPool
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.free import free_with
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.eks_system import SystemNodes
from gpu_platform.stack.pool import Pool

_LEAST_IN_PRODUCTION = 2
_SIZES: Final = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")
_SERIES: Final = ("m7i", "m6i")
"""The two instance series of the system nodes. In each size, both series have the same number of vCPUs and the
same memory.
"""
_COUNTED: Final = 2
_MOST_TRIED: Final = 10


def check_system_pool(cluster: EksCluster, system: SystemNodes, problems: Problems) -> None:
    """Record a problem for a `min` that is too low for a production cluster."""
    if cluster.production and system.min < _LEAST_IN_PRODUCTION:
        problems.at("min").add(
            f"{system.min} on a cluster with production: true",
            f"{_LEAST_IN_PRODUCTION} or more: the two replicas of Karpenter run on different nodes, and a node "
            "may fail",
            f"write min: {_LEAST_IN_PRODUCTION}, or production: false",
        )


def plan_system_pool(system: SystemNodes) -> SystemPool:
    """Return the node group of the system nodes. `size_system_pool` later adapts the machine types to the
    controllers.
    """
    return SystemPool(
        instance_types=system.machine_types or _types(_SIZES[0]),
        ami_type="AL2023_x86_64_STANDARD",
        release_version=system.release,
        disk=BlockDevice(
            device_name="/dev/xvda",
            size_gib=system.disk_gb,
            volume_type="gp3",
            iops=None,
            throughput_mibps=None,
            kms_key=system.kms_key,
        ),
        metadata_hop_limit=1,  # pods on system nodes get credentials through Pod Identity, never from the node
        min_size=system.min,
        desired_size=system.desired,
        max_size=system.max,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The pods for which the system nodes need enough CPU and memory.

    `on_nodes` are the DaemonSets on each system node. `others` is the free CPU and memory on the nodes of CPU
    pools, which can also run controllers.
    """

    controllers: Sequence[ControllerPods]
    on_nodes: Sequence[DaemonSet]
    others: Sequence[Room]
    catalog: Catalog

    def room(self, types: Sequence[str]) -> Room | None:
        """Return the free CPU and memory on the smallest of these machine types, or None if the catalogue has none
        of them.
        """
        machines = [self.catalog.machine_types[name] for name in types if name in self.catalog.machine_types]
        return min((Room(*free_with(machine, self.on_nodes)) for machine in machines), default=None)

    def missing(self, types: Sequence[str], count: int) -> tuple[str, ...]:
        """Return the controllers that fit neither on `count` nodes of these machine types nor on the nodes of CPU
        pools.

        The result is empty if the nodes' free CPU and memory are not known.
        """
        room = self.room(types)
        return () if room is None else without_room(self.controllers, [room] * count, self.others)


def size_system_pool(
    cluster: EksCluster, pool: SystemPool, demands: Demands, pools: Sequence[Pool], problems: Problems
) -> Decided[SystemPool]:
    """Return the node group with machine types on which the controllers fit. `problems` points at `cluster`.

    `pools` contains all pools of the stack. The system nodes do not use the reservations of pools.
    """
    declared = cluster.create.system.machine_types if cluster.create is not None else ()
    if not declared:
        # The machine type is chosen for at most `_COUNTED` nodes.
        # With more nodes, an edit to `desired` could change the machine type, which replaces all nodes.
        count = min(pool.desired_size, _COUNTED)
        size = next((size for size in _SIZES if not demands.missing(_types(size), count)), _SIZES[-1])
        pool = replace(pool, instance_types=_types(size))
    if lacking := demands.missing(pool.instance_types, pool.desired_size):
        room, wanted = demands.room(pool.instance_types), requests_text(demands.controllers)
        problems.at("create").at("system").add(
            f"{counted(pool.desired_size, 'node')} of {' or '.join(pool.instance_types)}"
            + (f", with {room_text(room)} for controllers on each" if room is not None else ""),
            f"room for {wanted}, most of it for {largest(demands.controllers)}: there is not enough room for "
            f"{', '.join(lacking)}, no autoscaler adds nodes for them, and `up` would time out",
            _fix(pool, demands),
        )
    why = (
        f"controllers request {requests_text(demands.controllers)}, most of it for "
        f"{largest(demands.controllers)}; no "
        "autoscaler adds nodes for them"
    )
    if not declared:
        why += "; this is the smallest machine type with room for them; your own controllers need a larger type"
    elif demands.room(declared) is None:
        why += "; it is not known whether these machine types have room for them"
    pool = replace(pool, avoids_reservations=names_reservation(pools, pool.instance_types, ()))
    if pool.avoids_reservations:
        why += "; outside open reservations, because a pool has a reservation for the machine type"
    decision = Decision(
        subject=f"cluster {cluster.name}",
        what="system nodes",
        chosen=f"{counted(pool.desired_size, 'node')} of {' or '.join(pool.instance_types)}, at least "
        f"{pool.min_size} and at most {pool.max_size}",
        why=why,
    )
    return Decided(pool, (decision,))


def _fix(pool: SystemPool, demands: Demands) -> str:
    """Return a fix that names the smallest machine type on which the controllers fit. If they fit on no machine
    type, the fix increases the number of nodes.
    """
    for size in _SIZES:
        if not demands.missing(_types(size), pool.desired_size):
            return f"write machine_types: [{', '.join(_types(size))}], or remove machine_types"
    for count in range(pool.desired_size + 1, pool.desired_size + _MOST_TRIED):
        if not demands.missing(pool.instance_types, count):
            return f"write desired: {count} and max: {max(count, pool.max_size)}"
    return "use larger machine types and more nodes, or fewer add-ons"


def _types(size: str) -> tuple[str, ...]:
    return tuple(f"{series}.{size}" for series in _SERIES)
