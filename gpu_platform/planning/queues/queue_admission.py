"""Admission rules that keep workloads of a team in its queue, and the priority class that they get by default.

Kueue takes the priority of a workload from the label, else from its pods as they are declared: the team's class,
which pods get when they are created, comes too late for it.

Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/constants, pkg/controller/jobs/pod (scheduling gates; pods
whose owner is queued are not queued themselves); Kubernetes API reference, ValidatingAdmissionPolicy; read
2026-11-23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.queues.tracking import BY_KUEUE, PRIORITY_LABEL, QUEUED_OWNERS, tracking_rules
from gpu_platform.planning.teams.admission_rule import PodRule, units_of
from gpu_platform.planning.teams.cel import IS_GPU_RESOURCE, text, texts
from gpu_platform.planning.teams.pod_admission import asks_for_gpus, container_asks_for_gpus
from gpu_platform.planning.teams.pod_templates import (
    QUEUED_KINDS,
    TEMPLATE_KINDS,
    TemplateKind,
    made_metadata,
    patches_of,
    templates_of,
)
from gpu_platform.planning.teams.requesters import by_a_controller

QUEUE_LABEL: Final = names.QUEUE_LABEL

_TRAIN_JOBS: Final = ("trainer.kubeflow.org", "trainjobs")
QUEUED_RESOURCES: Final = (
    ("", "pods"),
    *((kind.group, kind.resource) for kind in QUEUED_KINDS),
    _TRAIN_JOBS,
)
"""API groups and resources of what Kueue queues."""
GUARDED_RESOURCES: Final = (
    *QUEUED_RESOURCES,
    *((kind.group, kind.resource) for kind in TEMPLATE_KINDS if not kind.queued),
)
"""Those, and what makes pods: Kueue takes the pods of a ReplicaSet whose owner is queued for that owner's."""
_QUEUED_OWNERS = texts(QUEUED_OWNERS)
_QUEUED_NAMES = f"['Pod'] + {_QUEUED_OWNERS}"
_LABELS = "object.metadata.?labels.orValue({})"
_OWNERS = "object.metadata.?ownerReferences.orValue([])"
_OLD_OWNERS = "oldObject.metadata.?ownerReferences.orValue([])"
# A CronJob makes Jobs and is not queued; `kubectl create job --from` makes it the owner of a Job, too.
_BY_A_CRON_JOB = "one.apiVersion == 'batch/v1' && one.kind == 'CronJob'"
_OWNED = f"!{_OWNERS}.all(one, {_BY_A_CRON_JOB})"
"""That something owns an object with which it may be queued, as CEL."""
_GATES = "object.spec.?schedulingGates.orValue([])"
_OLD_GATES = "oldObject.spec.?schedulingGates.orValue([])"


def _specs(kinds: Sequence[TemplateKind], of: str = "object") -> str:
    """Return the pod specs of an object, a pod or one of these kinds, as CEL."""
    templates = templates_of(of, kinds)
    return f"({of}.kind == 'Pod' ? [dyn({of}.spec)] : {templates}.map(each, dyn(each.template.spec)))"


def _all_labels(of: str) -> str:
    """Return the labels of an object, and of what controllers make of it and would be refused again and again."""
    return f"([dyn({of}.metadata)] + {made_metadata(of)}).map(one, one.?labels.orValue({{}}))"


def _is_older(values: Callable[[str], str]) -> str:
    """Return that an update leaves values as they are, as CEL: what is older than a rule stays and can be deleted.

    Controllers remove finalizers by an update. `values`: of `object` or `oldObject`.
    """
    return f"(request.operation == 'UPDATE' && {values('object')} == {values('oldObject')})"


def _labelled(label: str) -> Callable[[str], str]:
    """Return what gives the values of a label, as CEL."""
    return lambda of: f"{_all_labels(of)}.map(labels, labels[?'{label}'].orValue(''))"


def _classes(of: str) -> str:
    return f"{_specs(TEMPLATE_KINDS, of)}.map(spec, spec.?priorityClassName.orValue(''))"


_TERMS: Final = (
    "spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])"
)
# Kueue takes a workload's priority from the first that names a class.
_POD_SPECS: Final = _specs(QUEUED_KINDS)
_TEMPLATE_SPECS: Final = f"{templates_of('object', QUEUED_KINDS)}.map(each, dyn(each.template.spec))"


NAMES_NO_CLASS: Final = (
    f"!('{PRIORITY_LABEL}' in {_LABELS}) && !({_OWNED}) && "
    f"{_POD_SPECS}.all(spec, spec.?priorityClassName.orValue('') == '')"
)
"""That an object of nobody, or of a CronJob, names no priority class, neither itself nor in its pods, as CEL."""


def priority_patch(priority: str) -> str:
    """Return the JSON patch, as CEL, that gives an object a WorkloadPriorityClass."""
    key = PRIORITY_LABEL.replace("/", "~1")
    return (
        f"has(object.metadata.labels) ? [JSONPatch{{op: 'add', path: '/metadata/labels/{key}', "
        f"value: '{priority}'}}] : "
        f"[JSONPatch{{op: 'add', path: '/metadata/labels', value: {{'{PRIORITY_LABEL}': '{priority}'}}}}]"
    )


_TOLERATION: Final = f"{{'key': '{names.GPU_TAINT_KEY}', 'operator': 'Exists', 'effect': 'NoSchedule'}}"


def _lacks_toleration(spec: str) -> str:
    """Return that a pod spec requests GPUs and does not tolerate the taint of their nodes, as CEL."""
    return (
        f"({asks_for_gpus(spec)}) && !{spec}.?tolerations.orValue([]).exists(each, "
        f"each.?key.orValue('') in ['', '{names.GPU_TAINT_KEY}'] && "
        "each.?effect.orValue('') in ['', 'NoSchedule'])"
    )


def _tolerate(template: str, pointer: str) -> str:
    """Return the JSON patches of a template: none, or one. `pointer`: to it, as a text of CEL that is open."""
    spec = f"{template}.spec"
    return (
        f"!({_lacks_toleration(spec)}) ? [] : has({spec}.tolerations) ? "
        f"[JSONPatch{{op: 'add', path: {pointer}/spec/tolerations/-', value: {_TOLERATION}}}] : "
        f"[JSONPatch{{op: 'add', path: {pointer}/spec/tolerations', value: [{_TOLERATION}]}}]"
    )


# Pods of a TrainJob are those of its runtime, with patches. Trainer calls the Job of its nodes `node`.
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
_CPU, _MEMORY = text("cpu"), text("memory")
_SIZES: Final = f"[{_CPU}, {_MEMORY}]"
_HAS_GPUS: Final = container_asks_for_gpus("each")


def _has_limit_alone(container: str, size: str) -> str:
    """Return that a container has a limit of CPU or memory and no request, as CEL."""
    return (
        f"{container}.?resources.?limits[?{size}].hasValue() && "
        f"!{container}.?resources.?requests[?{size}].hasValue()"
    )


def _has_request_alone(container: str, size: str) -> str:
    """Return that a container has a request of CPU or memory and no limit, as CEL."""
    return (
        f"{container}.?resources.?requests[?{size}].hasValue() && "
        f"!{container}.?resources.?limits[?{size}].hasValue()"
    )


def _request_limits(template: str, pointer: str) -> str:
    """Return the JSON patches of a template by which its containers request what they have as limit alone."""
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
    """Return the JSON patches of a template by which containers with GPUs have limits for what they request."""
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
    _TRAIN_JOBS,
)
"""API groups and resources of what `template_patches` change."""


def template_patches(cpu_limit: str) -> tuple[str, ...]:
    """Return the JSON patches, as CEL, that give pod templates what their pods get when they are created.

    Templates that request GPUs tolerate the taint of GPU nodes. A limit of CPU or memory without a request is the
    request, too. A container with GPUs and a request without a limit gets the limit of its pods: `cpu_limit`, and
    the memory that it requests. Kueue reads templates: the same defaults of pods come too late for it, and it
    takes those of the namespace's LimitRange for what is missing (kubernetes-sigs/kueue#15020; a request above its
    limit never starts, pkg/workload/resources.go; v0.19.2, read 2026-11-29).
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


def _names_pool(fits: str) -> str:
    """Return that a pod spec names pools, and only such that fit, as CEL. `fits`: whether `pool` does."""
    return (
        f"spec.?nodeSelector[?'{names.POOL_LABEL}'].hasValue() && "
        f"[spec.nodeSelector['{names.POOL_LABEL}']].all(pool, {fits}) || "
        f"{_TERMS}.size() > 0 && {_TERMS}.all(term, "
        f"term.?matchExpressions.orValue([]).exists(each, each.key == '{names.POOL_LABEL}' && "
        f"each.operator == 'In' && each.values.all(pool, {fits})))"
    )


def _pool_rules(queue: TeamQueuePlan) -> Iterator[PodRule]:
    """Yield for each resource the rules that a pod names its pool where some nodes are too small for it.

    Kueue compares quotas, and does not know how much one node has, nor that a container gets only one share. It
    would start the pod on such nodes, where it waits or ends (UnexpectedAdmissionError). It reads labels of
    flavors in the pod's node selector and required node affinity.
    """
    for resource in (one for one in queue.resources if "/" in one):
        flavors = [(one.pool, one) for one in queue.flavors if one.pool and one.serves(resource)]
        each = units_of(resource)
        of_containers, of_inits = (
            f"spec.containers.map(one, {each})",
            f"spec.?initContainers.orValue([]).map(one, {each})",
        )
        on_node = {pool: one.on_node[resource] for pool, one in flavors}
        yield from _pool_rule(resource, "pods", on_node, f"([{of_containers}.sum()] + {of_inits}).max()")
        in_container = {pool: one.in_container.get(resource, on_node[pool]) for pool, one in flavors}
        if in_container != on_node:
            yield from _pool_rule(resource, "containers", in_container, f"({of_containers} + {of_inits}).max()")


def _pool_rule(resource: str, whose: str, sizes: Mapping[str, int], units: str) -> Iterator[PodRule]:
    """Yield the rule for the most units of a resource by pool, if they differ. `units`: of a pod spec, as CEL."""
    if len(set(sizes.values())) < 2:
        return
    least, largest = min(sizes.values()), max(sizes, key=lambda pool: sizes[pool])
    small = ", ".join(pool for pool, most in sizes.items() if most == least)
    table = f"{{{', '.join(f'{text(pool)}: {size}' for pool, size in sorted(sizes.items()))}}}"
    fits = f"pool in {table} && units <= {table}[pool]"
    yield PodRule(
        id="queue-pool",
        expression=(
            f"request.operation != 'CREATE' || {_OWNED} || {_specs(TEMPLATE_KINDS)}.all(spec, "
            f"[{units}].all(units, units <= {least} || {_names_pool(fits)}))"
        ),
        message=f"{whose} with more than {least} of {resource} fit no node of {small}, where the queue may start "
        f"them: name a pool, as in nodeSelector: {{{names.POOL_LABEL}: {largest}}}",
    )


def _class_rules(queue: TeamQueuePlan) -> Iterator[PodRule]:
    """Yield for each compute class the rule that its pods name its pools, where the queue has other pools, too.

    Kueue compares a pod with the labels that a flavor has. Flavors have none of a class, so it would start the pod
    on any pool, whose nodes lack the label (v0.19.2, pkg/scheduler/flavorassigner, flavorSelector).
    """
    for one in queue.classes:
        pools = {
            flavor.pool
            for flavor in queue.flavors
            if flavor.pool and any("/" in resource and flavor.serves(resource) for resource in queue.resources)
        }
        if pools <= {*one.pools}:
            continue
        selects = (
            f"spec.?nodeSelector[?'{one.label}'].orValue('') == '{one.name}' || {_TERMS}.exists(term, "
            f"term.?matchExpressions.orValue([]).exists(each, each.key == '{one.label}' && "
            f"'{one.name}' in each.?values.orValue([])))"
        )
        yield PodRule(
            id="queue-pool",
            expression=(
                f"request.operation != 'CREATE' || {_OWNED} || {_specs(TEMPLATE_KINDS)}.all(spec, "
                f"!({selects}) || {_names_pool(f'pool in {texts(one.pools)}')})"
            ),
            message=f"the queue does not know {one.label}, and may start pods of {one.name} on "
            f"{', '.join(sorted(pools - {*one.pools}))}: name the pools of the class, too, in a required node "
            f"affinity: {{key: {names.POOL_LABEL}, operator: In, values: [{', '.join(one.pools)}]}}",
        )


def _request_rules(queue: TeamQueuePlan) -> Iterator[PodRule]:
    """Yield for each pool with requested nodes the rule that its resources are in one template, or all elsewhere.

    Kueue writes a PodSet of the request for each template that names resources of the pool, in requests or limits
    and with any amount, and a request has one: the same as `requests.py` says of declared work. Merged
    (`podSetMergePolicy`) only the first template gets the selector and the annotation of the nodes (v0.19.2,
    containerUses and podSetUpdates of pkg/controller/admissionchecks/provisioning; kubernetes-sigs/kueue#14408).
    The templates of a TrainJob are those of its TrainingRuntime.
    """
    specs = _specs((*QUEUED_KINDS, *_RUNTIMES))
    for flavor in (one for one in queue.flavors if one.pool and one.check is not None):
        resources = tuple(flavor.on_node)
        others = [
            one.pool for one in queue.flavors if one.pool and one.check is None and any(map(one.serves, resources))
        ]
        elsewhere = f" || specs.all(spec, {_names_pool(f'pool in {texts(others)}')})" if others else ""
        advice = f", or name another pool: nodeSelector: {{{names.POOL_LABEL}: {others[0]}}}" if others else ""
        yield PodRule(
            id="queue-pod-sets",
            expression=(
                f"request.operation != 'CREATE' || {_OWNED} || "
                f"[{specs}.filter(spec, {_names_resource('spec', resources)})].all(specs, "
                f"specs.size() < 2{elsewhere})"
            ),
            message=f"{', '.join(resources)} in several pod templates, and nodes of {flavor.pool} are requested "
            f"for equal pods alone: keep GPUs in one template{advice}",
        )


def _names_resource(spec: str, resources: Sequence[str]) -> str:
    """Return that a container of a pod spec names one of these resources, with whatever amount, as CEL."""
    return (
        f"({spec}.?containers.orValue([]) + {spec}.?initContainers.orValue([])).exists(one, "
        f"['limits', 'requests'].exists(each, one.?resources[?each].orValue({{}}).exists(name, "
        f"name in {texts(resources)})))"
    )


def rules_of(queue: TeamQueuePlan) -> tuple[PodRule, ...]:
    """Return the rules of the namespace of a team with a queue."""
    local_queue, priorities, accounts = queue.local_queue, queue.priorities, queue.accounts
    allowed = f"[{', '.join(repr(name) for name in priorities)}]"
    classes = ", ".join(priorities) or "none"
    rules = [
        PodRule(
            id="queue-of-team",
            expression=f"{_is_older(_labelled(QUEUE_LABEL))} || {_all_labels('object')}.all(labels, "
            f"labels[?'{QUEUE_LABEL}'].orValue('{local_queue}') == '{local_queue}')",
            message=f"the queue of this namespace is {local_queue}: write the label {QUEUE_LABEL}: {local_queue}",
        ),
        PodRule(
            id="queue-priority-class",
            expression=f"{_is_older(_labelled(PRIORITY_LABEL))} || {_all_labels('object')}.all(labels, "
            f"!('{PRIORITY_LABEL}' in labels) || labels['{PRIORITY_LABEL}'] in {allowed})",
            message=f"the label {PRIORITY_LABEL} may name {classes}: no class above the team's own",
        ),
        PodRule(
            id="queue-priority-class",
            expression=(
                f"{_is_older(_classes)} || {_specs(TEMPLATE_KINDS)}.all(spec, "
                f"spec.?priorityClassName.orValue('') == '' || spec.?priorityClassName.orValue('') in {allowed})"
            ),
            message=f"priorityClassName may be {classes}: no class above the team's own",
        ),
        PodRule(
            id="queue-pod-gate",
            expression=(
                f"object.kind != 'Pod' || request.operation != 'UPDATE' || "
                f"{_OLD_GATES}.all(gate, !gate.name.startsWith('kueue.x-k8s.io/') || gate in {_GATES})"
                f" || {BY_KUEUE}"
            ),
            message="Kueue removes the scheduling gates of a pod when its quota is free: wait, or delete the pod",
        ),
        PodRule(
            id="queue-start",
            expression=(
                f"request.operation != 'UPDATE' || !(object.kind in {_QUEUED_OWNERS}) || "
                "object.spec.?suspend.orValue(false) || !oldObject.spec.?suspend.orValue(false) || "
                f"{by_a_controller(accounts)} || {BY_KUEUE}"
            ),
            message="Kueue starts what waits when its quota is free: leave spec.suspend as it is",
        ),
        PodRule(
            id="queue-owner",
            expression=(
                f"(request.operation == 'UPDATE' ? {_OWNERS}.all(one, one in {_OLD_OWNERS}) : "
                f"{_OWNERS}.size() == 0) || (object.kind == 'Job' && !({_OWNED})) || "
                f"{by_a_controller(accounts)} || "
                "'system:masters' in request.userInfo.groups || "
                # An operator of the team's own may own what only makes pods, if no queued object owns that.
                f"(!(object.kind in {_QUEUED_NAMES}) && {_OWNERS}.all(one, !(one.kind in {_QUEUED_NAMES})))"
            ),
            message="controllers set ownerReferences, members do not: what has a queued owner is not queued",
        ),
        *tracking_rules(by_a_controller(accounts)),
    ]
    if queue.tainted:
        rules.append(
            PodRule(
                id="gpu-toleration",
                # Controllers make what is older than the rule again.
                expression=(
                    f"request.operation != 'CREATE' || {_OWNERS}.size() > 0 || "
                    f"{_POD_SPECS}.all(spec, !({_lacks_toleration('spec')}))"
                ),
                message="pods that request GPUs would wait for ever: add the toleration "
                f"{{key: {names.GPU_TAINT_KEY}, operator: Exists, effect: NoSchedule}} to them",
            )
        )
    containers = "(spec.?containers.orValue([]) + spec.?initContainers.orValue([]))"
    cpu, memory = queue.default_limit["cpu"], queue.default_limit["memory"]
    defaults = f"{{{_CPU}: {text(cpu)}, {_MEMORY}: {text(memory)}}}"
    rules.append(
        PodRule(
            id="queue-limits",
            expression=(
                f"request.operation != 'CREATE' || {_OWNED} || {_TEMPLATE_SPECS}.all(spec, "
                f"{containers}.all(each, {_SIZES}.all(size, !({_has_request_alone('each', 'size')} && "
                f"quantity(string(each.resources.requests[size])).isGreaterThan(quantity({defaults}[size]))))))"
            ),
            message=f"a container requests more than the default limits of the namespace, {cpu} CPU and {memory}, "
            "and would wait for ever: write its limits of CPU and memory, too",
        )
    )
    if not queue.mutates:
        rules.append(
            PodRule(
                id="queue-requests",
                expression=(
                    f"request.operation != 'CREATE' || {_OWNERS}.size() > 0 || {_POD_SPECS}.all(spec, "
                    f"{containers}.all(each, {_SIZES}.all(size, !({_has_limit_alone('each', 'size')}))))"
                ),
                message="the queue would count the default of the namespace: write the limits of CPU and memory "
                "as requests, too",
            )
        )
    rules += _pool_rules(queue)
    rules += _class_rules(queue)
    rules += _request_rules(queue)
    if queue.required:
        rules.append(
            PodRule(
                id="kueue-queue-name",
                expression=(
                    f"request.operation != 'CREATE' || (object.kind == 'CronJob' ? '{QUEUE_LABEL}' in "
                    "object.spec.jobTemplate.?metadata.?labels.orValue({}) : "
                    f"'{QUEUE_LABEL}' in {_LABELS} || !(object.kind in {_QUEUED_NAMES}) || "
                    f"{_OWNERS}.exists(one, one.kind in {_QUEUED_OWNERS}))"
                ),
                message=f"name the queue: write the label {QUEUE_LABEL}: {local_queue}, in spec.jobTemplate of a "
                "CronJob",
            )
        )
    return tuple(rules)
