"""Compares a plan with the requirements of the CNCF's Kubernetes AI Conformance.

Each answer contains the evidence and what is missing. The requirements are in catalog/facts/ai_conformance.yaml.
An answer covers only what this program configures, not what the cloud or the cluster's owner adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_platform.api.plans import UNREQUESTED, EnvironmentPlan, gate_name
from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog.models import AiConformance, ConformanceRequirement


class Status(StrEnum):
    """Status of a requirement, spelled as in the product files of the conformance project."""

    IMPLEMENTED = "Implemented"
    PARTIAL = "Partially Implemented"
    MISSING = "Not Implemented"
    NOT_APPLICABLE = "N/A"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveObject:
    """A cluster object that is evidence for a requirement.

    `condition` is the type of a condition that must be True, or None if the object only has to exist.
    """

    api_version: str
    kind: str
    namespace: str | None
    name: str
    condition: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one requirement.

    `by` lists the parts of the plan that meet the requirement. `missing` describes what is missing, and how to
    change the stack file. `objects` are the cluster objects that prove the answer. `observed` contains their state
    if the cluster was read.
    """

    requirement: ConformanceRequirement
    status: Status
    by: tuple[str, ...] = ()
    missing: str = ""
    objects: tuple[LiveObject, ...] = ()
    observed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Finding:
    """An answer that is not yet linked to its requirement."""

    status: Status
    by: tuple[str, ...] = ()
    missing: str = ""
    objects: tuple[LiveObject, ...] = ()


def answers(plan: EnvironmentPlan, conformance: AiConformance) -> tuple[Answer, ...]:
    """Return the answer to each requirement in the order of the conformance checklist."""
    found: list[Answer] = []
    for requirement in conformance.requirements:
        finding = _RULES.get(requirement.id, _unknown)(plan)
        found.append(
            Answer(
                requirement=requirement,
                status=finding.status,
                by=finding.by,
                missing=finding.missing,
                objects=finding.objects,
            )
        )
    return tuple(found)


def _unknown(_: EnvironmentPlan) -> _Finding:
    return _Finding(Status.MISSING, missing="this program does not know the requirement")


def _driver(plan: EnvironmentPlan) -> _Finding:
    by = (
        f"GPU Operator {plan.operator.release}",
        "the node agent compares the driver and runtime of every node with the plan",
    )
    if not plan.validation.gate:
        return _Finding(
            Status.PARTIAL, by, "write validation: {gate: true}, or run gpu-platform validate after each up"
        )
    objects = (LiveObject(api_version="v1", kind="Namespace", namespace=None, name=plan.validation.namespace),)
    return _Finding(Status.IMPLEMENTED, by, objects=objects)


def _sharing(plan: EnvironmentPlan) -> _Finding:
    by = tuple(f"pool {pool.name}: {pool.sharing.mode}" for pool in plan.pools if pool.sharing.mode != "none")
    by += tuple(f"pool {pool.name}: DRA device claims" for pool in plan.pools if pool.devices)
    if by:
        return _Finding(Status.IMPLEMENTED, by)
    return _Finding(Status.MISSING, missing="write sharing: {mode: mig, ...} or time-slicing for a pool")


def _virtual(_: EnvironmentPlan) -> _Finding:
    return _Finding(Status.NOT_APPLICABLE, ("nodes have whole physical GPUs",))


def _addon(plan: EnvironmentPlan, *wanted: str) -> tuple[str, ...]:
    return tuple(
        f"{addon.name} {addon.version}" if addon.install else f"{addon.name} of the cluster's owner"
        for addon in plan.addons.addons
        if addon.name in wanted
    )


def _deployment(namespace: str, name: str) -> LiveObject:
    return LiveObject(
        api_version="apps/v1", kind="Deployment", namespace=namespace, name=name, condition="Available"
    )


def _gateway(plan: EnvironmentPlan) -> _Finding:
    by = _addon(plan, "gateway")
    if not by:
        return _Finding(Status.MISSING, missing="write addons: {gateway: install}, or present")
    name = plan.addons.gateway_class
    objects = (
        ()
        if name is None
        else (
            LiveObject(
                api_version="gateway.networking.k8s.io/v1",
                kind="GatewayClass",
                namespace=None,
                name=name,
                condition="Accepted",
            ),
        )
    )
    return _Finding(Status.IMPLEMENTED, by, objects=objects)


def _inference_extension(_: EnvironmentPlan) -> _Finding:
    return _Finding(
        Status.MISSING,
        missing="this program does not install the Gateway API Inference Extension; install it separately",
    )


def _fabric(plan: EnvironmentPlan) -> _Finding:
    claimed = tuple(
        f"pool {pool.name}: {nics.per_node} of {nics.device_class} a node"
        for pool in plan.pools
        if (nics := pool.cloud_nodes.nic_devices) is not None
    )
    if claimed:
        return _Finding(Status.IMPLEMENTED, claimed)
    by = tuple(
        f"pool {pool.name}: a pod that uses a whole node requests "
        + ", ".join(f"{count} {what}" for what, count in pool.cloud_nodes.network_requests.items())
        for pool in plan.pools
        if pool.cloud_nodes.network_requests
    )
    by += tuple(
        f"pool {pool.name}: a pod that uses a whole node joins {len(fabric.networks)} networks of {fabric.name}"
        for pool in plan.pools
        if (fabric := pool.cloud_nodes.node_fabric) is not None and not pool.cloud_nodes.network_requests
    )
    if by:
        return _Finding(
            Status.PARTIAL,
            by,
            "no claim requests the interfaces; write network: {via: dranet} where possible",
        )
    return _Finding(Status.NOT_APPLICABLE, ("no pool has machines with a separate network between GPUs",))


def _disaggregated(plan: EnvironmentPlan) -> _Finding:
    by = _addon(plan, "leaderworkerset")
    if by:
        return _Finding(Status.PARTIAL, by, "no solution such as llm-d or Dynamo is installed")
    return _Finding(
        Status.MISSING, missing="write addons: {leaderworkerset: install} and install llm-d or Dynamo on it"
    )


def _gang(plan: EnvironmentPlan) -> _Finding:
    if plan.queues is None:
        return _Finding(Status.MISSING, missing="write queueing: {}")
    kueue = plan.queues.kueue
    by = f"Kueue {kueue.version}" if kueue.install != "present" else "Kueue of the cluster's owner"
    objects = () if kueue.install == "config" else (_deployment(kueue.namespace, "kueue-controller-manager"),)
    return _Finding(Status.IMPLEMENTED, (by, f"{len(plan.queues.teams)} queues of teams"), objects=objects)


def _node_scaling(plan: EnvironmentPlan) -> _Finding:
    cloud = plan.cluster.cloud
    if cloud is None:
        return _Finding(
            Status.NOT_APPLICABLE,
            ("the program creates no nodes in this cluster; the cluster's owner scales them",),
        )
    ranges = tuple(
        f"pool {pool.name}: {pool.nodes.min} to {pool.nodes.max} nodes, depending on pending pods"
        for pool in plan.pools
        if pool.autoscaled
    )
    if ranges:
        return _Finding(Status.IMPLEMENTED, ranges)
    return _Finding(Status.MISSING, missing="no pool has an autoscaled number of nodes: write count: {min, max}")


def _scrapes(plan: EnvironmentPlan) -> bool:
    """Return whether Prometheus collects GPU metrics, so that an autoscaler can query them."""
    monitoring = plan.monitoring
    scraped = monitoring is not None and (monitoring.service_monitor or monitoring.pod_monitoring)
    return scraped or (monitoring is not None and plan.addons.has("prometheus"))


def _pod_scaling(plan: EnvironmentPlan) -> _Finding:
    by = _addon(plan, "keda", "prometheus")
    if plan.addons.has("keda") and _scrapes(plan):
        return _Finding(Status.IMPLEMENTED, by, objects=(_deployment("keda", "keda-operator"),))
    return _Finding(
        Status.PARTIAL if by else Status.MISSING, by, "write addons: {keda: install, prometheus: install}"
    )


def _gpu_metrics(plan: EnvironmentPlan) -> _Finding:
    if plan.monitoring is None:
        return _Finding(Status.MISSING, missing="write monitoring: {enabled: true}")
    if not plan.monitoring.exporter:
        return _agent_metrics(plan)
    objects = (
        LiveObject(
            api_version="apps/v1",
            kind="DaemonSet",
            namespace=names.OPERATOR_NAMESPACE,
            name=plan.monitoring.exporter,
        ),
    )
    return _Finding(
        Status.IMPLEMENTED,
        (f"{plan.monitoring.exporter}: utilisation, memory, temperature, power, NVLink",),
        objects=objects,
    )


def _agent_metrics(plan: EnvironmentPlan) -> _Finding:
    """Return the finding for a plan without an exporter, in which only node agents can export GPU metrics."""
    if plan.validation.metrics is None:
        return _Finding(
            Status.PARTIAL,
            ("the exporter of the cluster's owner or the cloud",),
            "the plan does not know its metrics: write validation: {metrics: true} for metrics of the node agents",
        )
    agents = tuple(
        LiveObject(
            api_version="apps/v1",
            kind="DaemonSet",
            namespace=plan.validation.namespace,
            name=gate_name(pool.name),
        )
        for pool in plan.pools
        if pool.expectations.by_agent
    )
    by = "the node agents: utilisation, memory, temperature, power, NVLink"
    return _Finding(Status.IMPLEMENTED, (by,), objects=agents)


def _service_metrics(plan: EnvironmentPlan) -> _Finding:
    by = _addon(plan, "prometheus")
    if plan.monitoring is not None and plan.monitoring.pod_monitoring:
        by += ("managed Prometheus: PodMonitoring objects of the teams",)
    elif plan.monitoring is not None and plan.monitoring.service_monitor and not by:
        by += ("the Prometheus operator of the cluster's owner",)
    if by:
        opened = "a team allows access to its pods with `ingress`, and a platform engineer adds a PodMonitor"
        return _Finding(Status.IMPLEMENTED, (*by, opened))
    return _Finding(Status.MISSING, missing="write addons: {prometheus: install}")


def _access(plan: EnvironmentPlan) -> _Finding:
    owners = sorted({pool.software.toolkit for pool in plan.pools if pool.has_gpus})
    unknown = [one for one in plan.decisions if one.what == UNREQUESTED]
    known = (
        f"; with the container toolkit of {' and '.join(owners) or 'no pool'}, no environment variable gives an "
        "unprivileged pod a GPU"
    )
    by = (
        "the device plugin or device claims allocate GPUs" + ("" if unknown else known),
        "the policy pack refuses environment variables, annotations and host paths that refer to devices",
    )
    if plan.teams and all(team.policies for team in plan.teams):
        # A policy without a binding refuses nothing.
        objects = tuple(
            LiveObject(
                api_version="admissionregistration.k8s.io/v1",
                kind=kind,
                namespace=None,
                name=f"pods-of-{one.namespace}",
            )
            for one in plan.teams
            for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        )
        if unknown:
            return _Finding(
                Status.PARTIAL, by, "; ".join(f"{one.subject}: {one.why}" for one in unknown), objects=objects
            )
        where = f"in the namespaces of {counted(len(plan.teams), 'team')}"
        refused = f"{where}, the API server refuses pods that refer to devices"
        return _Finding(Status.IMPLEMENTED, (*by, refused), objects=objects)
    return _Finding(
        Status.PARTIAL,
        by,
        f"{counted(len(plan.teams), 'team')} can still create pods that refer to devices: no admission policy "
        "refuses them",
    )


def _sandboxes(_: EnvironmentPlan) -> _Finding:
    return _Finding(
        Status.MISSING,
        missing="this program does not install a runtime class with a separate kernel (gVisor, Kata Containers)",
    )


def _operators(plan: EnvironmentPlan) -> _Finding:
    by = _addon(plan, "trainer", "kuberay")
    if by:
        live = {
            "trainer": _deployment("kubeflow-system", "kubeflow-trainer-controller-manager"),
            "kuberay": _deployment("kuberay-system", "kuberay-operator"),
        }
        objects = tuple(live[one.name] for one in plan.addons.addons if one.name in live)
        return _Finding(Status.IMPLEMENTED, by, objects=objects)
    return _Finding(Status.MISSING, missing="write addons: {trainer: install} or {kuberay: install}")


_RULES: Final[Mapping[str, Callable[[EnvironmentPlan], _Finding]]] = {
    "driver_runtime_management": _driver,
    "gpu_sharing": _sharing,
    "virtualized_accelerator": _virtual,
    "ai_inference": _gateway,
    "advanced_inference_ingress": _inference_extension,
    "high_performance_networking": _fabric,
    "disaggregated_inference": _disaggregated,
    "gang_scheduling": _gang,
    "cluster_autoscaling": _node_scaling,
    "pod_autoscaling": _pod_scaling,
    "accelerator_metrics": _gpu_metrics,
    "ai_service_metrics": _service_metrics,
    "secure_accelerator_access": _access,
    "workload_sandboxing": _sandboxes,
    "robust_controller": _operators,
}


def unmet(found: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers to MUST requirements that are not met."""
    met = (Status.IMPLEMENTED, Status.NOT_APPLICABLE)
    return tuple(one for one in found if one.requirement.level == "MUST" and one.status not in met)
