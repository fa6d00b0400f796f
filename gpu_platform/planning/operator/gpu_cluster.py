"""Plan the operator's GPUCluster mode. The DRA driver replaces the device plugin, feature discovery and MIG
manager.

A cluster has a GPUCluster or a ClusterPolicy, never both. Sources: NVIDIA/gpu-operator v26.7.0, the chart's values
and templates/gpucluster.yaml, and the GPUCluster CRD; GPU Operator docs, "DRA Driver for NVIDIA GPUs"; read
2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import OperatorRelease
from gpu_platform.planning.clouds.protocol import OperatorSettings
from gpu_platform.planning.config_maps import ConfigMapPlan
from gpu_platform.planning.operator.allocation import FEATURE_GATE, compute_domains
from gpu_platform.planning.operator.driver_upgrades import as_cluster_policy
from gpu_platform.planning.operator.section import OperatorPlan
from gpu_platform.planning.operator.values import (
    CONTROLLER,
    RELIED_ON,
    Daemonsets,
    DcgmExporter,
    DriverValues,
    Toggle,
    camel_case,
)
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.cluster import Operator

_REPOSITORY: Final = "nvcr.io/nvidia"  # the name of the driver image is a separate value
_IMAGE: Final = "driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraDriver:
    """Values of the DRA driver."""

    compute_domains: Toggle


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClusterValues:
    """Values that the chart and the spec of the GPUCluster share."""

    dra_driver: DraDriver
    dcgm: Toggle
    dcgm_exporter: DcgmExporter
    daemonsets: Daemonsets


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedValues:
    """Values that are the same with the device plugin and with DRA.

    `discovery` contains the values of Node Feature Discovery.
    """

    driver: DriverValues
    daemonsets: Daemonsets
    exporter: DcgmExporter
    discovery: Mapping[str, Any]


def plan_gpu_cluster(
    settings: OperatorSettings,
    pools: Sequence[PoolPlan],
    operator: Operator,
    release: OperatorRelease,
    common: SharedValues,
    metrics: ConfigMapPlan | None,
) -> OperatorPlan:
    """Return the operator's plan for pools with DRA."""
    values = GpuClusterValues(
        dra_driver=DraDriver(compute_domains=Toggle(enabled=compute_domains(pools, operator))),
        dcgm=Toggle(enabled=False),
        dcgm_exporter=common.exporter,
        daemonsets=common.daemonsets,
    )
    shared: dict[str, Any] = camel_case(values)
    if any(pool.sharing.partitions for pool in pools):
        shared["draDriver"]["featureGates"] = {FEATURE_GATE: True}
    return OperatorPlan(
        release=release.version,
        namespace=names.OPERATOR_NAMESPACE,
        install="gpu-cluster" if settings.writes_object else "helm",
        cluster_policy={},
        gpu_cluster=shared,
        nvidia_driver=_nvidia_driver(common.driver) if settings.writes_object and common.driver.enabled else {},
        helm_values={
            **CONTROLLER,
            "clusterPolicy": {"deployCR": False},
            "gpuCluster": {"deployCR": True},
            "nfd": RELIED_ON["nfd"],
            # A GPUCluster manages no driver.
            # The chart therefore creates an NVIDIADriver, which runs the driver container.
            "driver": {**camel_case(common.driver), "nvidiaDriverCRD": {"enabled": common.driver.enabled}},
            **shared,
            **common.discovery,
        },
        device_plugin_config=None,
        mig_config=None,
        metrics_config=metrics,
        quota=None,
    )


def _nvidia_driver(driver: DriverValues) -> Mapping[str, Any]:
    """Return the spec of the default NVIDIADriver as the chart writes it (templates/nvidiadriver.yaml)."""
    values = as_cluster_policy(camel_case(driver))
    return {
        "default": True,
        "driverType": "gpu",
        "repository": _REPOSITORY,
        "image": _IMAGE,
        "version": values["version"],
        "upgradePolicy": values["upgradePolicy"],
    }
