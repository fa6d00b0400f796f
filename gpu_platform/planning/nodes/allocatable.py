"""What of a node's CPU and memory pods can use: capacity less what the provider's kubelet keeps back.

CPU, on EKS and GKE alike: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the
rest. Memory on EKS (and here on-premises): 255 MiB + 11 MiB a pod. Memory on GKE: 25 % of the first 4 GiB,
20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 % of the rest. Both keep 100 MiB more as the
eviction threshold. Capacity is the machine type's advertised memory; an operating system sees a little less.
Sources: awslabs/amazon-eks-ami, nodeadm's kubelet configuration, 2026-07-23; Google Cloud, "Plan GKE Standard
node sizes".
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gpu_platform.catalog.models import MachineType

DEFAULT_MAX_PODS: Final = 110
"""The kubelet's default `maxPods`."""

EVICTION_MIB: Final = 100
"""The kubelet evicts pods when less than this is free."""

_GIB: Final = 1024


class NodeResources(NamedTuple):
    """CPU in millicores and memory in MiB."""

    cpu_millicores: int
    memory_mib: int


def capacity(machine: MachineType) -> NodeResources:
    """Return what the machine has."""
    return NodeResources(machine.vcpu * 1000, machine.memory_mib)


def allocatable(machine: MachineType) -> NodeResources:
    """Return what pods can request on the machine."""
    total, kept = capacity(machine), kube_reserved(machine)
    return NodeResources(
        total.cpu_millicores - kept.cpu_millicores, total.memory_mib - kept.memory_mib - EVICTION_MIB
    )


def kube_reserved(machine: MachineType) -> NodeResources:
    """Return what the kubelet keeps back for itself and the container runtime."""
    total = capacity(machine)
    reserved_mib = (
        _reserved_memory_gke(total.memory_mib) if machine.provider == "gcp" else 255 + 11 * DEFAULT_MAX_PODS
    )
    return NodeResources(_reserved_cpu(total.cpu_millicores), reserved_mib)


def _reserved_cpu(millicores: int) -> int:
    return round(_by_bands(millicores, ((1000, 0.06), (1000, 0.01), (2000, 0.005)), 0.0025))


def _reserved_memory_gke(mib: int) -> int:
    bands = ((4 * _GIB, 0.25), (4 * _GIB, 0.20), (8 * _GIB, 0.10), (112 * _GIB, 0.06))
    return round(_by_bands(mib, bands, 0.02))


def _by_bands(amount: int, bands: tuple[tuple[int, float], ...], rest: float) -> float:
    """Sum a share of each band of `amount`, band by band from the bottom, and `rest` of what lies above."""
    reserved = 0.0
    for width, share in bands:
        part = min(amount, width)
        reserved += part * share
        amount -= part
    return reserved + amount * rest
