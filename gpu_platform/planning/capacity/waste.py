"""Split the GPUs of a pool into used and wasted GPUs, and the wasted GPUs by their cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup, part_of_node
from gpu_platform.planning.capacity.proof import PodsOnNode
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.sharing import layout_of_gpu

GEOMETRY: Final = "geometry remainder"
STRANDED: Final = "stranded CPU or memory"
UNALLOCATED: Final = "not allocated to any team"
IDLE: Final = "idle quota"
CAUSES: Final = (GEOMETRY, STRANDED, UNALLOCATED, IDLE)
"""Reasons why GPUs are unused, in the order in which GPUs are attributed to them.

All remaining GPUs are attributed to the last reason.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """The GPUs of a pool at its desired size, split into used and wasted GPUs.

    `price` is the price of one GPU in USD/h, as an average over the week, or None if it is not known. `wasted`
    contains the GPUs by cause. If the utilisation is unknown, the effective GPUs and the idle quota are unknown
    too. A CPU pool has no GPUs and wastes none.
    """

    pool: str
    gpus: int
    price: float | None
    utilisation: float | None
    measured: bool
    wasted: Mapping[str, float | None]

    @property
    def effective(self) -> float | None:
        """GPUs in use."""
        return None if self.utilisation is None else self.gpus * self.utilisation


def pool_use(
    pool: PoolPlan,
    capacity: NodeCapacity,
    groups: Sequence[PodGroup],
    placed: Sequence[PodsOnNode],
    measured: float | None,
    catalog: Catalog,
) -> PoolUse:
    """Split the GPUs of a pool into used and wasted GPUs.

    `placed` are the pods that the proof placed on the pool's nodes. `measured` replaces the declared utilisation.
    Free units are stranded if their node has too little CPU or memory for a pod that requests them. If the used
    and the wasted GPUs together exceed the pool's GPUs, some pods exceed their quota. The wasted GPUs are then
    reduced, beginning with the last cause.
    """
    gpus = pool.gpus_per_node * capacity.count
    geometry = _geometry_remainder(pool, catalog) * capacity.count
    each = _gpus_each(pool, capacity, geometry)
    free = stranded = 0.0
    for node in range(capacity.count):
        held = [pods for pods in placed if pods.node == node]
        left = _units_left(capacity, held)
        usable = _usable(capacity, groups, held, left)
        free += sum(count * each[name] for name, count in left.items())
        stranded += sum((count - usable[name]) * each[name] for name, count in left.items())
    utilisation = pool.utilisation if measured is None else measured
    wasted: dict[str, float | None] = {
        GEOMETRY: geometry,
        STRANDED: stranded,
        UNALLOCATED: free - stranded,
        IDLE: None,
    }
    if utilisation is not None:
        left_over = gpus * (1 - utilisation)
        for cause in (GEOMETRY, STRANDED, UNALLOCATED):
            wasted[cause] = min(wasted[cause] or 0.0, left_over)
            left_over -= wasted[cause] or 0.0
        wasted[IDLE] = left_over
    price = pool.average_usd_per_hour
    return PoolUse(
        pool=pool.name,
        gpus=gpus,
        price=None if price is None or not pool.has_gpus else price / pool.gpus_per_node,
        utilisation=utilisation,
        measured=measured is not None,
        wasted=wasted,
    )


def _geometry_remainder(pool: PoolPlan, catalog: Catalog) -> float:
    """Return the compute slices of one node that belong to no MIG instance, as a number of GPUs."""
    mig = catalog.gpus[pool.gpu_model].mig if pool.sharing.mode == "mig" else None
    if mig is None:
        return 0.0
    sizes = {profile.name: profile.compute_slices for profile in mig.profiles}
    remainder = 0.0
    for index in range(pool.gpus_per_node):
        layout = layout_of_gpu(pool.sharing, index)
        if layout:
            used = sum(sizes[profile] * count for profile, count in layout.items())
            remainder += 1 - used / mig.compute_slices
    return remainder


def _gpus_each(pool: PoolPlan, capacity: NodeCapacity, geometry: float) -> Mapping[str, float]:
    """Return the number of GPUs in one unit of each resource. Ignore compute slices outside MIG instances."""
    whole = sum(
        capacity.gpus_each[name] * count for name, count in capacity.units.items() if _is_cut(pool, name) and count
    )
    kept = 1 - geometry / (whole * capacity.count) if whole and capacity.count else 1.0
    return {name: each * (kept if _is_cut(pool, name) else 1.0) for name, each in capacity.gpus_each.items()}


def _is_cut(pool: PoolPlan, resource: str) -> bool:
    return pool.sharing.mode == "mig" and (
        pool.sharing.mig_strategy == "single" or resource.startswith(names.MIG_RESOURCE_PREFIX)
    )


def _units_left(capacity: NodeCapacity, held: Sequence[PodsOnNode]) -> dict[str, int]:
    left = {name: count for name, count in capacity.units.items() if count}
    for pods in held:
        if pods.group.units:
            left[pods.group.resource] -= pods.pods * pods.group.units
    if not capacity.gpus or not left:
        return left
    # GPUs that are available both whole and as instances are counted once, in the smallest units.
    taken = sum(
        Fraction(capacity.gpus, count) * (count - left[name]) for name, count in capacity.units.items() if count
    )
    smallest = max(left, key=lambda name: capacity.units[name])
    return {smallest: int((capacity.gpus - taken) * Fraction(capacity.units[smallest], capacity.gpus))}


def _usable(
    capacity: NodeCapacity, groups: Sequence[PodGroup], held: Sequence[PodsOnNode], left: Mapping[str, int]
) -> Mapping[str, int]:
    """Return how many free units of each resource the smallest pods that request the resource could use."""
    cpu = capacity.cpu_millicores - sum(pods.pods * pods.need.cpu_millicores for pods in held)
    memory = capacity.memory_mib - sum(pods.pods * pods.need.memory_mib for pods in held)
    pods = capacity.pods - sum(one.pods for one in held)
    usable: dict[str, int] = {}
    for name, count in left.items():
        need = _smallest_need(capacity, groups, name)
        usable[name] = min(
            count,
            pods,
            cpu // need.cpu_millicores if need.cpu_millicores else count,
            memory // need.memory_mib if need.memory_mib else count,
        )
        pods -= usable[name]
        cpu -= usable[name] * need.cpu_millicores
        memory -= usable[name] * need.memory_mib
    return usable


def _smallest_need(capacity: NodeCapacity, groups: Sequence[PodGroup], resource: str) -> NodeResources:
    """Return the requests per unit of the smallest pod that uses a resource.

    If no pod uses the resource, return the share of a node's CPU and memory that is proportional to the GPUs of
    one unit.
    """
    requesting = [group for group in groups if group.resource == resource and capacity.pool in group.needs]
    if not requesting:
        return part_of_node(capacity, resource)
    return NodeResources(
        min(group.needs[capacity.pool].cpu_millicores // group.units for group in requesting),
        min(group.needs[capacity.pool].memory_mib // group.units for group in requesting),
    )
