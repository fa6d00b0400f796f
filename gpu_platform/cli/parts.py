"""Refuses, before `up` changes anything, to install controllers that the cluster already has, and to label nodes
that it does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.catalog.models import CrdField
from gpu_platform.deploy.recorded.objects import kubernetes_objects
from gpu_platform.deploy.recorded.record import HELM_RELEASE_TYPE, RecordedProgram
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.parts import find_definitions, find_parts
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.part_crds import crd_problems, definition_names, upgraded_folders, writes
from gpu_platform.planning.clouds.parts import HelmRelease, part_problems
from gpu_platform.planning.operator import open_policies
from gpu_platform.planning.parts import cluster_charts, cluster_parts
from gpu_platform.stack.loaded import LoadedStack


def refuse_parts(
    loaded: LoadedStack, recorded: RecordedProgram, client: KubernetesClient, own: Collection[HelmRelease]
) -> None:
    """Raise BadInput, before anything is changed, for controllers that would run twice, for missing requirements,
    for CRDs without a field that the stack needs, and for named nodes that the cluster does not have.

    `own` are the Helm releases of the stack. Raises Refused and UnknownOutcome if the cluster cannot be read.
    """
    plan = loaded.plan
    if plan.kind == "team" or plan.cluster.access == "sandbox":
        return
    parts = cluster_parts(plan, load_catalog())
    objects = kubernetes_objects(recorded.resources)
    declared = {(one.key.kind, one.key.name) for one in objects}
    found = [one for one in find_parts(client, parts) if (one.kind, one.name) not in declared]
    problems = [
        *part_problems(parts, found, own),
        *_prometheus_problems(plan, client),
        *_missing_nodes(plan, client),
    ]
    places = {problem.path for problem in problems}
    manifests = [one.manifest for one in objects]

    def needs(field: CrdField) -> bool:
        return plan.queues is not None if field.by == "kueue" else writes(manifests, field)

    usable = [part for part in parts if part.place not in places]
    problems += crd_problems(usable, find_definitions(client, definition_names(usable)), needs)
    if problems:
        raise BadInput(str(loaded.path), problems)


def outdated_crds(
    loaded: LoadedStack, recorded: RecordedProgram, deployed: Mapping[HelmRelease, str]
) -> tuple[str, ...]:
    """Return a warning for each chart that `up` upgrades without its CRDs.

    `deployed` contains the chart versions of the last `up`.
    """
    if loaded.plan.kind == "team":
        return ()
    charts = cluster_charts(loaded.plan, load_catalog())
    installed = {str(one.inputs.get("name")) for one in recorded.resources if one.type == HELM_RELEASE_TYPE}
    return tuple(upgraded_folders(charts.values(), deployed, installed))


def open_access(loaded: LoadedStack, client: KubernetesClient) -> tuple[str, ...]:
    """Return the settings of an existing GPU Operator through which pods can use GPUs that they did not request.

    Raises Refused and UnknownOutcome if the cluster cannot be read.
    """
    plan = loaded.plan
    if plan.kind == "team" or plan.operator.install != "none":
        return ()
    return tuple(open_policies(client.objects("nvidia.com/v1", "ClusterPolicy")))


def _missing_nodes(plan: EnvironmentPlan, client: KubernetesClient) -> Iterator[Problem]:
    """Yield a problem for each pool that names nodes that the cluster does not have.

    A patch of a missing node creates a Node object, which would stay in the cluster even after `destroy`
    (pulumi/pulumi-kubernetes#2194; seen with v4.34.2, 2026-11-30).
    """
    labelled = [(index, pool) for index, pool in enumerate(plan.pools) if pool.nodes.ownership == "labelled"]
    if not labelled:
        return
    nodes = sorted(str(node["metadata"]["name"]) for node in client.objects("v1", "Node"))
    for index, pool in labelled:
        missing = [name for name in pool.nodes.names if name not in nodes]
        if missing:
            similar = did_you_mean(missing[0], nodes)
            yield Problem(
                f"pools[{index}].nodes.names",
                f"{', '.join(missing)}, which the cluster does not have",
                f"names of its {counted(len(nodes), 'node')}, as `kubectl get nodes` prints them",
                similar or "correct the names, or remove them and lower count.desired",
            )


def _prometheus_problems(plan: EnvironmentPlan, client: KubernetesClient) -> Iterator[Problem]:
    if plan.monitoring is None or not plan.monitoring.service_monitor:
        return
    if any(addon.name == "prometheus" and addon.install for addon in plan.addons.addons):
        return  # the chart of this addon installs the CRDs
    missing = [
        kind
        for kind in ("ServiceMonitor", "PrometheusRule")
        if client.find_resource("monitoring.coreos.com/v1", kind) is None
    ]
    if missing:
        yield Problem(
            "monitoring.prometheus_operator",
            f"enabled, but the cluster has no CRD for {' and '.join(missing)}",
            "the CRDs of the Prometheus operator (monitoring.coreos.com/v1), which the operator's owner installs",
            "install them, or write monitoring.prometheus_operator: false; nothing was changed",
        )
