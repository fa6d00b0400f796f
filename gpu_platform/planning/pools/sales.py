"""Check that the cloud sells the machine types of a pool with the pool's capacity type."""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool

_NAMED: Final = ("capacity-block", "reservation")
"""Capacity types that name a purchased reservation."""


def check_sale(pool: Pool, machine: MachineType, cloud: Cloud, catalog: Catalog, problems: Problems) -> None:
    """Record a problem if the machine type, or an alternative, is not sold with the pool's capacity type.

    `problems` points to the pool.
    """
    if not cloud.creates_nodes:
        return
    capacity, sale = pool.capacity.type, catalog.sale(machine.name)
    if sale is not None and capacity not in sale.sold_as:
        first = sale.sold_as[0]
        fix = f"type: {first}, reservation: ..., zone: ..." if first in _NAMED else f"type: {first}"
        problems.at("capacity").at("type").add(
            f"{capacity!r} for {machine.name}",
            f"{' or '.join(sale.sold_as)}; {machine.name} is sold only this way ({sale.source})",
            f"write capacity: {{{fix}}}",
        )
    here = problems.at("capacity" if pool.capacity_alternatives else "karpenter").at("alternatives")
    for index, name in enumerate(pool.alternatives):
        other = catalog.sale(name)
        if other is not None and capacity not in other.sold_as:
            allowed = f"machine types that are sold this way; {name} is sold only as {' or '.join(other.sold_as)}"
            here.at(f"[{index}]").add(f"{name!r} with capacity {capacity}", allowed, "remove it")
