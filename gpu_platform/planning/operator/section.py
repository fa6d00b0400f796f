"""The plan of the GPU Operator: how it is installed and every value it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.config_maps import ConfigMapPlan
from gpu_platform.planning.system_priorities import PriorityQuotaPlan

HELM_SECONDS: Final = 900
"""How long Helm waits for the operator's own pods; then it rolls the release back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraDriverPlan:
    """NVIDIA's DRA driver as a Helm release of its own, for ComputeDomains; `chart`: oci://..."""

    chart: str
    release: str
    version: str
    namespace: str
    values: Mapping[str, Any]
    quota: PriorityQuotaPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """The GPU Operator: how it is installed and every value it gets."""

    release: str
    namespace: str
    install: Literal["helm", "cluster-policy", "gpu-cluster", "none"]
    """`helm`: the chart creates the operator's object; `none`: the owner of the cluster has installed it; else the
    object itself, for the simulated operator."""
    cluster_policy: Mapping[str, Any]
    """Empty with DRA, where there is a GPUCluster instead."""
    gpu_cluster: Mapping[str, Any]
    nvidia_driver: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """With `gpu-cluster`: the NVIDIADriver of all nodes, which the chart would create; empty without a driver."""
    helm_values: Mapping[str, Any]
    device_plugin_config: ConfigMapPlan | None
    mig_config: ConfigMapPlan | None
    metrics_config: ConfigMapPlan | None
    parts: tuple[PartPlan, ...] = ()
    """Software for GPUs that the cluster may have already; looked for before anything is installed."""
    quota: PriorityQuotaPlan | None
    """For clusters that reserve system-critical priority classes for kube-system (GKE)."""
    dra_driver: DraDriverPlan | None = None
    """Beside a device plugin, for GPUs with NVLink between nodes."""
