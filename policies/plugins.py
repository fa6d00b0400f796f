"""Rules about the device plugins of a node.

Sources: GKE docs on GPUs and NVIDIA GPU Operator docs, "Google GKE"; bottlerocket.dev, kubelet-device-plugins;
GPU Operator v26.7.0, controllers/state_manager.go (node labels of operands).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform.base import names
from policies._gpu_operator import operator
from policies._inputs import Value
from policies._pools import EKS_NODE_GROUP, GKE_NODE_POOL, NodePool, pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack

# Source: GKE docs, "Manage the GPU stack with the NVIDIA GPU Operator". The label keeps GKE's plugin off a node.
_NO_GKE_PLUGIN: Final = "gke-no-default-nvidia-gpu-device-plugin"
_KEEP_OFF: Final = (names.DEPLOY_OPERANDS_LABEL, "nvidia.com/gpu.deploy.device-plugin")


def _two_plugins(stack: Stack, pool: NodePool, _: Settings) -> Iterator[Breach]:
    own = _own_plugin(stack, pool)
    if own is None or not _operators_plugin_runs(stack, pool):
        return
    whose, selected_by, fix = own
    yield Breach(
        at=selected_by,
        found=f"two device plugins on pool {pool.name!r}: {whose} and the GPU Operator's",
        allowed="one device plugin, because two plugins would allocate the same GPU to two pods",
        fix=f"label the nodes {names.DEPLOY_OPERANDS_LABEL}=false, or {fix}",
    )


def _operators_plugin_runs(stack: Stack, pool: NodePool) -> bool:
    """Return whether the stack's operator runs its device plugin on the nodes. Raises NotVisible."""
    found = operator(stack)
    if found is None:
        return False
    enabled = found.values.get("devicePlugin", "enabled")
    if enabled.present and not enabled.truth():
        return False
    return all(pool.label(key).text() != "false" for key in _KEEP_OFF)


def _own_plugin(stack: Stack, pool: NodePool) -> tuple[str, Value, str] | None:
    """Return the owner of the node image's device plugin, the field that selects it, and how to disable it.

    Raises NotVisible.
    """
    inputs = pool.resource.inputs
    if pool.resource.type == GKE_NODE_POOL:
        label = pool.label(_NO_GKE_PLUGIN)
        if not pool.has_gpus or label.text() == "true":
            return None
        fix = f"label them {_NO_GKE_PLUGIN}=true, with GKE's driver installation disabled"
        return "GKE's own", label, fix
    image = None
    if pool.resource.type == EKS_NODE_GROUP:
        image = inputs.get("amiType")
    elif pool.resource.kind == "karpenter.sh/NodePool" and pool.has_gpus:
        image = _karpenter_image(stack, inputs)
    text = (image.text() or "").casefold() if image is not None else ""
    if image is None or not text.startswith("bottlerocket"):
        return None
    # Only the NVIDIA variant contains the plugin. Karpenter always selects this variant for GPU nodes.
    if pool.resource.type == EKS_NODE_GROUP and not pool.declares_gpus:
        return None
    return "Bottlerocket's own", image, "use an AL2023 image"


def _karpenter_image(stack: Stack, inputs: Value) -> Value | None:
    wanted = inputs.get("spec", "template", "spec", "nodeClassRef", "name").text()
    for node_class in stack.of_kind("karpenter.k8s.aws/EC2NodeClass"):
        if node_class.object_name == wanted:
            family = node_class.inputs.get("spec", "amiFamily")
            if family.present:
                return family
            for term in node_class.inputs.get("spec", "amiSelectorTerms").items():
                if term.get("alias").present:
                    return term.get("alias")
    return None


plugin_ownership = Rule(
    id="plugin-ownership",
    severity=Severity.CRITICAL,
    description="A node has one device plugin. Two would advertise and allocate the same GPUs twice.",
    subjects=lambda stack: stack.view(pools),
    check=_two_plugins,
    settings=Settings,
)

RULES = (plugin_ownership,)
