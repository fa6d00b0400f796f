"""Pods file of `gpu-platform place`: a short list of pods and their requests, for use before manifests exist."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter

from gpu_platform.api.documents import DnsLabel, LabelKey, LabelValue, Quantity, SpecModel, parse_document


class PodDemand(SpecModel):
    """Equal pods of a team that run at the same time."""

    name: DnsLabel
    team: DnsLabel
    """Team of the stack. Its quota, priority and defaults apply."""
    count: int = Field(default=1, ge=1, le=10_000)
    """Number of pods."""
    requests: dict[str, Quantity] = {}
    """Requests of a pod by resource, such as cpu, memory, nvidia.com/gpu, nvidia.com/gpu.shared or
    nvidia.com/mig-1g.10gb, or with DRA the device class gpu.nvidia.com. If CPU or memory is missing, the cluster's
    defaults are used.
    """
    pool: DnsLabel | None = None
    """Pool that the pods select.

    The pods tolerate all taints of the pool. If no pool is set, the pods may run on any node, and tolerate GPU
    taints if they request GPUs.
    """
    node_selector: dict[LabelKey, LabelValue] = {}
    """Additional labels that nodes must have."""
    priority: DnsLabel | None = None
    """Priority class. The default is the first priority class of the team."""


class PodDemands(SpecModel):
    """The pods of a file, in the order in which they are created."""

    pods: Annotated[tuple[PodDemand, ...], Field(min_length=1)]


@cache
def _adapter() -> TypeAdapter[PodDemands]:
    return TypeAdapter(PodDemands)


def parse_pods(document: object, source: str) -> PodDemands:
    """Validate a parsed pods file. Raises BadInput, which lists every problem with its path."""
    return parse_document(document, source, _adapter())
