"""Stack file fields of `cluster.parts` on every real cluster: software for GPUs that it may have already."""

from __future__ import annotations

from typing import Annotated, Literal

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.declared import SetsProperties

Part = Literal["install", "present"]
# Nodes have a label with their config of the device plugin only where it is the program's.
_LABELS = SetsProperties(karpenter=("template",))


class GpuParts(SpecModel):
    """Software for GPUs. `install`: the program installs it, and refuses to beside another; `present`: the owner
    of an existing cluster has installed it, and the program leaves it alone."""

    gpu_operator: Annotated[Part, _LABELS] = "install"
    """NVIDIA GPU Operator with all that it installs; with `present` its owner configures it, so pools use whole
    GPUs, and the program creates no metrics and alerts of them."""
    device_plugin: Annotated[Part, _LABELS] = "install"
    """NVIDIA device plugin; with `present` the operator is installed without it, and pools use whole GPUs."""
    node_feature_discovery: Part = "install"
    """Node Feature Discovery; one that is present must label GPU nodes by their PCI vendor and tolerate the taints
    of the pools."""
    dcgm_exporter: Part = "install"
    """DCGM exporter; with `present` the program does not scrape it, and its alerts use the metrics as they are."""
