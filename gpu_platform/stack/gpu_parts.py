"""Stack file fields of `cluster.parts` for every real cluster: GPU software that the cluster may already have."""

from __future__ import annotations

from typing import Annotated, Literal

from gpu_platform.stack._types import SpecModel
from gpu_platform.stack.declared import SetsProperties

Part = Literal["install", "present"]
# Nodes have a label with their device plugin config only if the program installs the plugin.
_LABELS = SetsProperties(karpenter=("template",))


class GpuParts(SpecModel):
    """GPU software. With `install`, the program installs it, and refuses a cluster that already has it. With
    `present`, the owner of an existing cluster has installed it, and the program does not change it.
    """

    gpu_operator: Annotated[Part, _LABELS] = "install"
    """NVIDIA GPU Operator and everything that it installs. With `present`, the operator is already installed and
    someone else configures it, so pools use whole GPUs and the program creates no GPU metrics or alerts.
    """
    device_plugin: Annotated[Part, _LABELS] = "install"
    """NVIDIA device plugin. With `present`, the operator is installed without it, and pools use whole GPUs."""
    node_feature_discovery: Part = "install"
    """Node Feature Discovery. With `present`, it must label GPU nodes by their PCI vendor and tolerate the taints
    of the pools.
    """
    dcgm_exporter: Part = "install"
    """DCGM exporter. With `present`, the program does not scrape it, and alerts use its metrics unchanged."""
