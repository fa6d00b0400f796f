"""What becomes of the GPUs that are paid for: put to work, or wasted, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_platform import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.capacity.nodes import NodeCapacity, PodGroup, part_of_node
from gpu_platform.planning.capacity.proof import PodsOnNode
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.sharing import layout_of_gpu

GEOMETRY: Final = "geometry remainder"
STRANDED: Final = "stranded CPU or memory"
UNALLOCATED: Final = "granted to no team"
IDLE: Final = "idle quota"
CAUSES: Final = (GEOMETRY, STRANDED, UNALLOCATED, IDLE)
"""In the order in which they are taken from what is not put to work; the last gets what the others leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUse:
    """The GPUs of a pool at its desired size, split. `price`: USD/h of one GPU, None where it is not known.

    `wasted`: GPUs by cause; without a known utilisation the effective GPUs and the idle quota are not known.
    """

    pool: str
    gpus: int
    price: float | None
    utilisation: float | None
    measured: bool
    wasted: Mapping[str, float | None]

    @property
    def effective(self) -> float | None:
        """GPUs that are put to work."""
        return None if self.utilisation is None else self.gpus * self.utilisation


def pool_use(
    pool: PoolPlan,
    room: NodeCapacity,
    groups: Sequence[PodGroup],
    placed: Sequence[PodsOnNode],
    measured: float | None,
    catalog: Catalog,
) -> PoolUse:
    """Split the GPUs of a pool. `placed`: pods of the proof on its nodes; `measured` goes before what is declared.

    Stranded are units that nobody holds where too little CPU or memory is left for a pod that asks for one.
    Where more is put to work than the causes leave, pods run past their quota: the causes shrink, the last first.
    """
    gpus = pool.gpus_per_node * room.count
    geometry = _geometry_remainder(pool, catalog) * room.count
    each = _gpus_each(pool, room, geometry)
    free = stranded = 0.0
    for node in range(room.count):
        held = [pods for pods in placed if pods.node == node]
        left = _units_left(room, held)
        usable = _usable(room, groups, held, left)
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
    price = pool.price_usd_per_hour
    return PoolUse(
        pool=pool.name,
        gpus=gpus,
        price=None if price is None else price / pool.gpus_per_node,
        utilisation=utilisation,
        measured=measured is not None,
        wasted=wasted,
    )


def _geometry_remainder(pool: PoolPlan, catalog: Catalog) -> float:
    """Return the GPUs of one node whose compute slices belong to no MIG instance."""
    mig = catalog.gpus[pool.gpu_model].mig
    if pool.sharing.mode != "mig" or mig is None:
        return 0.0
    sizes = {profile.name: profile.compute_slices for profile in mig.profiles}
    remainder = 0.0
    for index in range(pool.gpus_per_node):
        layout = layout_of_gpu(pool.sharing, index)
        if layout:
            used = sum(sizes[profile] * count for profile, count in layout.items())
            remainder += 1 - used / mig.compute_slices
    return remainder


def _gpus_each(pool: PoolPlan, room: NodeCapacity, geometry: float) -> Mapping[str, float]:
    """Return the GPUs that a unit of each resource stands for, without what no instance has."""
    whole = sum(
        room.gpus_each[name] * count for name, count in room.units.items() if _is_cut(pool, name) and count
    )
    kept = 1 - geometry / (whole * room.count) if whole and room.count else 1.0
    return {name: each * (kept if _is_cut(pool, name) else 1.0) for name, each in room.gpus_each.items()}


def _is_cut(pool: PoolPlan, resource: str) -> bool:
    return pool.sharing.mode == "mig" and (
        pool.sharing.mig_strategy == "single" or resource.startswith(names.MIG_RESOURCE_PREFIX)
    )


def _units_left(room: NodeCapacity, held: Sequence[PodsOnNode]) -> dict[str, int]:
    left = {name: count for name, count in room.units.items() if count}
    for pods in held:
        left[pods.group.resource] -= pods.pods * pods.group.units
    if not room.gpus or not left:
        return left
    # What is left of GPUs that are offered whole and in instances is left once: in the smallest units.
    taken = sum(Fraction(room.gpus, count) * (count - left[name]) for name, count in room.units.items() if count)
    smallest = max(left, key=lambda name: room.units[name])
    return {smallest: int((room.gpus - taken) * Fraction(room.units[smallest], room.gpus))}


def _usable(
    room: NodeCapacity, groups: Sequence[PodGroup], held: Sequence[PodsOnNode], left: Mapping[str, int]
) -> Mapping[str, int]:
    """Return how many of the units that are left on a node the smallest pods that want them could take."""
    cpu = room.cpu_millicores - sum(pods.pods * pods.need.cpu_millicores for pods in held)
    memory = room.memory_mib - sum(pods.pods * pods.need.memory_mib for pods in held)
    usable: dict[str, int] = {}
    for name, count in left.items():
        need = _smallest_need(room, groups, name)
        usable[name] = min(
            count,
            cpu // need.cpu_millicores if need.cpu_millicores else count,
            memory // need.memory_mib if need.memory_mib else count,
        )
        cpu -= usable[name] * need.cpu_millicores
        memory -= usable[name] * need.memory_mib
    return usable


def _smallest_need(room: NodeCapacity, groups: Sequence[PodGroup], resource: str) -> NodeResources:
    """Return what the smallest pod that wants a unit asks for, by unit; where none does, its part of a node."""
    wanting = [group for group in groups if group.resource == resource and room.pool in group.needs]
    if not wanting:
        return part_of_node(room, resource)
    return NodeResources(
        min(group.needs[room.pool].cpu_millicores // group.units for group in wanting),
        min(group.needs[room.pool].memory_mib // group.units for group in wanting),
    )
