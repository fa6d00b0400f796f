"""Facts about the vendors of machine types, such as the memory that the kubelet reserves, the unit of GPU quotas
and the reference region.

On EKS, the kubelet reserves 255 MiB plus 11 MiB per pod, for the number of pods that `eks_max_pods` returns,
whatever `maxPods` is. For on-premises machines the same formula is used with 110 pods. On GKE, the kubelet
reserves 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, and 2 % of the
remaining memory. On AKS, it reserves 20 MiB for each pod of `maxPods` and 50 MiB, but at most 25 %.

On EKS and GKE, the kubelet reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of
all others. On AKS, it reserves 60 millicores of the first core, 40 of the second, 20 of each of the next two, and
10 of each other core. Sources: awslabs/amazon-eks-ami, nodeadm/internal/kubelet (withDefaultReservedResources,
CalcMaxPods), 2026-07-23, read 2026-11-23; Google Cloud, "Plan GKE Standard node sizes"; AKS docs, "Node resource
reservations in AKS" (AKS 1.29 and later), 2026-06-11, read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog.models import MachineType, VendorName
from gpu_platform.stack.declared import Provider

DEFAULT_MAX_PODS: Final = 110
"""The kubelet's default `maxPods`."""

EFA_HUGE_PAGES_MIB: Final = 5128 * 2
"""Memory in MiB that is reserved as huge pages on nodes with EFA.

The EFA installer reserves 5128 pages of 2 MiB.
"""

AKS_MAX_PODS: Final = 110
"""`maxPods` of all AKS node pools of the program.

AKS' default with overlay networking, 250, reserves 5050 MiB on each node.
"""

_MANY_VCPUS: Final = 30
_MOST_PODS: Final = 250  # for machines with at least 30 vCPUs; smaller machines run at most 110 pods
_GIB: Final = 1024
_CPU_BANDS: Final = ((1000, 0.06), (1000, 0.01), (2000, 0.005))
_AKS_CPU_BANDS: Final = ((1000, 0.06), (1000, 0.04), (2000, 0.02))
_GKE_BANDS: Final = ((4 * _GIB, 0.25), (4 * _GIB, 0.20), (8 * _GIB, 0.10), (112 * _GIB, 0.06))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor of machine types: AWS, Google Cloud, Azure, or none for on-premises machines.

    `name` is the `vendor` of a machine type in the catalogue, `provider` is the provider of clusters with these
    machine types, and `title` is their heading in the documentation. `fabric` is the name of the network between
    GPUs of different nodes, unless it depends on the family (Google Cloud). `reserved_memory_mib` returns the
    memory in MiB that the kubelet reserves on a machine type, and `reserved_cpu_millicores` returns the CPU that
    it reserves of a number of millicores. `quota_unit` is the unit of GPU quotas. `reference_region` is the region
    whose list prices are shown for a cluster outside any cloud region, or None if the vendor publishes no prices.
    `layouts_by_gpu` is true if the GPUs of a node may have different MIG layouts. `kubelet_pods` returns the
    maximum number of pods on a machine type. `rdma_huge_pages_mib` is the memory in MiB that a node must reserve
    as huge pages for RDMA.
    """

    name: VendorName
    provider: Provider
    title: str
    reserved_memory_mib: Callable[[MachineType], int]
    quota_unit: str
    reference_region: str | None
    layouts_by_gpu: bool
    kubelet_pods: Callable[[MachineType], int]
    reserved_cpu_millicores: Callable[[int], float] = lambda cores: by_bands(cores, _CPU_BANDS, 0.0025)
    rdma_huge_pages_mib: int = 0
    fabric: str = "RDMA"

    @property
    def is_cloud(self) -> bool:
        """Whether the program can create nodes with this vendor's machine types and configure their kubelets."""
        return self.reference_region is not None


def by_bands(amount: float, bands: tuple[tuple[int, float], ...], rest: float) -> float:
    """Return a weighted sum over the bands of `amount`, from the lowest band up.

    `bands` contains the width and the weight of each band. `rest` is the weight of the amount above all bands.
    """
    reserved = 0.0
    for width, share in bands:
        part = min(amount, width)
        reserved += part * share
        amount -= part
    return reserved + amount * rest


def eks_max_pods(machine: MachineType) -> int:
    """Return the maximum number of pods that nodeadm calculates for an instance type.

    Two pods use the host network, and every other pod has its own IP address. The first address of each interface
    belongs to the node. For an instance type that nodeadm does not know, the maximum is the kubelet's default.
    """
    if machine.default_enis is None or machine.ips_per_eni is None:
        return DEFAULT_MAX_PODS
    return machine.default_enis * (machine.ips_per_eni - 1) + 2


def eks_kubelet_pods(machine: MachineType) -> int:
    """Return the maximum number of pods that the kubelet of an EKS node runs.

    Karpenter's nodes have no such maximum, but the plan treats them like managed nodes.
    """
    return min(eks_max_pods(machine), eks_pod_cap(machine.vcpu))


def eks_pod_cap(vcpus: int) -> int:
    """Return the largest `maxPods` of managed nodes (EKS user guide, "How maxPods is determined"; 2026-11-25)."""
    return _MOST_PODS if vcpus >= _MANY_VCPUS else DEFAULT_MAX_PODS


def _eks_memory(machine: MachineType) -> int:
    return _for_pods(eks_max_pods(machine))


def _default_pods(_machine: MachineType) -> int:
    return DEFAULT_MAX_PODS


def _on_prem_memory(_machine: MachineType) -> int:
    return _for_pods(DEFAULT_MAX_PODS)


def _for_pods(pods: int) -> int:
    return 255 + 11 * pods


def _aks_memory(machine: MachineType) -> int:
    return min(20 * AKS_MAX_PODS + 50, machine.memory_mib // 4)


def _aks_cpu(millicores: int) -> float:
    return by_bands(millicores, _AKS_CPU_BANDS, 0.01)


def _aks_pods(_machine: MachineType) -> int:
    return AKS_MAX_PODS


def _gke_memory(machine: MachineType) -> int:
    return round(by_bands(machine.memory_mib, _GKE_BANDS, 0.02))


VENDORS: Final[Mapping[VendorName, Vendor]] = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="aws",
            provider="eks",
            title="Amazon EC2",
            reserved_memory_mib=_eks_memory,
            quota_unit="vCPU",
            reference_region="us-east-1",
            layouts_by_gpu=True,
            kubelet_pods=eks_kubelet_pods,
            rdma_huge_pages_mib=EFA_HUGE_PAGES_MIB,
            fabric="EFA",
        ),
        Vendor(
            name="gcp",
            provider="gke",
            title="Google Compute Engine",
            reserved_memory_mib=_gke_memory,
            quota_unit="GPU",
            reference_region="us-central1",
            # All nodes of a GKE node pool have the same partition size.
            layouts_by_gpu=False,
            kubelet_pods=_default_pods,
        ),
        Vendor(
            name="azure",
            provider="aks",
            title="Azure",
            reserved_memory_mib=_aks_memory,
            reserved_cpu_millicores=_aks_cpu,
            quota_unit="vCPU",
            reference_region="eastus",
            layouts_by_gpu=True,
            kubelet_pods=_aks_pods,
            fabric="InfiniBand",
        ),
        Vendor(
            name="on-prem",
            provider="existing",
            title="On-premises",
            reserved_memory_mib=_on_prem_memory,
            quota_unit="GPU",
            reference_region=None,
            layouts_by_gpu=True,
            kubelet_pods=_default_pods,
        ),
    )
}


def vendor_of(machine: MachineType) -> Vendor:
    """Return the vendor of a machine type."""
    return VENDORS[machine.vendor]
