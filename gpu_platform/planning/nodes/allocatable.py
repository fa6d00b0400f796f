"""CPU and memory that pods can request on a node: its capacity minus the kubelet's reservations.

The reservations of CPU and memory depend on the vendor of the machine type (`vendors.yaml` of the catalogue). All
vendors add an eviction threshold of 100 MiB. Capacity is the machine type's advertised memory; an operating system
reports slightly less. Karpenter creates no node for a pod that does not fit into its estimate, which is 7.5 %
lower. On arm64, it first subtracts another 64 MiB. Sources: awslabs/amazon-eks-ami, nodeadm's kubelet
configuration, 2026-07-23; Google Cloud, "Plan GKE Standard node sizes"; aws/karpenter-provider-aws,
pkg/providers/instancetype/types.go (memory) and settings reference (VM_MEMORY_OVERHEAD_PERCENT), 2026-08-21, read
2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final, NamedTuple

from gpu_platform.catalog.models import Band, MachineType
from gpu_platform.planning.clouds.vendors import address_pods, vendor_of

EVICTION_MIB: Final = 100
"""Free memory below which the kubelet evicts pods."""

_KARPENTER_OVERHEAD: Final = 0.075
_GRAVITON_CMA_MIB: Final = 64


class NodeResources(NamedTuple):
    """CPU in millicores and memory in MiB."""

    cpu_millicores: int
    memory_mib: int


def capacity(machine: MachineType, *, karpenter: bool = False) -> NodeResources:
    """Return the capacity of the machine. With `karpenter`, return the capacity that Karpenter expects."""
    memory = machine.memory_mib
    if karpenter:
        memory -= _GRAVITON_CMA_MIB if machine.arch == "arm64" else 0
        memory -= ceil(memory * _KARPENTER_OVERHEAD)
    return NodeResources(machine.vcpu * 1000, memory)


def allocatable(machine: MachineType, *, karpenter: bool = False) -> NodeResources:
    """Return the resources that pods can request on the machine. With `karpenter`, use Karpenter's estimate."""
    total, reserved = capacity(machine, karpenter=karpenter), kube_reserved(machine)
    return NodeResources(
        total.cpu_millicores - reserved.cpu_millicores, total.memory_mib - reserved.memory_mib - EVICTION_MIB
    )


def kube_reserved(machine: MachineType) -> NodeResources:
    """Return the resources that the kubelet reserves for itself and the container runtime."""
    rules = vendor_of(machine).reserved
    for_pods = rules.memory_mib + rules.memory_mib_per_pod * address_pods(machine)
    most = machine.memory_mib * rules.memory_at_most // 100
    return NodeResources(
        round(_of_bands(capacity(machine).cpu_millicores, rules.cpu)),
        min(for_pods + round(_of_bands(machine.memory_mib, rules.memory)), most),
    )


def _of_bands(amount: float, bands: Iterable[Band]) -> float:
    """Return the reserved part of `amount`, from the lowest band up."""
    reserved = 0.0
    for width, percent in bands:
        part = amount if width is None else min(amount, width)
        reserved += part * percent / 100
        amount -= part
    return reserved
