"""Extended resources that nodes with EFA advertise, and that pods request to use EFA.

Sources: EKS user guide, "Run machine learning training on Amazon EKS with Elastic Fabric Adapter";
kubernetes-sigs/karpenter#751 (huge pages); libfabric fi_efa(7); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names

EFA_DEVICE_CLASS: Final = "efa.networking.k8s.aws"  # device class of the chart aws-dranet
DRANET_DRIVER: Final = "dra.net"
HUGE_PAGES_RESOURCE: Final = "hugepages-2Mi"
HUGE_PAGES: Final = "5120Mi"
# Source: AWS, EFA user guide, "Get started with EFA and NCCL"; read 2026-11-23.
EFA_ENVIRONMENT: Final[Mapping[str, str]] = {"FI_PROVIDER": "efa"}


def efa_resources(interfaces: int) -> Mapping[str, int]:
    """Return the resources that the EFA device plugin advertises on a node with `interfaces` EFA interfaces."""
    return {names.EFA_RESOURCE: interfaces} if interfaces else {}


def efa_requests(interfaces: int, *, huge_pages: bool) -> Mapping[str, str]:
    """Return the EFA requests of a pod that uses all GPUs of a node with `interfaces` EFA interfaces."""
    if interfaces == 0:
        return {}
    pages = {HUGE_PAGES_RESOURCE: HUGE_PAGES} if huge_pages else {}
    return {names.EFA_RESOURCE: str(interfaces), **pages}
