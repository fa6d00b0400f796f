"""Computes the allocatable CPU and memory of a node as a kubelet does: capacity - kube-reserved - eviction
threshold.

Source: kubernetes.io, "Reserve Compute Resources for System Daemons" (Node Allocatable). This module computes
kube-reserved from the catalogue a second time. The sandbox checks the numbers of gpu_platform.planning and
therefore does not use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog import MachineType, load_catalog
from gpu_platform.catalog.models import Band

MAX_PODS: Final = 110
"""The kubelet's default `maxPods`. The sandbox's nodes do not set another value."""

_EVICTION_MIB: Final = 100  # default of the kubelet and all clouds: evictionHard memory.available<100Mi


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
    vendor = load_catalog().vendors[machine.vendor]
    if vendor.is_cloud:
        rules = vendor.reserved
        cpu -= _reserved(cpu, rules.cpu)
        pods = rules.memory_mib + rules.memory_mib_per_pod * _nodeadm_pods(machine)
        memory -= min(memory * rules.memory_at_most // 100, pods + _reserved(memory, rules.memory))
    return NodeAllocatable(cpu, memory - _EVICTION_MIB)


def _nodeadm_pods(machine: MachineType) -> int:
    """Return the number of pods that EKS images reserve memory for (nodeadm/internal/kubelet, CalcMaxPods)."""
    addresses = [machine.ips_per_eni - 1] * (machine.default_enis or 0) if machine.ips_per_eni else []
    return sum(addresses) + 2 if addresses else MAX_PODS


def _reserved(total: int, bands: Sequence[Band]) -> int:
    """Return how much of `total` is reserved: the sum over all bands, rounded half up, in units of 1/10000."""
    left, reserved = total, 0
    for width, percent in bands:
        inside = left if width is None else min(left, width)
        reserved += inside * round(percent * 100)
        left -= inside
    return (reserved + 5_000) // 10_000
