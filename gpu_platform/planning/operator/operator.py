"""Plan the GPU Operator, with its values and their ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.clouds.daemonsets import OPERANDS_PER_NODE, UPDATE_STRATEGY
from gpu_platform.planning.clouds.gpu_parts import gpu_parts, plan_gpu_parts
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.protocol import OperatorSettings
from gpu_platform.planning.config_maps import ConfigMapPlan, hashed_config_map
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.operator.config_maps import device_plugin_data, mig_parted_data
from gpu_platform.planning.operator.dra_driver import plan_dra_driver
from gpu_platform.planning.operator.driver_upgrades import (
    UpgradePolicy,
    as_cluster_policy,
    plan_upgrade_policy,
)
from gpu_platform.planning.operator.gpu_cluster import SharedValues, plan_gpu_cluster
from gpu_platform.planning.operator.parts import part_decisions
from gpu_platform.planning.operator.section import OperatorPlan
from gpu_platform.planning.operator.unrequested import UNPRIVILEGED_DEVICES, unrequested_decisions
from gpu_platform.planning.operator.values import (
    RELIED_ON,
    RUNTIME_CLASS,
    ConfigReference,
    ConfiguredComponent,
    Daemonsets,
    DcgmExporter,
    DriverValues,
    EnvVar,
    HostPaths,
    MigManager,
    MigValues,
    OperatorValues,
    Toggle,
    Toleration,
    Toolkit,
    camel_case,
)
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.planning.sharing.named import DEFAULT_KEY
from gpu_platform.planning.system_priorities import NODE_CRITICAL, PriorityQuotaPlan
from gpu_platform.stack.charts import ChartSettings

SYSTEM_PRIORITY_CLASSES = (
    NODE_CRITICAL,
    "system-cluster-critical",
)  # the operands use the first class, and the operator uses the second class
_NFD_CHART = "node-feature-discovery"
# Variables that choose which configuration the toolkit reads.
# By default, the toolkit reads `containerd config dump`, which has the newest version that containerd supports.
# The toolkit then writes a configuration file of this version next to containerd's own file.
# containerd 2.3 does not start if the toolkit's file has a higher version than containerd's own file.
# The toolkit's file has a higher version on AKS, and with kubeadm and Cluster API.
# Sources: NVIDIA/nvidia-container-toolkit v1.20.0, cmd/nvidia-ctk-installer/container/runtime/runtime.go;
# containerd/containerd#12891; NVIDIA/aicr#1688 and azimuth-cloud/capi-helm-charts#838; read 2026-11-30.
_CONFIG_SOURCES: Final = ("RUNTIME_CONFIG_SOURCE", "RUNTIME_CONFIG_SOURCES")
_STRICT_CONTAINERD: Final = "2.3"
PODS_BESIDE = 200  # pods of the operator, and pods of feature discovery on nodes without GPUs


def plan(
    context: CompleteContext,
    resolved_pools: Sequence[ResolvedPool],
    pools: Sequence[PoolPlan],
    metrics: ConfigMapPlan | None,
) -> Decided[OperatorPlan]:
    """Return the plan for the GPU Operator on these pools.

    `resolved_pools` are the same pools, with their sharing configurations from the stack file. CPU pools
    are ignored, because the operands select nodes with GPUs and tolerate only the taints of GPU pools.
    """
    with_gpus = [one for one in zip(pools, resolved_pools, strict=True) if one[0].has_gpus]
    pools, resolved_pools = [pool for pool, _ in with_gpus], [resolved for _, resolved in with_gpus]
    present, cluster = gpu_parts(context.cloud.cluster), context.cloud.cluster
    parts = plan_gpu_parts(cluster, exporter=context.environment.monitoring.enabled)
    if present.gpu_operator == "present":
        unknown = unrequested_decisions(context, pools, present=True)
        return Decided(_present(context, parts), (*part_decisions(parts), *unknown))
    if present.dcgm_exporter == "present":
        metrics = None
    decided = _plan(context, resolved_pools, pools, metrics)
    value = decided.value
    if present.node_feature_discovery == "present":
        values = {key: value for key, value in value.helm_values.items() if key != _NFD_CHART}
        value = replace(value, helm_values={**values, "nfd": {"enabled": False}})
    unknown = unrequested_decisions(context, pools, present=False)
    return Decided(replace(value, parts=parts), (*decided.decisions, *part_decisions(parts), *unknown))


def _present(context: CompleteContext, parts: tuple[PartPlan, ...]) -> OperatorPlan:
    """Return the plan for an operator that the cluster's owner has installed. The program then creates nothing."""
    return OperatorPlan(
        release=context.catalog.operator_releases[context.environment.operator.release].version,
        namespace=names.OPERATOR_NAMESPACE,
        install="none",
        cluster_policy={},
        gpu_cluster={},
        helm_values={},
        device_plugin_config=None,
        mig_config=None,
        metrics_config=None,
        quota=None,
        parts=parts,
    )


def _plan(
    context: CompleteContext,
    resolved_pools: Sequence[ResolvedPool],
    pools: Sequence[PoolPlan],
    metrics: ConfigMapPlan | None,
) -> Decided[OperatorPlan]:
    spec, catalog = context.environment, context.catalog
    present = gpu_parts(context.cloud.cluster)
    release = catalog.operator_releases[spec.operator.release]
    settings = context.cloud.software.operator_settings(pools)
    declared = spec.charts.get(names.OPERATOR_CHART, ChartSettings())
    own_drivers = [pool for pool in pools if pool.software.driver == "operator"]
    owned = bool(own_drivers)
    version = spec.operator.driver.version or (release.default_driver if owned else None)
    upgrades: Decided[UpgradePolicy | None] = (
        plan_upgrade_policy(resolved_pools, spec.changes, sum(pool.nodes.desired for pool in own_drivers))
        if owned
        else Decided(None)
    )
    decisions = (_driver_decision(context, pools, version), *upgrades.decisions, *settings.decisions)
    exporter = DcgmExporter(
        enabled=spec.monitoring.enabled and present.dcgm_exporter == "install",
        config=ConfigReference(name=metrics.name) if metrics is not None else None,
        service_monitor=Toggle(enabled=False),
    )
    driver = DriverValues(enabled=owned, version=version if owned else None, upgrade_policy=upgrades.value)
    daemonsets = Daemonsets(tolerations=_tolerations(pools))
    if any(pool.sharing.mode == "dra" for pool in pools):
        shared_values = SharedValues(
            driver=driver, daemonsets=daemonsets, exporter=exporter, discovery=_feature_discovery(pools)
        )
        return Decided(
            plan_gpu_cluster(settings, pools, context.operator, release, shared_values, metrics), decisions
        )
    gdrcopy = declared.section("gdrcopy").get("enabled") is not False and any(map(_copies_by_gdr, pools))
    if gdrcopy:
        decisions += (
            Decision(
                subject="operator",
                what="GDRCopy",
                chosen="on: installed with the driver, or part of the node image",
                why="UCX and NVSHMEM use GDRCopy in training over RDMA, to exchange small messages with GPUs",
            ),
        )
    decisions += _runtime_decisions(settings, pools, release, declared, catalog)
    plugin_data = device_plugin_data(spec.sharing, pools, catalog)
    device_plugin = hashed_config_map("device-plugin-config", names.OPERATOR_NAMESPACE, plugin_data)
    mig_data = mig_parted_data(spec.sharing, pools, resolved_pools, catalog)
    mig = hashed_config_map("mig-parted-config", names.OPERATOR_NAMESPACE, mig_data) if mig_data else None
    values = OperatorValues(
        daemonsets=daemonsets,
        host_paths=HostPaths(driver_install_dir=settings.driver_dir) if settings.driver_dir is not None else None,
        driver=driver,
        gdrcopy=Toggle(enabled=True) if gdrcopy else None,
        toolkit=_toolkit(settings, pools, release, declared),
        device_plugin=ConfiguredComponent(
            enabled=present.device_plugin == "install"
            and any(pool.software.device_plugin == "operator" for pool in pools),
            config=ConfigReference(name=device_plugin.name, default=DEFAULT_KEY),
        ),
        mig=MigValues(),
        mig_manager=MigManager(
            enabled=mig is not None,
            config=ConfigReference(name=mig.name) if mig is not None else None,
            env=(EnvVar(name="WITH_REBOOT", value="true"),)
            if mig is not None and settings.reboots_for_mig
            else None,
        ),
        gfd=Toggle(enabled=True),
        dcgm=Toggle(enabled=False),
        dcgm_exporter=exporter,
        node_status_exporter=Toggle(enabled=False),
    )
    compute_domains = plan_dra_driver(context, settings, pools)
    shared: Mapping[str, Any] = camel_case(values)
    spec_of_driver = as_cluster_policy(shared["driver"])
    operator = OperatorPlan(
        release=release.version,
        namespace=names.OPERATOR_NAMESPACE,
        install="cluster-policy" if settings.writes_object else "helm",
        # The CRD does not allow an empty strategy, so the ClusterPolicy omits it.
        cluster_policy={
            "operator": {"runtimeClass": RUNTIME_CLASS},
            **shared,
            "driver": spec_of_driver,
            "mig": {},
        },
        gpu_cluster={},
        helm_values={**RELIED_ON, **shared, **_feature_discovery(pools)},
        device_plugin_config=device_plugin,
        mig_config=mig,
        metrics_config=metrics,
        quota=_quota(pools) if settings.quota_for_system_priorities else None,
        dra_driver=compute_domains.value,
    )
    return Decided(operator, (*decisions, *compute_domains.decisions))


_UNKNOWN_DRIVER: Mapping[str, str] = {
    "image": "the version in the node image",
    "installer": "the version that the platform's installer installs",
    "cloud": "the version that the cloud installs",
}


def _driver_decision(context: CompleteContext, pools: Sequence[PoolPlan], version: str | None) -> Decision:
    operator = context.operator
    owners = {pool.software.driver for pool in pools}
    if "operator" in owners:
        chosen = f"{version}, installed by the operator"
        why = "set in the stack file" if operator.driver.version else f"default of {operator.release}"
    else:
        unknown = [text for owner, text in _UNKNOWN_DRIVER.items() if owner in owners]
        installs = "the platform's installer" if "installer" in owners else "the host"
        chosen = f"{version}, installed by {installs}" if version is not None else " or ".join(unknown) or "none"
        why = "operator.driver.owner is host" if owners else "no pool has GPUs"
        if owners and context.cloud.creates_nodes:
            why = "the nodes already have a driver that the operator did not install"
    return Decision(subject="operator", what="driver", chosen=chosen, why=why)


def _toolkit(
    settings: OperatorSettings, pools: Sequence[PoolPlan], release: OperatorRelease, declared: ChartSettings
) -> Toolkit:
    if not _installs_toolkit(pools):
        return Toolkit(enabled=False)
    # Without this variable, any pod could use all GPUs of its node by setting NVIDIA_VISIBLE_DEVICES=all.
    # Pods that request GPUs still get them through CDI, and the operands are privileged.
    # Source: gpu-operator v26.7.0, object_controls.go.
    variables = {UNPRIVILEGED_DEVICES: "false"}
    if _reads_runtime_file(settings, release) and not _config_sources(declared):
        variables[_CONFIG_SOURCES[0]] = "file"
    return Toolkit(
        enabled=True,
        install_dir=settings.toolkit_dir,
        env=tuple(EnvVar(name=name, value=value) for name, value in variables.items()),
    )


def _installs_toolkit(pools: Sequence[PoolPlan]) -> bool:
    return any(pool.software.toolkit == "operator" for pool in pools)


def _reads_runtime_file(settings: OperatorSettings, release: OperatorRelease) -> bool:
    return settings.reads_runtime_file or release.completes_runtimes


def _config_sources(declared: ChartSettings) -> set[object]:
    """Return the variables in the stack file that choose which configuration the toolkit reads."""
    entries = declared.section("toolkit").get("env")
    listed = cast("list[object]", entries) if isinstance(entries, list) else []
    named = {cast("Mapping[str, object]", one).get("name") for one in listed if isinstance(one, Mapping)}
    return named & set(_CONFIG_SOURCES)


def _runtime_decisions(
    settings: OperatorSettings,
    pools: Sequence[PoolPlan],
    release: OperatorRelease,
    declared: ChartSettings,
    catalog: Catalog,
) -> tuple[Decision, ...]:
    """Return the decision that the nodes need a containerd version below `_STRICT_CONTAINERD`.

    The decision applies only if the operator installs a toolkit that reads `containerd config dump`.
    """
    known = _reads_runtime_file(settings, release) or _config_sources(declared)
    if settings.writes_object or known or not _installs_toolkit(pools):
        return ()
    safe = [one.version for one in catalog.operator_releases.values() if one.completes_runtimes]
    return (
        Decision(
            subject="operator",
            what="containerd",
            chosen=f"older than {_STRICT_CONTAINERD}; verify this yourself",
            why=f"the toolkit of {release.version} writes the newest version of containerd's configuration, and "
            f"containerd {_STRICT_CONTAINERD} does not start if its own file has an older version; "
            f"for such nodes, write operator.release: {safe[0]}, or {_CONFIG_SOURCES[0]} in "
            f"charts.{names.OPERATOR_CHART}.values.toolkit.env",
        ),
    )


def _copies_by_gdr(pool: PoolPlan) -> bool:
    """Return whether a pool is for training over RDMA and its pods get GDRCopy's device from the operator's device
    plugin.

    GDRCopy's kernel module comes with the operator's driver and is part of EKS' AL2023 images. COS does not
    contain the module. The driver containers of Rocky Linux and RHEL, which existing nodes may have, do not become
    ready with the module (NVIDIA/gpu-operator#2911, read 2026-11-30).
    """
    software = pool.software
    return (
        pool.has_rdma
        and pool.workload == "training"
        and software.device_plugin == "operator"
        and software.driver in ("operator", "image")
    )


def _quota(pools: Sequence[PoolPlan]) -> PriorityQuotaPlan:
    """Return a ResourceQuota that admits pods with system-critical priority classes outside kube-system."""
    return PriorityQuotaPlan(
        name="gpu-operator-system-critical",
        pods=PODS_BESIDE + OPERANDS_PER_NODE * sum(pool.nodes.max for pool in pools),
        priority_classes=SYSTEM_PRIORITY_CLASSES,
    )


def _feature_discovery(pools: Sequence[PoolPlan]) -> Mapping[str, Any]:
    """Return values that allow Node Feature Discovery to run on tainted pools and to be updated on many nodes.

    The operator acts only on nodes that Node Feature Discovery has labelled. Helm replaces the subchart's list of
    tolerations, so the new list repeats the toleration for the control plane.
    """
    own = Toleration(key="node-role.kubernetes.io/control-plane", operator="Exists", effect="NoSchedule")
    tolerations = camel_case((own, *_tolerations(pools)))
    return {_NFD_CHART: {"worker": {"tolerations": tolerations, "updateStrategy": UPDATE_STRATEGY}}}


def _tolerations(pools: Sequence[PoolPlan]) -> tuple[Toleration, ...]:
    taints: dict[tuple[str, str], Taint] = {}
    for pool in pools:
        taints |= {(taint.key, taint.effect): taint for taint in pool.tolerated_by_daemons}
    return tuple(Toleration(key=key, operator="Exists", effect=effect) for key, effect in taints)
