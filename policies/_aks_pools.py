"""Agent pools of AKS."""

from __future__ import annotations

from policies._inputs import Value
from policies._node_pool import Manager, NodePool, NodeTaint, visible_text


class _AksAgentPool(NodePool):
    """An AKS agent pool. Its taints are text, such as `nvidia.com/gpu=present:NoSchedule`."""

    @property
    def most_nodes(self) -> int | None:
        inputs = self.resource.inputs
        most = inputs.get("maxCount").whole()
        return most if most is not None else inputs.get("nodeCount").whole()

    @property
    def spot(self) -> bool:
        return self.resource.inputs.get("priority").text() == "Spot"

    @property
    def own_name(self) -> str:
        return visible_text(self.resource.inputs, "name") or self.resource.name

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("nodeLabels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("nodeTaints")

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        parts = [(item.text() or "").rpartition(":") for item in self.taint_list.items()]
        return tuple(
            NodeTaint(key=key, value=value, effect=effect)
            for text, _, effect in parts
            for key, _, value in (text.partition("="),)
        )

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("vmSize").text()
        return (machine,) if machine else ()

    @property
    def declares_gpus(self) -> bool:
        return self.resource.inputs.get("gpuDriver").present or self.resource.inputs.get("gpuInstance").present

    def kubelet_policy(self, manager: Manager) -> Value:
        return self.resource.inputs.get("kubeletConfig", f"{manager}ManagerPolicy")

    @property
    def partition(self) -> Value | None:
        profile = self.resource.inputs.get("gpuInstance")
        return profile if profile.present else None


POOLS = {"azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": _AksAgentPool}
"""Classes of node pools by Pulumi type or kind."""
