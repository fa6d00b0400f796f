"""The GPU Operator: typed values, and the ConfigMaps that they name.

The Helm chart's values and the ClusterPolicy's spec share these names, so one typed value serves both: a Helm
release on real clusters, the ClusterPolicy object itself in the sandbox.
Source: NVIDIA/gpu-operator v26.7.0, deployments/gpu-operator/values.yaml and the ClusterPolicy CRD; 2026-08-20.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from gpu_platform import names
from gpu_platform.catalog import Catalog
from gpu_platform.errors import did_you_mean
from gpu_platform.planning.content import as_yaml, hashed_config_map
from gpu_platform.planning.plan import ConfigMapPlan, Decision, OperatorPlan, PoolPlan, Taint
from gpu_platform.planning.pools import driver_version
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing import DEFAULT_KEY, WHOLE_GPU_CONFIG, mig_parted_entries
from gpu_platform.spec.cluster import Cluster, Operator
from gpu_platform.spec.stack import Environment

SANDBOX_KUBERNETES = "1.36"  # what sandbox/go.mod pins


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """A component of the operator that is on or off."""

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The driver container."""

    enabled: bool
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReference:
    """A ConfigMap by name, and the key that nodes without a label use."""

    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A component with a ConfigMap of its own."""

    enabled: bool
    config: ConfigReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmExporter:
    """The metrics exporter. Our own ServiceMonitor selects it, so the operator's stays off."""

    enabled: bool
    config: ConfigReference | None
    service_monitor: Toggle


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """The cluster's MIG strategy, left empty: it would win over what each pool's device-plugin config says.

    The operator hands it to the plugins as MIG_STRATEGY, which counts before a config file's `migStrategy`
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
    """Every value that the operator gets from us; what is not here keeps the release's default."""

    daemonsets: Daemonsets
    driver: Driver
    toolkit: Toggle
    device_plugin: Configured
    mig: Mig
    mig_manager: Configured
    gfd: Toggle
    dcgm: Toggle
    dcgm_exporter: DcgmExporter
    node_status_exporter: Toggle


def camel_case(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a typed value as Helm and Kubernetes spell it: camelCase keys, unset fields left out."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {re.sub(r"_(\w)", lambda m: m[1].upper(), k): camel_case(v) for k, v in pairs if v is not None}
    if isinstance(value, tuple):
        return [camel_case(item) for item in cast("tuple[object, ...]", value)]
    return value


def check_operator(spec_operator: Operator, cluster: Cluster | None, catalog: Catalog, problems: Problems) -> None:
    """Record an operator release, driver or Kubernetes version outside the support matrix."""
    release = catalog.operator_releases.get(spec_operator.release)
    if release is None:
        known = list(catalog.operator_releases)
        fix = did_you_mean(spec_operator.release, known) or f"write release: {known[-1] if known else ''}"
        problems.at("release").add(f"{spec_operator.release!r}", "one of " + ", ".join(known), fix)
        return
    if release.status == "end-of-support":
        problems.at("release").add(
            f"{release.version!r}, which is out of support",
            "a supported release (" + _supported(catalog) + f"; {release.source})",
            "take the newest; upgrade one major at a time",
        )
    version = spec_operator.driver.version
    if spec_operator.driver.owner != "host" and version is not None and version not in release.drivers:
        problems.at("driver").at("version").add(
            f"{version!r}",
            f"a driver of {release.version}: " + ", ".join(release.drivers),
            did_you_mean(version, release.drivers) or "leave it out to take the release's default",
        )
    kubernetes = cluster_version(cluster) if cluster is not None else None
    if kubernetes is not None and not _minor(release.kubernetes[0]) <= _minor(kubernetes) <= _minor(
        release.kubernetes[1]
    ):
        problems.at("release").add(
            f"{release.version!r} on Kubernetes {kubernetes}",
            f"Kubernetes {release.kubernetes[0]} to {release.kubernetes[1]} ({release.source})",
            "take another operator release, or upgrade the cluster",
        )


def cluster_version(cluster: Cluster) -> str | None:
    """Return the cluster's Kubernetes minor version where it is known before a deploy."""
    return SANDBOX_KUBERNETES if cluster.provider == "sandbox" else cluster.kubernetes


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _supported(catalog: Catalog) -> str:
    return ", ".join(r.version for r in catalog.operator_releases.values() if r.status == "supported")


def plan_operator(
    spec: Environment,
    pools: Sequence[PoolPlan],
    metrics: ConfigMapPlan | None,
    catalog: Catalog,
    decisions: list[Decision],
) -> OperatorPlan:
    """Return the operator's plan for pools that are already planned."""
    release = catalog.operator_releases[spec.operator.release]
    device_plugin = hashed_config_map("device-plugin-config", names.OPERATOR_NAMESPACE, device_plugin_data(pools))
    mig_data = mig_parted_data(pools)
    mig = hashed_config_map("mig-parted-config", names.OPERATOR_NAMESPACE, mig_data) if mig_data else None
    owned = any(pool.software.driver == "operator" for pool in pools)
    version = driver_version(spec.operator, release)
    decisions.append(
        Decision(
            subject="operator",
            what="driver",
            chosen=f"{version or 'as the node image has it'}, installed by the {'operator' if owned else 'host'}",
            why="the stack says so" if spec.operator.driver.version else f"default of {release.version}",
        )
    )
    values = OperatorValues(
        daemonsets=Daemonsets(tolerations=_tolerations(pools)),
        driver=Driver(enabled=owned, version=version if owned else None),
        toolkit=Toggle(enabled=any(pool.software.toolkit == "operator" for pool in pools)),
        device_plugin=Configured(
            enabled=True, config=ConfigReference(name=device_plugin.name, default=DEFAULT_KEY)
        ),
        mig=Mig(),
        mig_manager=Configured(
            enabled=mig is not None, config=ConfigReference(name=mig.name) if mig is not None else None
        ),
        gfd=Toggle(enabled=True),
        dcgm=Toggle(enabled=False),
        dcgm_exporter=DcgmExporter(
            enabled=spec.monitoring.enabled,
            config=ConfigReference(name=metrics.name) if metrics is not None else None,
            service_monitor=Toggle(enabled=False),
        ),
        node_status_exporter=Toggle(enabled=False),
    )
    shared: Mapping[str, Any] = camel_case(values)
    return OperatorPlan(
        release=release.version,
        namespace=names.OPERATOR_NAMESPACE,
        install="cluster-policy" if spec.cluster.provider == "sandbox" else "helm",
        # The CRD knows no empty strategy: there it is left out.
        cluster_policy={"operator": {"runtimeClass": "nvidia"}, **shared, "mig": {}},
        helm_values={**shared, **_feature_discovery(pools)},
        device_plugin_config=device_plugin,
        mig_config=mig,
        metrics_config=metrics,
    )


def device_plugin_data(pools: Sequence[PoolPlan]) -> Mapping[str, str]:
    """Return the device plugin's configs by key: one a pool, and the default for nodes of no pool."""
    configs = {DEFAULT_KEY: WHOLE_GPU_CONFIG}
    configs |= {pool.sharing.device_plugin_key: pool.sharing.device_plugin_config for pool in pools}
    return {key: as_yaml(config) for key, config in configs.items()}


def mig_parted_data(pools: Sequence[PoolPlan]) -> Mapping[str, str]:
    """Return mig-parted's `config.yaml`; empty where no pool has a GPU with MIG."""
    if all(pool.sharing.mig_config is None for pool in pools):
        return {}
    configs: dict[str, Any] = {names.MIG_ALL_DISABLED: [{"devices": "all", "mig-enabled": False}]}
    for pool in pools:
        if pool.sharing.mig_layouts:
            configs[pool.name] = mig_parted_entries(pool.sharing, pool.gpus_per_node)
    return {"config.yaml": as_yaml({"version": "v1", "mig-configs": configs})}


def _feature_discovery(pools: Sequence[PoolPlan]) -> Mapping[str, Any]:
    """Let Node Feature Discovery reach tainted pools: the operator acts only on nodes that it has labelled.

    The subchart's worker has tolerations of its own, which this list replaces: keep the control plane's.
    """
    own = Toleration(key="node-role.kubernetes.io/control-plane", operator="Exists", effect="NoSchedule")
    return {"node-feature-discovery": {"worker": {"tolerations": camel_case((own, *_tolerations(pools)))}}}


def _tolerations(pools: Sequence[PoolPlan]) -> tuple[Toleration, ...]:
    taints: dict[tuple[str, str], Taint] = {}
    for pool in pools:
        taints |= {(taint.key, taint.effect): taint for taint in pool.taints}
    return tuple(Toleration(key=key, operator="Exists", effect=effect) for key, effect in taints)
