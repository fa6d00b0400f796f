"""Typed values of the GPU Operator, and their form in Helm and Kubernetes.

The Helm chart's values and the ClusterPolicy's spec use the same names, so one typed value serves both: a Helm
release on real clusters, and the ClusterPolicy object in the sandbox. Source: NVIDIA/gpu-operator v26.7.0,
deployments/gpu-operator/values.yaml and the ClusterPolicy CRD; 2026-08-20.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, cast

from gpu_platform.planning.operator.driver_upgrades import UpgradePolicy

RUNTIME_CLASS: Final = "nvidia"
CONTROLLER: Final[Mapping[str, Any]] = {
    "operator": {
        "resources": {
            "requests": {"cpu": "200m", "memory": "300Mi"},
            "limits": {"cpu": "500m", "memory": "700Mi"},
        }
    }
}
"""Helm values of the controller's pod. The memory limit is twice the chart's limit of 350Mi, as in NVIDIA's
recipes.

Source: NVIDIA/aicr v0.11.1, recipes/components/gpu-operator/values.yaml; read 2026-11-25.
"""


RELIED_ON: Final[Mapping[str, Any]] = {
    "cdi": {"enabled": True},
    "clusterPolicy": {"deployCR": True},
    "nfd": {"enabled": True},
    "operator": {**CONTROLLER["operator"], "runtimeClass": RUNTIME_CLASS},
}
"""Chart defaults that the program relies on. The stack file cannot override them.

The toolkit gives devices to unprivileged containers only through CDI. The operator acts on nodes that Node Feature
Discovery has labelled. The node agents' pods refer to the runtime class by name.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """A component of the operator that is on or off."""

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """The operator's values for the driver container."""

    enabled: bool
    version: str | None = None
    upgrade_policy: UpgradePolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """An environment variable of a component's container."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPaths:
    """Directories on every node of the cluster."""

    driver_install_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The container toolkit."""

    enabled: bool
    install_dir: str | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReference:
    """The name of a ConfigMap, and the key in it that applies to nodes without a label."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredComponent:
    """A component with its own ConfigMap."""

    enabled: bool
    config: ConfigReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigManager:
    """The MIG manager, which partitions GPUs according to a node label."""

    enabled: bool
    config: ConfigReference | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmExporter:
    """The DCGM exporter, which exports GPU metrics.

    The program creates a ServiceMonitor for it, so the operator's ServiceMonitor stays off.
    """

    enabled: bool
    config: ConfigReference | None
    service_monitor: Toggle


@dataclass(frozen=True, slots=True, kw_only=True)
class MigValues:
    """The cluster's MIG strategy, which stays empty so that it does not override the device plugin's config for
    each pool.

    The operator passes it to the plugins as MIG_STRATEGY, which overrides a config file's `migStrategy`
    (k8s-device-plugin: flag, then variable, then file). The chart's default is `single`.
    """

    strategy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of the operator's DaemonSets."""

    key: str
    operator: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemonsets:
    """Settings that all of the operator's DaemonSets share."""

    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorValues:
    """All values that the program sets. Other values keep the release's defaults."""

    daemonsets: Daemonsets
    host_paths: HostPaths | None
    driver: DriverValues
    gdrcopy: Toggle | None
    toolkit: Toolkit
    device_plugin: ConfiguredComponent
    mig: MigValues
    mig_manager: MigManager
    gfd: Toggle
    dcgm: Toggle
    dcgm_exporter: DcgmExporter
    node_status_exporter: Toggle


def camel_case(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a typed value as in Helm values and Kubernetes objects, with camelCase keys and without unset
    fields.
    """
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {re.sub(r"_(\w)", lambda m: m[1].upper(), k): camel_case(v) for k, v in pairs if v is not None}
    if isinstance(value, tuple):
        return [camel_case(item) for item in cast("tuple[object, ...]", value)]
    return value
