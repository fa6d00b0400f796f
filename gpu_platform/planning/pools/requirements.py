"""What a pool's nodes must be, whichever cloud makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_platform.planning.pools.section import Kubelet, Taint
from gpu_platform.planning.pools.software import NodeSoftware


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequirements:
    """Decided before the cloud is asked how it makes such nodes. `kubelet` None: the image's own settings."""

    software: NodeSoftware
    kubelet: Kubelet | None
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
