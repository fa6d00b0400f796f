"""Parameters of the admission rules for a team's queue, and the defaults of queued objects.

The rules are in gpu_platform/catalog/rules/queues.yaml. Kueue takes the priority of a workload from its label or
from the pod templates. Kueue ignores a priority class that admission adds only to pods, because pods are created
later.

Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/constants; Kubernetes API reference,
MutatingAdmissionPolicy; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.admission_rules import AdmissionPolicy, Value, admission_rules, literal
from gpu_platform.catalog.pod_limits import (
    LONGEST_GRACE_SECONDS,
    PARENT_ANNOTATION,
    PARENTS,
    WORKLOAD_OF_OTHERS,
)
from gpu_platform.catalog.template_kinds import (
    QUEUED_KINDS,
    STARTED_KINDS,
    TEMPLATE_KINDS,
    TRAIN_JOBS,
    patches_of,
)
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.cel import IS_GPU_RESOURCE, asks_for_gpus, container_asks_for_gpus

POLICY: Final = "queue-of"
QUEUED_RESOURCES: Final = (
    ("", "pods"),
    *((kind.group, kind.resource) for kind in QUEUED_KINDS),
    TRAIN_JOBS,
)
"""API groups and resources of the objects that Kueue queues."""
_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
_QUEUED_KINDS: Final = tuple(kind.kind for kind in QUEUED_KINDS)


def queue_policy(queue: TeamQueuePlan) -> AdmissionPolicy:
    """Return the admission policy for the namespace of a team with a queue."""
    return admission_rules().policy(POLICY, _values(queue))


def names_no_class(queue: TeamQueuePlan) -> str:
    """Return a CEL condition that is true if neither an object nor its pods name a priority class.

    The condition also requires that the object has no owner or that a CronJob owns it.
    """
    return admission_rules().expression(POLICY, "names_no_class", _values(queue))


def _values(queue: TeamQueuePlan) -> Mapping[str, Value]:
    cpu, memory = queue.default_limit["cpu"], queue.default_limit["memory"]
    return {
        "member_accounts": queue.accounts,
        "gpu_resources": f"^{names.GPU_RESOURCES}",
        "pool_label": names.POOL_LABEL,
        "queue_label": names.QUEUE_LABEL,
        "local_queue": queue.local_queue,
        "queue_required": queue.required,
        "priority_label": _PRIORITY_LABEL,
        "priorities": queue.priorities,
        "priorities_text": ", ".join(queue.priorities) or "none",
        "queued_kinds": _QUEUED_KINDS,
        "queued_owners": ("TrainJob", *(kind.kind for kind in STARTED_KINDS)),
        "workload_of_others": WORKLOAD_OF_OTHERS,
        "parent_annotation": PARENT_ANNOTATION,
        "parents": PARENTS,
        "kueue_prefix": "kueue.x-k8s.io/",
        "elastic_job": "kueue.x-k8s.io/elastic-job",
        "elastic_kinds": ("Job", "RayCluster", "RayService"),
        "gpu_nodes_are_tainted": queue.tainted,
        "gpu_taint_key": names.GPU_TAINT_KEY,
        "default_limits": {"cpu": cpu, "memory": memory},
        "default_limits_text": f"{cpu} CPU and {memory}",
        "longest_stay_seconds": LONGEST_GRACE_SECONDS,
        "templates_are_changed": queue.mutates,
        "pool_sizes": list(_pool_sizes(queue)),
        "queued_classes": list(_queued_classes(queue)),
        "requested_pools": list(_requested_pools(queue)),
    }


def _pool_sizes(queue: TeamQueuePlan) -> Iterator[Mapping[str, Value]]:
    """For each resource, yield a record if the pools offer different numbers of its units per node or per
    container.

    The record contains the number for each pool.
    """
    for resource in (one for one in queue.resources if "/" in one):
        flavors = [(one.pool, one) for one in queue.flavors if one.pool and one.serves(resource)]
        on_node = {pool: one.on_node[resource] for pool, one in flavors}
        yield from _sizes(resource, "pods", on_node)
        in_container = {pool: one.in_container.get(resource, on_node[pool]) for pool, one in flavors}
        if in_container != on_node:
            yield from _sizes(resource, "containers", in_container)


def _sizes(resource: str, whose: str, units: Mapping[str, int]) -> Iterator[Mapping[str, Value]]:
    if len(set(units.values())) < 2:
        return
    least, largest = min(units.values()), max(units, key=lambda pool: units[pool])
    yield {
        "resource": resource,
        "of_containers": whose == "containers",
        "units": dict(sorted(units.items())),
        "least": least,
        "whose": whose,
        "small": [pool for pool, most in units.items() if most == least],
        "nodeSelector": f"{{{names.POOL_LABEL}: {largest}}}",
    }


def _queued_classes(queue: TeamQueuePlan) -> Iterator[Mapping[str, Value]]:
    """Yield each compute class that does not contain all pools of the queue, with the pools that it lacks."""
    pools = {
        flavor.pool
        for flavor in queue.flavors
        if flavor.pool and any("/" in resource and flavor.serves(resource) for resource in queue.resources)
    }
    for one in queue.classes:
        if others := sorted(pools - {*one.pools}):
            yield {
                "label": one.label,
                "name": one.name,
                "pools": one.pools,
                "others": others,
                "affinity": f"{{key: {names.POOL_LABEL}, operator: In, values: [{', '.join(one.pools)}]}}",
            }


def _requested_pools(queue: TeamQueuePlan) -> Iterator[Mapping[str, Value]]:
    """Yield each pool whose nodes are added only for ProvisioningRequests, with the other pools that offer the
    same resources.
    """
    for flavor in (one for one in queue.flavors if one.pool and one.check is not None):
        resources = tuple(flavor.on_node)
        others = [
            one.pool for one in queue.flavors if one.pool and one.check is None and any(map(one.serves, resources))
        ]
        advice = f", or name another pool: nodeSelector: {{{names.POOL_LABEL}: {others[0]}}}" if others else ""
        yield {
            "pool": str(flavor.pool),
            "resources": resources,
            "elsewhere": others,
            "advice": advice,
        }


def priority_patch(priority: str) -> str:
    """Return a JSON patch, as a CEL expression, that sets the WorkloadPriorityClass of an object."""
    key = _PRIORITY_LABEL.replace("/", "~1")
    return (
        f"has(object.metadata.labels) ? [JSONPatch{{op: 'add', path: '/metadata/labels/{key}', "
        f"value: '{priority}'}}] : "
        f"[JSONPatch{{op: 'add', path: '/metadata/labels', value: {{'{_PRIORITY_LABEL}': '{priority}'}}}}]"
    )


_TOLERATION: Final = f"{{'key': '{names.GPU_TAINT_KEY}', 'operator': 'Exists', 'effect': 'NoSchedule'}}"


def _lacks_toleration(spec: str) -> str:
    """Return a CEL condition that is true if a pod spec requests GPUs and does not tolerate the taint of GPU
    nodes.
    """
    return (
        f"({asks_for_gpus(spec)}) && !{spec}.?tolerations.orValue([]).exists(each, "
        f"each.?key.orValue('') in ['', '{names.GPU_TAINT_KEY}'] && "
        "each.?effect.orValue('') in ['', 'NoSchedule'])"
    )


def _tolerate(template: str, pointer: str) -> str:
    """Return a CEL expression with at most one JSON patch, which makes a template tolerate the taint of GPU nodes.

    `pointer` is the path of the template as an unclosed CEL string.
    """
    spec = f"{template}.spec"
    return (
        f"!({_lacks_toleration(spec)}) ? [] : has({spec}.tolerations) ? "
        f"[JSONPatch{{op: 'add', path: {pointer}/spec/tolerations/-', value: {_TOLERATION}}}] : "
        f"[JSONPatch{{op: 'add', path: {pointer}/spec/tolerations', value: [{_TOLERATION}]}}]"
    )


# The pods of a TrainJob come from its runtime, to which these patches are applied.
# In the runtime, the Job that trains the model is named `node`.
_PATCHES: Final = "object.spec.?runtimePatches.orValue([])"
_NODE_JOB: Final = f"dyn({{'spec': {{'template': {{'spec': {{'tolerations': [{_TOLERATION}]}}}}}}}})"
_RUNTIME_PATCH: Final = (
    "{'manager': dyn('gpu-platform.dev/defaults'), 'trainingRuntimeSpec': dyn({'template': {'spec': "
    f"{{'replicatedJobs': [{{'name': dyn('node'), 'template': {_NODE_JOB}}}]}}}}}})}}"
)
_TRAIN_JOB_PATCH: Final = (
    "object.kind == 'TrainJob' && ['limits', 'requests'].exists(each, "
    "object.spec.?trainer.?resourcesPerNode[?each].orValue({}).exists(name, "
    f"{IS_GPU_RESOURCE})) && !{_PATCHES}.exists(each, "
    "each.?trainingRuntimeSpec.?template.?spec.?replicatedJobs.orValue([]).exists(one, "
    "one.?template.?spec.?template.?spec.?tolerations.hasValue())) ? (has(object.spec.runtimePatches) ? "
    f"[JSONPatch{{op: 'add', path: '/spec/runtimePatches/-', value: {_RUNTIME_PATCH}}}] : "
    f"[JSONPatch{{op: 'add', path: '/spec/runtimePatches', value: [{_RUNTIME_PATCH}]}}]) : []"
)
_RUNTIMES: Final = tuple(kind for kind in TEMPLATE_KINDS if kind.kind == "TrainingRuntime")
_CPU, _MEMORY = literal("cpu"), literal("memory")
_SIZES: Final = f"[{_CPU}, {_MEMORY}]"
_HAS_GPUS: Final = container_asks_for_gpus("each")


def _has_limit_alone(container: str, size: str) -> str:
    """Return a CEL condition that is true if a container has a CPU or memory limit but no request."""
    return (
        f"{container}.?resources.?limits[?{size}].hasValue() && "
        f"!{container}.?resources.?requests[?{size}].hasValue()"
    )


def _has_request_alone(container: str, size: str) -> str:
    """Return a CEL condition that is true if a container has a CPU or memory request but no limit."""
    return (
        f"{container}.?resources.?requests[?{size}].hasValue() && "
        f"!{container}.?resources.?limits[?{size}].hasValue()"
    )


def _request_limits(template: str, pointer: str) -> str:
    """Return the JSON patches for a template. They set each missing request of a container to the container's
    limit.
    """
    return " + ".join(_request_limits_of(kind, template, pointer) for kind in ("containers", "initContainers"))


def _request_limits_of(kind: str, template: str, pointer: str) -> str:
    requests = f"{pointer}/spec/{kind}/' + string(j) + '/resources/requests"
    lacks = f"{_SIZES}.filter(size, {_has_limit_alone('each', 'size')})"
    return (
        f"{template}.spec.?{kind}.orValue([]).transformList(j, each, {lacks}.size() > 0, "
        f"(has(each.resources.requests) ? [] : [JSONPatch{{op: 'add', path: {requests}', value: {{}}}}]) + "
        f"{lacks}.map(size, JSONPatch{{op: 'add', path: {requests}/' + size, "
        "value: string(each.resources.limits[size])})).flatten()"
    )


def _limit_requests(template: str, pointer: str, cpu_limit: str) -> str:
    """Return the JSON patches for a template. They set missing limits on containers that request GPUs and have a
    request for CPU or memory.
    """
    limits = f"{pointer}/spec/containers/' + string(j) + '/resources/limits/"
    fits = f"quantity(string(each.resources.requests['cpu'])).compareTo(quantity('{cpu_limit}')) <= 0"
    return (
        f"{template}.spec.?containers.orValue([]).transformList(j, each, {_HAS_GPUS}, "
        f"({_has_request_alone('each', _CPU)} && {fits} ? "
        f"[JSONPatch{{op: 'add', path: {limits}cpu', value: '{cpu_limit}'}}] : []) + "
        f"({_has_request_alone('each', _MEMORY)} ? [JSONPatch{{op: 'add', path: {limits}memory', "
        "value: string(each.resources.requests['memory'])}] : [])).flatten()"
    )


TEMPLATE_RESOURCES: Final = (
    *((kind.group, kind.resource) for kind in (*QUEUED_KINDS, *_RUNTIMES)),
    TRAIN_JOBS,
)
"""API groups and resources of the objects that `template_patches` changes."""


def template_patches(cpu_limit: str) -> tuple[str, ...]:
    """Return JSON patches, as CEL expressions, for pod templates. They add the defaults that pods get when they
    are created.

    Templates that request GPUs tolerate the taint of GPU nodes. If a container has a CPU or memory limit but no
    request, its request is set to the limit. If a container with GPUs has a request but no limit, its CPU limit
    becomes `cpu_limit`, and its memory limit becomes its memory request. Kueue uses the templates, so defaults
    that are added only to pods come too late. For missing values, Kueue would use the namespace's LimitRange
    (kubernetes-sigs/kueue#15020; a request above its limit never starts, pkg/workload/resources.go; v0.19.2, read
    2026-11-29).
    """

    def limit_requests(template: str, pointer: str) -> str:
        return _limit_requests(template, pointer, cpu_limit)

    kinds = (*QUEUED_KINDS, *_RUNTIMES)
    return (
        *patches_of(kinds, _tolerate),
        *patches_of(kinds, _request_limits),
        *patches_of(kinds, limit_requests),
        _TRAIN_JOB_PATCH,
    )
