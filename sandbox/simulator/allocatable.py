"""Computes the allocatable CPU and memory of a node as a kubelet does: capacity - kube-reserved - eviction
threshold.

Source: kubernetes.io, "Reserve Compute Resources for System Daemons" (Node Allocatable). This module implements
the provider's published formula for kube-reserved a second time. The sandbox checks the numbers of
gpu_platform.planning and therefore does not use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog import MachineType

MAX_PODS: Final = 110
"""The kubelet's default `maxPods`. The sandbox's nodes do not set another value."""

_EVICTION_MIB: Final = 100  # default of the kubelet, EKS and GKE: evictionHard memory.available<100Mi

# Upper end of each range in millicores, and the reserved fraction of the range in units of 1/10000.
# Source for EKS: awslabs/amazon-eks-ami, nodeadm/internal/kubelet (getCPUMillicoresToReserve).
# Source for GKE: "Plan GKE Standard node sizes".
_CPU_RANGES: Final = ((1_000, 600), (2_000, 100), (4_000, 50), (None, 25))
# Source for AKS, in CPU and in memory: AKS docs, "Node resource reservations in AKS" (AKS 1.29 and later).
_AKS_CPU_RANGES: Final = ((1_000, 600), (2_000, 400), (4_000, 200), (None, 100))
# Upper end of each range in MiB, and the reserved percentage of the range: "Plan GKE Standard node sizes".
_GKE_MEMORY_RANGES: Final = ((4_096, 25), (8_192, 20), (16_384, 10), (131_072, 6), (None, 2))


@dataclass(frozen=True, slots=True)
class NodeAllocatable:
    """Allocatable resources of a node: CPU in millicores, memory in MiB."""

    cpu_millicores: int
    memory_mib: int


def node_allocatable(machine: MachineType) -> NodeAllocatable:
    """Return the allocatable CPU and memory of a node with a machine type.

    Capacity is the advertised CPU and memory. On premises, the kubelet has its default settings, which reserve
    nothing.
    """
    cpu = machine.vcpu * 1000
    memory = machine.memory_mib
    if machine.vendor == "azure":
        cpu -= _reserved(cpu, _AKS_CPU_RANGES, 10_000)
        memory -= min(20 * MAX_PODS + 50, memory // 4)
    elif machine.vendor != "on-prem":
        cpu -= _reserved(cpu, _CPU_RANGES, 10_000)
    if machine.vendor == "gcp":
        memory -= _reserved(memory, _GKE_MEMORY_RANGES, 100)
    elif machine.vendor == "aws":
        memory -= 255 + 11 * _nodeadm_pods(
            machine
        )  # in MiB, as in getMemoryMebibytesToReserve (nodeadm/internal/kubelet)
    return NodeAllocatable(cpu, memory - _EVICTION_MIB)


def _nodeadm_pods(machine: MachineType) -> int:
    """Return the number of pods that EKS images reserve memory for (nodeadm/internal/kubelet, CalcMaxPods)."""
    addresses = [machine.ips_per_eni - 1] * (machine.default_enis or 0) if machine.ips_per_eni else []
    return sum(addresses) + 2 if addresses else MAX_PODS


def _reserved(total: int, ranges: Sequence[tuple[int | None, int]], scale: int) -> int:
    """Return how much of `total` is reserved: the sum over all ranges, rounded half up."""
    lower, reserved = 0, 0
    for upper, part in ranges:
        inside = (total if upper is None else min(total, upper)) - lower
        if inside <= 0:
            break
        reserved += inside * part
        lower += inside
    return (2 * reserved + scale) // (2 * scale)
