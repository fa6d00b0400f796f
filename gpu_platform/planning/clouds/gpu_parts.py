"""Decide whether the program or the owner of an existing cluster installs the GPU software.

The operator accepts GPU nodes that another Node Feature Discovery has labelled with PCI vendor 10de, with or
without class 0300 or 0302. With the chart value `nfd.enabled: false`, the operator installs no Node Feature
Discovery of its own. Source: gpu-operator, controllers/state_manager.go and deployments/gpu-operator/values.yaml,
read 2026-11-23.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.stack.cluster import Cluster, SandboxCluster
from gpu_platform.stack.gpu_parts import GpuParts

_OPERATOR: Final = PartPlan(
    name="gpu_operator",
    title="GPU Operator",
    install=True,
    kind="Deployment",
    label="gpu-operator",
    image="nvidia/gpu-operator",
    objects=(("nvidia.com/v1", "ClusterPolicy"), ("nvidia.com/v1alpha1", "GPUCluster")),
    alone="two operators would replace each other's drivers, labels and DaemonSets",
)
# Software that may be installed without a GPU Operator.
# Operands of a GPU Operator are not reported, because the operator manages them.
_OPERANDS: Final = (
    PartPlan(
        name="device_plugin",
        title="NVIDIA device plugin",
        install=True,
        kind="DaemonSet",
        label="nvidia-device-plugin",
        image="k8s-device-plugin",
        alone="two device plugins register the same resource, and the kubelet keeps only the last registration",
        may_keep_off=True,
    ),
    PartPlan(
        name="node_feature_discovery",
        title="Node Feature Discovery",
        install=True,
        kind="Deployment",
        label="node-feature-discovery",
        image="node-feature-discovery",
        alone="two installations would label the same nodes and share the CRDs",
    ),
    PartPlan(
        name="dcgm_exporter",
        title="DCGM exporter",
        install=True,
        kind="DaemonSet",
        label="dcgm-exporter",
        image="dcgm-exporter",
        alone="two exporters would count the same GPUs twice",
        may_keep_off=True,
    ),
)


def gpu_parts(cluster: Cluster) -> GpuParts:
    """Return `cluster.parts`, or the default values for a sandbox, where no owner installs software."""
    return GpuParts() if isinstance(cluster, SandboxCluster) else cluster.parts


def plan_gpu_parts(cluster: Cluster, *, exporter: bool) -> tuple[PartPlan, ...]:
    """Return the GPU software that the program looks for on the cluster before it installs anything.

    `exporter` is true if the stack needs the DCGM exporter's metrics.
    """
    if isinstance(cluster, SandboxCluster):
        return ()
    parts = cluster.parts
    if parts.gpu_operator == "present":
        return (_OPERATOR.declared(parts.gpu_operator),)
    wanted = (part for part in _OPERANDS if exporter or part.name != "dcgm_exporter")
    return (_OPERATOR, *(part.declared(getattr(parts, part.name)) for part in wanted))
