"""Network interfaces of EKS nodes.

Sources: EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" and
"Elastic Fabric Adapter"; aws/aws-parallelcluster#7143 (p6-b300); read 2026-11-21.
"""

from __future__ import annotations

from typing import Literal

from gpu_platform.catalog.models import AwsFamily, MachineType
from gpu_platform.planning.eks.plan import NetworkInterface
from gpu_platform.spec.pool import Pool

Layout = Literal["ena-and-efa", "efa-primary"]


def wants_efa(pool: Pool, machine: MachineType) -> bool:
    """Return whether a pool's nodes get EFA interfaces."""
    if pool.network.rdma is not None:
        return pool.network.rdma
    return pool.workload == "training" and machine.rdma_interfaces > 0


def takes_plain_primary(family: AwsFamily) -> bool:
    """Return whether every EFA interface of the family has a place beside a plain primary interface."""
    return family.efa_only and (family.efa_only_beside_primary or family.first_efa_card > 0)


def layout_of(pool: Pool, family: AwsFamily) -> Layout:
    """Return how the interfaces of a pool with EFA are laid out."""
    if pool.network.layout is not None:
        return pool.network.layout
    return "ena-and-efa" if takes_plain_primary(family) else "efa-primary"


def interfaces(machine: MachineType, family: AwsFamily, layout: Layout) -> tuple[NetworkInterface, ...]:
    """Return the interfaces of a node with EFA on every network card that carries it.

    Only the primary interface takes IP addresses: plain `efa` interfaces on other cards would take more, and can
    keep AL2023 nodes from joining.
    """
    first = family.first_efa_card
    primary_is_efa = layout == "efa-primary" and first == 0
    found = [_interface(0, 0, "efa" if primary_is_efa else "interface")]
    for card in range(first, first + machine.rdma_interfaces):
        if card > 0:
            found.append(_interface(card, family.secondary_device_index, "efa-only" if family.efa_only else "efa"))
        elif not primary_is_efa:
            found.append(_interface(0, 1, "efa-only"))
    return tuple(found)


def _interface(card: int, device: int, kind: Literal["interface", "efa", "efa-only"]) -> NetworkInterface:
    return NetworkInterface(network_card_index=card, device_index=device, interface_type=kind)
