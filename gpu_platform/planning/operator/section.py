"""Types for the GPU Operator's plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.config_maps import ConfigMapPlan
from gpu_platform.planning.system_priorities import PriorityQuotaPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DraDriverPlan:
    """NVIDIA's DRA driver as a separate Helm release for ComputeDomains. `chart` has the form oci://...."""

    chart: str
    release: str
    version: str
    namespace: str
    values: Mapping[str, Any]
    quota: PriorityQuotaPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """The GPU Operator: how it is installed, and all of its values."""

    release: str
    namespace: str
    install: Literal["helm", "cluster-policy", "gpu-cluster", "none"]
    """How the operator is installed.

    With `helm`, the chart creates the operator's custom resource. With `none`, the cluster's owner has installed
    the operator. Otherwise the program creates the custom resource itself, for the simulated operator.
    """
    cluster_policy: Mapping[str, Any]
    """Spec of the ClusterPolicy. Empty with DRA, which uses a GPUCluster instead."""
    gpu_cluster: Mapping[str, Any]
    nvidia_driver: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """With `gpu-cluster`, the NVIDIADriver for all nodes, which the chart would otherwise create. Empty without a
    driver.
    """
    helm_values: Mapping[str, Any]
    device_plugin_config: ConfigMapPlan | None
    mig_config: ConfigMapPlan | None
    metrics_config: ConfigMapPlan | None
    parts: tuple[PartPlan, ...] = ()
    """GPU software that the cluster may already have. The program looks for it before installing anything."""
    quota: PriorityQuotaPlan | None
    """ResourceQuota for clusters that reserve system-critical priority classes for kube-system (GKE)."""
    dra_driver: DraDriverPlan | None = None
    """The DRA driver alongside a device plugin, for GPUs with NVLink between nodes."""
