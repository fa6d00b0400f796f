"""Stack file field `compute_classes[]`: pools that offer the same GPUs, in the order in which they get nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import DnsLabel, SpecModel


class ComputeClass(SpecModel):
    """Pools with the same GPU resource; pods that select the class by its label run on nodes of any of them."""

    name: DnsLabel
    """Value of the label by which pods select the class: `cloud.google.com/compute-class` on GKE, where it is a
    ComputeClass, `gpu-platform.dev/compute-class` on EKS."""
    pools: Annotated[tuple[DnsLabel, ...], Field(min_length=2, max_length=10)]
    """Names of the pools, the preferred one first: the next gets nodes only where those before it can have no
    more. For example reserved, on demand, flex-start, spot."""
