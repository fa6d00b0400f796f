"""Stack file field `compute_classes[]`: pools that offer the same GPUs, in order of preference."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import DnsLabel, SpecModel


class ComputeClass(SpecModel):
    """Pools with the same GPU resource. Pods that select the class by its label can run on nodes of any of these
    pools.
    """

    name: DnsLabel
    """Value of the label that pods use to select the class. The label is `cloud.google.com/compute-class` on GKE,
    where the class is a ComputeClass, and `gpu-platform.dev/compute-class` on EKS.
    """
    pools: Annotated[tuple[DnsLabel, ...], Field(min_length=2, max_length=10)]
    """Names of the pools in order of preference, for example reserved, on-demand, flex-start, spot. A pool only
    receives new nodes if the pools before it cannot grow.
    """
