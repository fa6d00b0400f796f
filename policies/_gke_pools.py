"""Node pools of GKE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from policies._inputs import Value
from policies._node_pool import Manager, NodePool, OwnPlugin, Sharing, visible_text

# Source: GKE docs, "Manage the GPU stack with the NVIDIA GPU Operator". The label keeps GKE's plugin off a node.
_NO_GKE_PLUGIN: Final = "gke-no-default-nvidia-gpu-device-plugin"


@dataclass(frozen=True, slots=True)
class _GkeSharing(Sharing):
    """The sharing settings of GKE's device plugin, which cannot rename shares."""

    @property
    def renamed(self) -> bool:
        return False

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        yield names.GPU_RESOURCE, self.block.get("maxSharedClientsPerGpu")


class _GkeNodePool(NodePool):
    """A GKE node pool."""

    @property
    def most_nodes(self) -> int | None:
        inputs = self.resource.inputs
        scaling = inputs.get("autoscaling")
        total = scaling.get("totalMaxNodeCount").whole()
        if total is not None:
            return total
        zones = len(inputs.get("nodeLocations").items()) or 1
        most = scaling.get("maxNodeCount").whole()
        counts = [inputs.get("nodeCount").whole(), inputs.get("initialNodeCount").whole()]
        return (most if most is not None else max((count or 0 for count in counts), default=0)) * zones

    @property
    def partition(self) -> Value | None:
        accelerators = self.resource.inputs.get("nodeConfig", "guestAccelerators").items()
        sizes = (one.get("gpuPartitionSize") for one in accelerators)
        return next((size for size in sizes if size.text()), None)

    @property
    def sharing(self) -> Sharing | None:
        for accelerator in self.resource.inputs.get("nodeConfig", "guestAccelerators").items():
            block = accelerator.get("gpuSharingConfig")
            if (block.get("maxSharedClientsPerGpu").whole() or 0) > 1:
                mps = block.get("gpuSharingStrategy").text() == "MPS"
                return _GkeSharing("MPS" if mps else "time-slicing", block)
        return None

    @property
    def own_plugin(self) -> OwnPlugin | None:
        label = self.label(_NO_GKE_PLUGIN)
        if not self.has_gpus or label.text() == "true":
            return None
        return OwnPlugin(
            "GKE's own", label, f"label them {_NO_GKE_PLUGIN}=true, with GKE's driver installation disabled"
        )

    @property
    def renames_shares(self) -> bool:
        return self.sharing is None

    @property
    def spot(self) -> bool:
        config = self.resource.inputs.get("nodeConfig")
        return config.get("spot").truth() or config.get("preemptible").truth()

    @property
    def own_name(self) -> str:
        return visible_text(self.resource.inputs, "name") or self.resource.name

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("nodeConfig", "labels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("nodeConfig", "taints")

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("nodeConfig", "machineType").text()
        return (machine,) if machine else ()

    @property
    def declares_gpus(self) -> bool:
        accelerators = self.resource.inputs.get("nodeConfig", "guestAccelerators").items()
        return any((item.get("type").text() or "").startswith("nvidia") for item in accelerators)

    def kubelet_policy(self, manager: Manager) -> Value:
        config = self.resource.inputs.get("nodeConfig", "kubeletConfig")
        if manager == "cpu":
            return config.get("cpuManagerPolicy")
        policy = config.get(f"{manager}Manager", "policy")
        return Value(policy.owner, policy.path, text.casefold() if (text := policy.text()) else None)

    @property
    def aligns_whole_pods(self) -> bool:
        return self.resource.inputs.get("nodeConfig", "kubeletConfig", "topologyManager", "scope").text() == "pod"


POOLS = {"gcp:container/nodePool:NodePool": _GkeNodePool}
"""Classes of node pools by Pulumi type or kind."""
