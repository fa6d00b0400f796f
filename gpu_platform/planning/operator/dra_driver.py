"""Plan NVIDIA's DRA driver alongside the device plugin. The driver is used only for ComputeDomains.

A ComputeDomain lets pods on several nodes share GPU memory over NVLink. The driver starts the IMEX daemons on the
domain's nodes and gives pods an IMEX channel. The device plugin still allocates GPUs. With mode dra, the
operator's GPUCluster runs the same driver. Sources: kubernetes-sigs/dra-driver-nvidia-gpu, docs/prerequisites.md,
docs/install.md and the chart's values at commit 22407113; EKS user guide, P6e-GB200 UltraServers; cluster-toolkit
1.95, kubectl-apply; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.versions import is_older
from gpu_platform.planning.clouds.protocol import OperatorSettings
from gpu_platform.planning.context import CompleteContext, Context
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.dra.checks import MINIMUM_KUBERNETES, MINIMUM_PATCH
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.nodes.software import driver_version, is_full, node_software
from gpu_platform.planning.operator.section import DraDriverPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.planning.system_priorities import NODE_CRITICAL, PriorityQuotaPlan
from gpu_platform.stack.sharing import Dra

MINIMUM_DRIVER: Final = "570.158.01"
"""Minimum driver version for ComputeDomains. The feature IMEXDaemonsWithDNSNames, which is on by default, requires
it.
"""
_OPERATORS_DRIVER: Final = "/run/nvidia/driver"
_PODS_BESIDE: Final = 10


def check_compute_domains(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record each problem that prevents ComputeDomains from working.

    With mode dra, `planning/dra/checks.py` checks the remaining requirements.
    """
    operator, cloud, catalog = context.operator, context.cloud, context.catalog
    if operator is None or cloud is None:
        return
    machines = catalog.machine_types
    racks = [
        resolved
        for resolved in resolved_pools
        if resolved.pool.machine_type in machines
        and catalog.nvlink_domain(machines[resolved.pool.machine_type]) is not None
    ]
    here = context.at("operator").at("compute_domains")
    if operator.compute_domains is not None and not racks:
        here.add(
            str(operator.compute_domains).lower(),
            "only with a machine type whose NVLink connects several nodes: "
            + ", ".join(name for name, one in machines.items() if catalog.nvlink_domain(one) is not None),
            "remove compute_domains",
        )
    if not racks or operator.compute_domains is False or not cloud.installs_charts:
        if racks and operator.compute_domains is not None and not cloud.installs_charts:
            here.add(
                f"{str(operator.compute_domains).lower()} on provider {cloud.cluster.provider}",
                "nothing, because the sandbox installs no Helm charts and simulates no NVLink between nodes",
                "remove compute_domains",
            )
        return
    if context.kubernetes is not None and minor(context.kubernetes) < minor(MINIMUM_KUBERNETES):
        context.at("cluster.kubernetes").add(
            f"{context.kubernetes!r} with pool {racks[0].pool.name}",
            f"{MINIMUM_KUBERNETES} or newer: the DRA driver, which provides ComputeDomains, needs {MINIMUM_PATCH}",
            "upgrade the cluster, or write operator: {compute_domains: false} if you install the driver yourself",
        )
    for resolved in racks:
        if not isinstance(resolved.pool.sharing, Dra):
            _check_driver(context, resolved, context.at("operator.driver.version"))


def _check_driver(context: Context, resolved: ResolvedPool, here: Problems) -> None:
    operator, catalog = context.operator, context.catalog
    if operator is None:
        return
    software = node_software(resolved.pool, context.cloud, operator, catalog)
    release = catalog.operator_releases.get(operator.release)
    version = driver_version(resolved.pool, software, operator, release)
    # Another check compares a partial version, such as a driver branch, with the branches that support the GPU.
    if version is not None and is_full(version) and is_older(version, MINIMUM_DRIVER):
        here.add(
            f"{version} for pool {resolved.pool.name}",
            f"{MINIMUM_DRIVER} or newer, which ComputeDomains require",
            "use a newer driver",
        )


def plan_dra_driver(
    context: CompleteContext, settings: OperatorSettings, pools: Sequence[PoolPlan]
) -> Decided[DraDriverPlan | None]:
    """Return the plan for the driver's chart, or None.

    The result is None if no pool has NVLink between nodes, or if GPUs are claimed through DRA.
    """
    racks = [pool for pool in pools if pool.nvlink_domain is not None]
    declared = context.operator.compute_domains
    if not racks or settings.writes_object or any(pool.devices for pool in pools):
        return Decided(None)
    if declared is False:
        why = "set in the stack file; ComputeDomains work only if the cluster's owner has installed the DRA driver"
        return Decided(None, (Decision(subject="operator", what="ComputeDomains", chosen="off", why=why),))
    chart = context.catalog.charts[names.DRA_DRIVER_CHART]
    release = context.catalog.operator_releases[context.operator.release]
    of_operator = any(pool.software.driver == "operator" for pool in racks)
    plan = DraDriverPlan(
        chart=f"{chart.repository}/{chart.name}",
        release=chart.name,
        version=chart.version,
        namespace=chart.namespace,
        values=_values(
            _OPERATORS_DRIVER if of_operator else settings.driver_root,
            racks,
            stops=of_operator and release.restarts_clients,
        ),
        quota=_quota(racks) if settings.quota_for_system_priorities else None,
    )
    decision = Decision(
        subject="operator",
        what="ComputeDomains",
        chosen=f"DRA driver {chart.version} alongside the device plugin, on pool "
        + ", ".join(pool.name for pool in racks),
        why="NVLink connects their nodes; pods share GPU memory through IMEX, which a ComputeDomain sets up",
    )
    patch = Decision(
        subject="cluster",
        what="Kubernetes patch",
        chosen=f"{MINIMUM_PATCH} or newer; verify this yourself",
        why="the DRA driver requires this patch release, but a stack file contains only the minor version",
    )
    decisions = (decision, patch) if context.kubernetes == MINIMUM_KUBERNETES else (decision,)
    if of_operator and not release.restarts_clients:
        decisions += (_holds_driver(context, release.version),)
    return Decided(plan, decisions)


def _holds_driver(context: CompleteContext, release: str) -> Decision:
    better = [one.version for one in context.catalog.operator_releases.values() if one.restarts_clients]
    return Decision(
        subject="operator",
        what="warning: driver upgrade",
        chosen=f"fails on racks: {release} does not stop the DRA driver's pods, which use the GPU driver",
        why=f"write operator.release: {better[0]}, which stops them (NVIDIA/aicr#1704)",
    )


def _values(driver_root: str, racks: Sequence[PoolPlan], *, stops: bool) -> Mapping[str, Any]:
    """Return the chart's values. With `stops`, the operator stops the driver's pods while it replaces the nodes'
    NVIDIA driver, which could not be unloaded otherwise.
    """
    taints = {(taint.key, taint.effect): None for pool in racks for taint in pool.tolerated_by_daemons}
    return {
        "nvidiaDriverRoot": driver_root,
        "resources": {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}},
        "kubeletPlugin": {
            **({"nodeSelector": {names.DEPLOY_CLIENT_LABEL: "true"}} if stops else {}),
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": _expressions(pool)} for pool in racks]
                    }
                }
            },
            "tolerations": [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints],
        },
    }


def _expressions(pool: PoolPlan) -> list[Mapping[str, Any]]:
    return [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(pool.node_selector.items())]


def _quota(racks: Sequence[PoolPlan]) -> PriorityQuotaPlan:
    """Return a ResourceQuota that admits pods with the driver's priority class outside kube-system."""
    pods = _PODS_BESIDE + 2 * sum(pool.nodes.max for pool in racks)
    return PriorityQuotaPlan(
        name=f"{names.DRA_DRIVER_CHART}-system-critical", pods=pods, priority_classes=(NODE_CRITICAL,)
    )
