"""Typed values of the GPU Operator, and their form in Helm and Kubernetes.

The Helm chart's values and the ClusterPolicy's spec share these names, so one typed value serves both: a Helm
release on real clusters, the ClusterPolicy object itself in the sandbox.
Source: NVIDIA/gpu-operator v26.7.0, deployments/gpu-operator/values.yaml and the ClusterPolicy CRD; 2026-08-20.
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
"""Helm values of the controller's own pod: twice the memory of the chart (350Mi), which NVIDIA's recipes give it.

Source: NVIDIA/aicr v0.11.1, recipes/components/gpu-operator/values.yaml; read 2026-11-25.
"""


RELIED_ON: Final[Mapping[str, Any]] = {
    "cdi": {"enabled": True},
    "clusterPolicy": {"deployCR": True},
    "nfd": {"enabled": True},
    "operator": {**CONTROLLER["operator"], "runtimeClass": RUNTIME_CLASS},
}
"""Helm values that the program relies on, as the chart has them by default: values of the stack file do not win.

The toolkit refuses devices to unprivileged containers by any other way than CDI, the operator acts on nodes that
Node Feature Discovery has labelled, and the node agents name the runtime class.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """A component of the operator that is on or off."""

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """The operator's values of the driver container."""

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
    """A ConfigMap by name, and the key that nodes without a label use."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredComponent:
    """A component with a ConfigMap of its own."""

    enabled: bool
    config: ConfigReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigManager:
    """The MIG manager, which partitions GPUs by a label of the node."""

    enabled: bool
    config: ConfigReference | None = None
    env: tuple[EnvVar, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmExporter:
    """The metrics exporter. Our own ServiceMonitor selects it, so the operator's stays off."""

    enabled: bool
    config: ConfigReference | None
    service_monitor: Toggle


@dataclass(frozen=True, slots=True, kw_only=True)
class MigValues:
    """The cluster's MIG strategy, left empty: it would override the device-plugin config of each pool.

    The operator hands it to the plugins as MIG_STRATEGY, which overrides a config file's `migStrategy`
    (k8s-device-plugin: flag, then variable, then file). The chart's own default is `single`.
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
    """What all of the operator's DaemonSets share."""

    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorValues:
    """All values that the program sets; others keep the default of the release."""

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
    """Return a typed value in the form of Helm and Kubernetes: camelCase keys, unset fields left out."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {re.sub(r"_(\w)", lambda m: m[1].upper(), k): camel_case(v) for k, v in pairs if v is not None}
    if isinstance(value, tuple):
        return [camel_case(item) for item in cast("tuple[object, ...]", value)]
    return value
