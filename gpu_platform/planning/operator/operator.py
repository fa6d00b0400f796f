"""The GPU Operator: whether it fits, the values that it gets, and the ConfigMaps that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform import names
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.errors import did_you_mean
from gpu_platform.planning.config_maps import ConfigMapPlan, hashed_config_map
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.operator.config_maps import device_plugin_data, mig_parted_data
from gpu_platform.planning.operator.gpu_cluster import plan_gpu_cluster
from gpu_platform.planning.operator.section import OperatorPlan, PriorityQuotaPlan
from gpu_platform.planning.operator.values import (
    ConfigReference,
    Configured,
    Daemonsets,
    DcgmExporter,
    Driver,
    EnvVar,
    HostPaths,
    Mig,
    MigManager,
    OperatorValues,
    Toggle,
    Toleration,
    Toolkit,
    camel_case,
)
from gpu_platform.planning.pools.section import PoolPlan, Taint
from gpu_platform.planning.pools.software import GKE_NVIDIA_DIR, node_image, node_software
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.named import PoolShare
from gpu_platform.planning.sharing.sharing import DEFAULT_KEY
from gpu_platform.spec.cluster import Cluster, GkeCluster, Operator
from gpu_platform.spec.pool import Pool
from gpu_platform.spec.stack import Environment

SANDBOX_KUBERNETES = "1.36"  # what sandbox/go.mod pins
CLOUDS = ("eks", "gke")
SYSTEM_PRIORITY_CLASSES = (
    "system-node-critical",
    "system-cluster-critical",
)  # the operands' and the operator's own
OPERANDS_PER_NODE = 12  # the operator's DaemonSets and feature discovery's, with the pods that validate
PODS_BESIDE = 200  # the operator itself, and feature discovery on nodes without GPUs


def check_operator(
    spec_operator: Operator, cluster: Cluster | None, pools: Sequence[Pool], catalog: Catalog, problems: Problems
) -> None:
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
    _check_driver_version(spec_operator, cluster, pools, release, catalog, problems.at("driver").at("version"))
    kubernetes = cluster_version(cluster) if cluster is not None else None
    if kubernetes is not None and not _minor(release.kubernetes[0]) <= _minor(kubernetes) <= _minor(
        release.kubernetes[1]
    ):
        problems.at("release").add(
            f"{release.version!r} on Kubernetes {kubernetes}",
            f"Kubernetes {release.kubernetes[0]} to {release.kubernetes[1]} ({release.source})",
            "take another operator release, or upgrade the cluster",
        )


def _check_driver_version(
    operator: Operator,
    cluster: Cluster | None,
    pools: Sequence[Pool],
    release: OperatorRelease,
    catalog: Catalog,
    here: Problems,
) -> None:
    version = operator.driver.version
    if version is None:
        return
    owners = {node_software(pool, cluster, operator, catalog).driver for pool in pools}
    on_cloud = cluster is not None and cluster.provider in CLOUDS
    by_operator = "operator" in owners if on_cloud else operator.driver.owner != "host"
    if by_operator and version not in release.drivers:
        here.add(
            f"{version!r}",
            f"a driver of {release.version}: " + ", ".join(release.drivers),
            did_you_mean(version, release.drivers) or "leave it out to take the release's default",
        )
    if owners == {"gke"}:
        here.add(f"{version!r}", "nothing: on all pools GKE chooses the driver", "remove version")


def check_host_paths(
    pools: Sequence[tuple[int, Pool]],
    cluster: Cluster | None,
    operator: Operator,
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Record GKE pools whose drivers lie in different places: the operator takes one place for the whole cluster.

    `pools`: index in the file, pool; `problems` stands at the root.
    """
    if not isinstance(cluster, GkeCluster):
        return
    of_operator = [
        (index, pool, node_software(pool, cluster, operator, catalog).driver)
        for index, pool in pools
        if pool.device_plugin != "provider" and node_image(pool, cluster, catalog) is not None
    ]
    for index, pool, driver in of_operator:
        if driver != of_operator[0][2]:
            first = of_operator[0][1]
            problems.at(f"pools[{index}]").at("image").at("family").add(
                f"{pool.image.family or 'cos'} beside {first.image.family or 'cos'} of pool {first.name}",
                "one image family for all pools with the operator's device plugin: hostPaths.driverInstallDir and "
                "toolkit.installDir are one value for the whole cluster",
                f"write image: {{family: {first.image.family or 'cos'}}}, or device_plugin: provider",
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
    shares: Sequence[PoolShare],
    metrics: ConfigMapPlan | None,
    catalog: Catalog,
    decisions: list[Decision],
) -> OperatorPlan:
    """Return the operator's plan for pools that are already planned; `shares`: where their sharing comes from."""
    release = catalog.operator_releases[spec.operator.release]
    owned = any(pool.software.driver == "operator" for pool in pools)
    version = spec.operator.driver.version or (release.default_driver if owned else None)
    _decide_driver(spec, pools, version, release, decisions)
    exporter = DcgmExporter(
        enabled=spec.monitoring.enabled,
        config=ConfigReference(name=metrics.name) if metrics is not None else None,
        service_monitor=Toggle(enabled=False),
    )
    driver = Driver(enabled=owned, version=version if owned else None)
    daemonsets = Daemonsets(tolerations=_tolerations(pools))
    if any(pool.sharing.mode == "dra" for pool in pools):
        discovery = _feature_discovery(pools)
        return plan_gpu_cluster(spec, pools, release, driver, daemonsets, exporter, metrics, discovery)
    plugin_data = device_plugin_data(spec.sharing, pools, catalog)
    device_plugin = hashed_config_map("device-plugin-config", names.OPERATOR_NAMESPACE, plugin_data)
    mig_data = mig_parted_data(spec.sharing, pools, shares, catalog)
    mig = hashed_config_map("mig-parted-config", names.OPERATOR_NAMESPACE, mig_data) if mig_data else None
    on_cloud = spec.cluster.provider in CLOUDS
    values = OperatorValues(
        daemonsets=daemonsets,
        host_paths=HostPaths(driver_install_dir=GKE_NVIDIA_DIR) if _installs_on_cos(spec, pools) else None,
        driver=driver,
        toolkit=_toolkit(spec, pools),
        device_plugin=Configured(
            enabled=any(pool.software.device_plugin == "operator" for pool in pools),
            config=ConfigReference(name=device_plugin.name, default=DEFAULT_KEY),
        ),
        mig=Mig(),
        mig_manager=MigManager(
            enabled=mig is not None,
            config=ConfigReference(name=mig.name) if mig is not None else None,
            # A virtual machine cannot reset its GPUs alone, which some changes of MIG mode need.
            env=(EnvVar(name="WITH_REBOOT", value="true"),) if mig is not None and on_cloud else None,
        ),
        gfd=Toggle(enabled=True),
        dcgm=Toggle(enabled=False),
        dcgm_exporter=exporter,
        node_status_exporter=Toggle(enabled=False),
    )
    shared: Mapping[str, Any] = camel_case(values)
    return OperatorPlan(
        release=release.version,
        namespace=names.OPERATOR_NAMESPACE,
        install="cluster-policy" if spec.cluster.provider == "sandbox" else "helm",
        # The CRD knows no empty strategy: there it is left out.
        cluster_policy={"operator": {"runtimeClass": "nvidia"}, **shared, "mig": {}},
        gpu_cluster={},
        helm_values={**shared, **_feature_discovery(pools)},
        device_plugin_config=device_plugin,
        mig_config=mig,
        metrics_config=metrics,
        quota=_quota(pools) if spec.cluster.provider == "gke" else None,
    )


def _decide_driver(
    spec: Environment,
    pools: Sequence[PoolPlan],
    version: str | None,
    release: OperatorRelease,
    decisions: list[Decision],
) -> None:
    owners = {pool.software.driver for pool in pools}
    owned = "operator" in owners
    why = "the stack says so" if spec.operator.driver.version else f"default of {release.version}"
    if spec.cluster.provider in CLOUDS and not owned:
        why = "the pools' images or GKE bring it"
    decisions.append(
        Decision(
            subject="operator",
            what="driver",
            chosen=f"{version or 'as the node image has it'}, installed by the {'operator' if owned else 'host'}",
            why=why,
        )
    )
    if _installs_on_cos(spec, pools):
        decisions.append(
            Decision(
                subject="operator",
                what="host paths",
                chosen=GKE_NVIDIA_DIR,
                why="the rest of Container-Optimized OS is read-only or not executable",
            )
        )


def _installs_on_cos(spec: Environment, pools: Sequence[PoolPlan]) -> bool:
    """Return whether the operator works on Container-Optimized OS, which has its driver in a place of its own."""
    return spec.cluster.provider == "gke" and any(
        pool.software.operands and pool.software.driver == "image" for pool in pools
    )


def _toolkit(spec: Environment, pools: Sequence[PoolPlan]) -> Toolkit:
    enabled = any(pool.software.toolkit == "operator" for pool in pools)
    if not enabled or spec.cluster.provider != "gke":
        return Toolkit(enabled=enabled)
    return Toolkit(
        enabled=True,
        install_dir=GKE_NVIDIA_DIR if _installs_on_cos(spec, pools) else None,
        # From GKE 1.33 on, what containerd says of itself is not what its configuration file must say.
        env=(EnvVar(name="RUNTIME_CONFIG_SOURCE", value="file"),),
    )


def _quota(pools: Sequence[PoolPlan]) -> PriorityQuotaPlan:
    """GKE admits system-critical priority classes outside kube-system only where a quota names them."""
    return PriorityQuotaPlan(
        name="gpu-operator-system-critical",
        pods=PODS_BESIDE + OPERANDS_PER_NODE * sum(pool.nodes.max for pool in pools),
        priority_classes=SYSTEM_PRIORITY_CLASSES,
    )


def _feature_discovery(pools: Sequence[PoolPlan]) -> Mapping[str, Any]:
    """Let Node Feature Discovery reach tainted pools: the operator acts only on nodes that it has labelled.

    The subchart's worker has tolerations of its own, which this list replaces: keep the control plane's.
    """
    own = Toleration(key="node-role.kubernetes.io/control-plane", operator="Exists", effect="NoSchedule")
    return {"node-feature-discovery": {"worker": {"tolerations": camel_case((own, *_tolerations(pools)))}}}


def _tolerations(pools: Sequence[PoolPlan]) -> tuple[Toleration, ...]:
    taints: dict[tuple[str, str], Taint] = {}
    for pool in pools:
        taints |= {(taint.key, taint.effect): taint for taint in pool.all_taints}
    return tuple(Toleration(key=key, operator="Exists", effect=effect) for key, effect in taints)
