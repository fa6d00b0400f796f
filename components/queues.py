"""`Queues` and `TeamQueue`: Kueue with its flavors and topologies, and the queue of one team."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components._admission_policy import bound_policy, mutating_policy, policy_spec
from components._in_namespace import role_ref
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from components._run_settings import run_setting
from gpu_platform.base import names
from gpu_platform.planning.queues.queue_admission import (
    QUEUED_RESOURCES,
    TEMPLATE_RESOURCES,
    names_no_class,
    priority_patch,
    queue_policy,
    template_patches,
)
from gpu_platform.planning.queues.section import (
    CHART,
    CONFIG_KEY,
    CONFIG_MAP,
    HELM_SECONDS,
    CohortPlan,
    FlavorPlan,
    KueuePlan,
    ProvisioningPlan,
    QueuesPlan,
    TeamQueuePlan,
)
from gpu_platform.planning.teams.section import PriorityClassPlan

_API = "kueue.x-k8s.io/v1beta2"
_CHECK_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
_PROVISIONING_API = "kueue.x-k8s.io"
# A queue becomes active when Kueue has found all objects that the queue refers to.
# Workloads that are created before their queue is active have no queue.
_UNTIL_ACTIVE = {"pulumi.com/waitFor": "condition=Active"}
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}
_UNTIL_RUNNING = {"pulumi.com/waitFor": "jsonpath={.data.running}=true"}
_READ = ["get", "list", "watch"]
# Try the team's quota in another pool before borrowing quota or preempting workloads of other teams.
_FUNGIBILITY = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}


class Queues(pulumi.ComponentResource):
    """Kueue, unless the cluster already has it, and the objects that all queues share.

    These objects are flavors, topologies, cohorts and priority classes.

    Outputs: `release` (Kueue's version), `flavors` (their names).
    """

    release: pulumi.Output[str]
    flavors: pulumi.Output[list[str]]

    def __init__(self, name: str, args: QueuesPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Queues", name, None, opts)
        after = self._create_kueue(args.kueue, child_options(self, opts))
        child = after or child_options(self, opts)
        topologies = [
            _object("Topology", one.name, {"levels": [{"nodeLabel": label} for label in one.levels]}, child)
            for one in args.topologies
        ]
        of_flavors = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=list(topologies)))
        flavors = [_object("ResourceFlavor", flavor.name, _flavor(flavor), of_flavors) for flavor in args.flavors]
        of_cohorts = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=list(flavors)))
        for cohort in args.cohorts:
            _object("Cohort", cohort.name, _cohort(cohort), of_cohorts)
        for priority in args.priority_classes:
            _PriorityClass(f"queue-{priority.name}", priority, child)
        for check in args.provisioning:
            self._create_check(check, child)
        self.release = pulumi.Output.from_input(args.kueue.version)
        self.flavors = pulumi.Output.from_input([flavor.name for flavor in args.flavors])
        self.register_outputs({"release": self.release, "flavors": self.flavors})

    def _create_kueue(self, args: KueuePlan, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions | None:
        """Install Kueue, and return the options for objects that depend on it."""
        if args.install == "present":
            return None
        namespace = KubernetesObject(args.namespace, "v1/Namespace", metadata={"name": args.namespace}, opts=opts)
        in_namespace = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        if args.install == "helm":
            installed: pulumi.Resource = k8s.helm.v3.Release(
                CHART,
                k8s.helm.v3.ReleaseArgs(
                    name=CHART,
                    chart=f"{args.repository}/{CHART}",
                    version=args.version,
                    namespace=args.namespace,
                    values=dict(args.values),
                    atomic=True,
                    timeout=HELM_SECONDS,
                ),
                opts=in_namespace,
            )
        else:
            installed = KubernetesObject(
                CONFIG_MAP,
                "v1/ConfigMap",
                metadata={
                    "name": CONFIG_MAP,
                    "namespace": args.namespace,
                    "labels": {names.VERSION_LABEL: args.version},
                    "annotations": _UNTIL_RUNNING,
                },
                data={CONFIG_KEY: json.dumps(args.config, sort_keys=True)},
                opts=in_namespace,
            )
        return pulumi.ResourceOptions(parent=self, depends_on=[installed])

    def _create_check(self, check: ProvisioningPlan, opts: pulumi.ResourceOptions) -> None:
        config = _object(
            "ProvisioningRequestConfig",
            check.name,
            {
                "provisioningClassName": check.request.provisioning_class,
                "managedResources": list(check.managed_resources),
                "retryStrategy": {
                    "backoffLimitCount": check.retry.limit,
                    "backoffBaseSeconds": check.retry.base_seconds,
                    "backoffMaxSeconds": check.retry.max_seconds,
                },
                "podSetUpdates": {
                    "nodeSelector": [
                        {"key": label, "valueFromProvisioningClassDetail": detail}
                        for label, detail in check.request.own_nodes.items()
                    ]
                },
            },
            opts,
        )
        _object(
            "AdmissionCheck",
            check.name,
            {
                "controllerName": _CHECK_CONTROLLER,
                "parameters": {
                    "apiGroup": _PROVISIONING_API,
                    "kind": "ProvisioningRequestConfig",
                    "name": check.name,
                },
            },
            pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[config])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueueArgs:
    """Planned queue of a team, and the members who may read it."""

    plan: TeamQueuePlan
    subjects: list[Manifest]


class TeamQueue(pulumi.ComponentResource):
    """The queue of a team, with its ClusterQueue, LocalQueue, admission rules, and access for members.

    Workloads of the team must wait for the resources in `guards`.

    Outputs: `local_queue`.
    """

    guards: list[pulumi.Resource]
    local_queue: pulumi.Output[str]

    def __init__(self, name: str, args: TeamQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamQueue", name, None, opts)
        plan = args.plan
        child = child_options(self, opts)
        held = held_queues().get(plan.namespace, {})
        awaited = _NOT_AWAITED if held else _UNTIL_ACTIVE
        spec = {**_cluster_queue(plan), **_stop_policy(held, "ClusterQueue")}
        queue = _object("ClusterQueue", plan.namespace, spec, child, awaited)
        local = KubernetesObject(
            f"{plan.namespace}/queue",
            f"{_API}/LocalQueue",
            metadata={"name": plan.local_queue, "namespace": plan.namespace, "annotations": awaited},
            spec={"clusterQueue": plan.namespace, **_stop_policy(held, "LocalQueue")},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[queue]),
        )
        self.guards = [local, *self._create_rules(plan, child), *self._create_defaults(plan, child)]
        self._create_access(plan, args.subjects, child)
        self.local_queue = pulumi.Output.from_input(plan.local_queue)
        self.register_outputs({"local_queue": self.local_queue})

    def _create_rules(self, args: TeamQueuePlan, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        policy = queue_policy(args)
        metadata = {"name": f"{policy.name}-{args.namespace}"}
        return bound_policy(metadata, policy_spec(policy, args.namespace), opts)

    def _create_defaults(self, args: TeamQueuePlan, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Add the team's priority class to queued objects, and add the team's defaults for pods to the pod
        templates of these objects.
        """
        if args.default_priority is None:
            return []
        classes = mutating_policy(
            {"name": f"queue-defaults-of-{args.namespace}"},
            args.namespace,
            # Pods are left out, because they have a PriorityClass.
            [(group, "*", resource) for group, resource in QUEUED_RESOURCES if group],
            [priority_patch(args.default_priority)],
            opts,
            conditions={"names-no-class": names_no_class(args)},
        )
        # Use one patch, because the API server copies the object for each patch. Copying a megabyte takes seconds.
        all_patches = " + ".join(f"({patch})" for patch in template_patches(args.cpu_limit))
        templates = mutating_policy(
            {"name": f"queue-templates-of-{args.namespace}"},
            args.namespace,
            [(group, "*", resource) for group, resource in TEMPLATE_RESOURCES],
            [all_patches],
            opts,
        )
        return [*classes, *templates]

    def _create_access(self, args: TeamQueuePlan, subjects: list[Manifest], opts: pulumi.ResourceOptions) -> None:
        """Allow members to read their queue and the positions of their workloads in it."""
        role = KubernetesObject(
            f"{args.namespace}/queue-viewer",
            "rbac.authorization.k8s.io/v1/Role",
            metadata={"name": "queue-viewer", "namespace": args.namespace},
            rules=[{"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": _READ}],
            opts=opts,
        )
        KubernetesObject(
            f"{args.namespace}/queue-viewers",
            "rbac.authorization.k8s.io/v1/RoleBinding",
            metadata={"name": "queue-viewers", "namespace": args.namespace},
            roleRef=role_ref("Role", "queue-viewer"),
            subjects=subjects,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )


def held_queues() -> Mapping[str, Mapping[str, str]]:
    """Return the stopPolicy of each queue that an administrator has put on hold, by team and kind of queue.

    `gpu-platform` passes the held queues. If it did not start the program, the result is empty. A held queue does
    not become active before the hold ends, so Pulumi must not wait for it.
    """
    document = run_setting(names.HELD_VARIABLE)
    return cast("Mapping[str, Mapping[str, str]]", document) if isinstance(document, dict) else {}


def _stop_policy(held: Mapping[str, str], kind: str) -> Mapping[str, str]:
    """Return the stopPolicy field of a held queue, or an empty mapping if the queue is not held."""
    return {"stopPolicy": held[kind]} if kind in held else {}


class _PriorityClass(pulumi.CustomResource):
    """A WorkloadPriorityClass, which orders the workloads in a queue. It has a value and no spec."""

    def __init__(self, name: str, args: PriorityClassPlan, opts: pulumi.ResourceOptions) -> None:
        super().__init__(
            f"kubernetes:{_API}:WorkloadPriorityClass",
            name,
            {
                "apiVersion": _API,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": args.name},
                "value": args.value,
                "description": args.description,
            },
            opts,
        )


def _object(
    kind: str,
    name: str,
    spec: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    annotations: Mapping[str, str] | None = None,
) -> KubernetesObject:
    return KubernetesObject(
        f"{kind.casefold()}-{name}",
        f"{_API}/{kind}",
        metadata={"name": name, "annotations": annotations},
        spec=dict(spec),
        opts=opts,
    )


def _flavor(flavor: FlavorPlan) -> Mapping[str, Any]:
    spec: dict[str, Any] = {
        "nodeLabels": dict(flavor.node_labels),
        "nodeTaints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in flavor.taints],
        "tolerations": [
            {"key": one.key, "operator": "Exists", "effect": one.effect} for one in flavor.tolerations
        ],
    }
    if flavor.topology is not None:
        spec["topologyName"] = flavor.topology
    return {key: value for key, value in spec.items() if value}


def _cohort(cohort: CohortPlan) -> Manifest:
    covered = [list(amounts) for amounts in cohort.flavors.values()]
    flavors = [
        {"name": flavor, "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]}
        for flavor, amounts in cohort.flavors.items()
    ]
    # Write an empty list as well. When a spec loses its only field, server-side apply sets the spec to null.
    # The CRD refuses a spec that is null.
    return {"resourceGroups": [{"coveredResources": covered[0], "flavors": flavors}] if flavors else []}


def _cluster_queue(args: TeamQueuePlan) -> Mapping[str, Any]:
    spec: dict[str, Any] = {
        "cohortName": args.cohort,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": args.namespace}},
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": _FUNGIBILITY,
        "preemption": {"withinClusterQueue": args.within_queue, "reclaimWithinCohort": args.reclaim},
        "fairSharing": {"weight": args.weight},
        "resourceGroups": [
            {
                "coveredResources": list(args.resources),
                "flavors": [
                    {
                        "name": flavor.flavor,
                        "resources": [
                            {
                                "name": limit.resource,
                                "nominalQuota": limit.nominal,
                                "borrowingLimit": limit.borrow,
                                "lendingLimit": limit.lend,
                            }
                            for limit in flavor.limits
                        ],
                    }
                    for flavor in args.flavors
                ],
            }
        ],
    }
    checks = [
        {"name": flavor.check, "onFlavors": [flavor.flavor]} for flavor in args.flavors if flavor.check is not None
    ]
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
    return spec
