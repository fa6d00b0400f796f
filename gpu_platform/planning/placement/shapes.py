"""Resources of nodes and requests of pods, for placement."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE_GPU = 1000
"""One GPU in thousandths, the unit of shares."""


@dataclass(frozen=True, slots=True, order=True)
class NodeShape:
    """What pods can use on a node: CPU in millicores, memory in MiB, whole GPUs of one model."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True, order=True)
class PodShape:
    """Requests of a pod: some whole GPUs (`gpu_milli` 1000), a share of one GPU (below 1000), or none.

    `models`: accepted GPU models; empty: any.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...] = ()

    @property
    def demand_milli(self) -> int:
        """Thousandths of GPUs that the pod holds once it is placed."""
        return self.gpus * self.gpu_milli

    @property
    def is_share(self) -> bool:
        """Whether the pod takes a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < WHOLE_GPU

    def accepts(self, model: str) -> bool:
        """Return whether the pod accepts the GPU model."""
        return not self.models or self.gpus == 0 or model in self.models
