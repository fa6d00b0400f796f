"""The vendor of a machine type, and the number of pods that a kubelet runs on a machine type."""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog import MachineType, Vendor, load_catalog

DEFAULT_MAX_PODS: Final = 110
"""The kubelet's default `maxPods`."""

_MANY_VCPUS: Final = 30
_MOST_PODS: Final = 250  # for machines with at least 30 vCPUs; smaller machines run at most 110 pods


def vendor_of(machine: MachineType) -> Vendor:
    """Return the vendor of a machine type."""
    return load_catalog().vendors[machine.vendor]


def address_pods(machine: MachineType) -> int:
    """Return the maximum number of pods that have an IP address on a machine type, as nodeadm calculates it for
    EC2.

    Two pods use the host network, and every other pod has its own IP address. The first address of each interface
    belongs to the node. If the catalogue has no limits of interfaces, because the cloud has none or nodeadm does
    not know the instance type, the maximum is the kubelet's default.
    """
    if machine.default_enis is None or machine.ips_per_eni is None:
        return DEFAULT_MAX_PODS
    return machine.default_enis * (machine.ips_per_eni - 1) + 2


def kubelet_pods(machine: MachineType) -> int:
    """Return the maximum number of pods that the kubelet of a node runs.

    Karpenter's nodes have no such maximum, but the plan treats them like managed nodes.
    """
    return min(address_pods(machine), pod_cap(machine.vcpu))


def pod_cap(vcpus: int) -> int:
    """Return the largest `maxPods` of managed nodes (EKS user guide, "How maxPods is determined"; 2026-11-25)."""
    return _MOST_PODS if vcpus >= _MANY_VCPUS else DEFAULT_MAX_PODS
