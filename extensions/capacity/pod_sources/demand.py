"""Pods file of `gpu-platform place`: pods by what they request, where nobody has written manifests yet."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field, TypeAdapter

from gpu_platform.api.documents import DnsLabel, LabelKey, LabelValue, Quantity, SpecModel, parse_document


class PodDemand(SpecModel):
    """Equal pods of a team that run at the same time."""

    name: DnsLabel
    team: DnsLabel
    """Team of the stack; its quota, priority and defaults apply."""
    count: int = Field(default=1, ge=1, le=10_000)
    """Number of pods."""
    requests: dict[str, Quantity] = {}
    """Requests of a pod by resource: cpu, memory, nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb,
    or with DRA the device class gpu.nvidia.com. CPU and memory that are missing are what the cluster adds."""
    pool: DnsLabel | None = None
    """Pool whose nodes the pods select, with tolerations of all its taints; unset: any node, with tolerations of
    GPU taints if the pods request GPUs."""
    node_selector: dict[LabelKey, LabelValue] = {}
    """Further labels that nodes must have."""
    priority: DnsLabel | None = None
    """Priority class; unset: the team's own."""


class PodDemands(SpecModel):
    """The pods of a file, in the order in which they are created."""

    pods: Annotated[tuple[PodDemand, ...], Field(min_length=1)]


@cache
def _adapter() -> TypeAdapter[PodDemands]:
    return TypeAdapter(PodDemands)


def parse_pods(document: object, source: str) -> PodDemands:
    """Validate the document of a pods file; raises BadInput with every problem and its place."""
    return parse_document(document, source, _adapter())
