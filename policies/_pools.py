"""All node pools of a stack: Node objects, nodes of an existing cluster, and the pools of each cloud."""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names
from policies import _aks_pools, _eks_pools, _gke_pools
from policies._inputs import Value
from policies._node_pool import COMPONENT, Manager, NodePool, NodeTaint
from policies._stack import Resource, Stack


class _KubernetesNode(NodePool):
    """A Node object, or a patch of a Node. A patch shows only the fields that it changes."""

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("metadata", "labels")

    @property
    def annotations(self) -> Value:
        return self.resource.inputs.get("metadata", "annotations")

    @property
    def taint_list(self) -> Value:
        taints = self.resource.inputs.get("spec", "taints")
        if self.resource.kind == "core/NodePatch" and not taints.present:
            raise taints.not_visible("the patch does not change the node's taints")
        return taints

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        # Pulumi ignores changes to the list of taints.
        # After a refresh, this list contains the taints that any client has set.
        declared = self.annotations.get(names.TAINTS_ANNOTATION).text()
        if declared is None:
            return super().taints
        parts = (part.rpartition(":") for part in declared.split(",") if part)
        pairs = ((*key.partition("="), effect) for key, _, effect in parts)
        return tuple(NodeTaint(key, value, effect) for key, _, value, effect in pairs)

    def kubelet_policy(self, manager: Manager) -> Value:
        if self.resource.kind == "core/NodePatch":
            raise Value(self.resource.urn).not_visible(
                "the kubelet configuration of existing nodes is not visible"
            )
        return Value(self.resource.urn)

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = (
            self.label(names.INSTANCE_TYPE_LABEL).text()
            or self.label(names.MACHINE_TYPE_LABEL).text()
            or self.annotations.get(names.SANDBOX_MACHINE_ANNOTATION).text()
        )
        return (machine,) if machine else ()


class _SelectedNodes(NodePool):
    """Existing nodes of a cluster, which the platform does not change. The inputs of their component describe the
    nodes.
    """

    @property
    def most_nodes(self) -> int | None:
        return self.resource.inputs.get("maxNodes").whole()

    @property
    def selected_by(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.resource.inputs.get("nodeSelector").entries())

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("labels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("taints")

    def kubelet_policy(self, manager: Manager) -> Value:
        raise Value(self.resource.urn).not_visible("the kubelet configuration of existing nodes is not visible")

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("machineType").text()
        return (machine,) if machine else ()


_OF_CLOUDS: Final = {**_aks_pools.POOLS, **_eks_pools.POOLS, **_gke_pools.POOLS}


def pools(stack: Stack) -> tuple[NodePool, ...]:
    """Return every node pool, with or without GPUs."""
    return tuple(pool for resource in stack.resources if (pool := _pool(resource, stack)) is not None)


def _pool(resource: Resource, stack: Stack) -> NodePool | None:
    if resource.kind in ("core/Node", "core/NodePatch"):
        return _KubernetesNode(resource, stack)
    if resource.type == COMPONENT and resource.inputs.get("ownership").text() == "selected":
        return _SelectedNodes(resource, stack)
    of_cloud = _OF_CLOUDS.get(resource.type) or _OF_CLOUDS.get(resource.kind)
    return of_cloud(resource, stack) if of_cloud is not None else None
