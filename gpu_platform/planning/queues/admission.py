"""Rules at admission that keep the members of a team in their queue, and what is added where they name no class.

Kueue takes the priority of a workload from the label, else from its pods as they are declared: the team's class,
which pods get when they are created, comes too late for it.

Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/constants, pkg/controller/jobs/pod (scheduling gates; pods
whose owner is queued are not queued themselves); Kubernetes API reference, ValidatingAdmissionPolicy; read
2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform import names

QUEUE_LABEL: Final = names.QUEUE_LABEL
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"

# API groups and resources of what Kueue queues.
QUEUED_KINDS: Final = (
    ("", ("pods",)),
    ("batch", ("jobs",)),
    ("jobset.x-k8s.io", ("jobsets",)),
    ("trainer.kubeflow.org", ("trainjobs",)),
    ("ray.io", ("rayclusters", "rayjobs", "rayservices")),
    ("leaderworkerset.x-k8s.io", ("leaderworkersets",)),
)
# Who may set the status of workloads is Kueue, or an administrator.
_BY_KUEUE = (
    "authorizer.group('kueue.x-k8s.io').resource('workloads').subresource('status')"
    ".namespace(request.namespace).check('update').allowed()"
)
_BY_A_CONTROLLER = (
    "(request.userInfo.username.startsWith('system:') && "
    "!request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))"
)
_QUEUED_OWNERS = "['Job', 'JobSet', 'TrainJob', 'RayJob', 'RayCluster', 'RayService', 'LeaderWorkerSet']"
_LABELS = "object.metadata.?labels.orValue({})"
_OWNERS = "object.metadata.?ownerReferences.orValue([])"
_OLD_OWNERS = "oldObject.metadata.?ownerReferences.orValue([])"
_GATES = "object.spec.?schedulingGates.orValue([])"
_OLD_GATES = "oldObject.spec.?schedulingGates.orValue([])"
# Pod specs of an object: Kueue takes a workload's priority from the first that names a class.
_POD_SPECS = (
    "object.kind == 'Pod' ? [object.spec] : "
    "object.kind == 'Job' ? [object.spec.template.spec] : "
    "object.kind == 'JobSet' ? object.spec.replicatedJobs.map(one, one.template.spec.template.spec) : "
    "object.kind == 'LeaderWorkerSet' ? "
    "[object.spec.leaderWorkerTemplate.workerTemplate.spec] + "
    "(has(object.spec.leaderWorkerTemplate.leaderTemplate) ? "
    "[object.spec.leaderWorkerTemplate.leaderTemplate.spec] : []) : "
    "object.kind == 'RayCluster' ? [object.spec.headGroupSpec.template.spec] + "
    "object.spec.?workerGroupSpecs.orValue([]).map(one, one.template.spec) : "
    "object.kind == 'RayJob' && has(object.spec.rayClusterSpec) ? "
    "[object.spec.rayClusterSpec.headGroupSpec.template.spec] + "
    "object.spec.rayClusterSpec.?workerGroupSpecs.orValue([]).map(one, one.template.spec) : "
    "object.kind == 'RayService' && has(object.spec.rayClusterConfig) ? "
    "[object.spec.rayClusterConfig.headGroupSpec.template.spec] + "
    "object.spec.rayClusterConfig.?workerGroupSpecs.orValue([]).map(one, one.template.spec) : []"
)


NAMES_NO_CLASS: Final = (
    f"!('{PRIORITY_LABEL}' in {_LABELS}) && {_OWNERS}.size() == 0 && "
    f"({_POD_SPECS}).all(spec, spec.?priorityClassName.orValue('') == '')"
)
"""That an object which nobody owns names no priority class, neither itself nor in its pods, as CEL."""


def priority_patch(priority: str) -> str:
    """Return the JSON patch, as CEL, that gives an object a WorkloadPriorityClass."""
    key = PRIORITY_LABEL.replace("/", "~1")
    return (
        f"has(object.metadata.labels) ? [JSONPatch{{op: 'add', path: '/metadata/labels/{key}', "
        f"value: '{priority}'}}] : "
        f"[JSONPatch{{op: 'add', path: '/metadata/labels', value: {{'{PRIORITY_LABEL}': '{priority}'}}}}]"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """A CEL expression that must hold, with the message where it does not. `id`: as in the policy pack."""

    id: str
    expression: str
    message: str


def rules_of(local_queue: str, priorities: Sequence[str], *, required: bool) -> tuple[AdmissionRule, ...]:
    """Return the rules of a team's namespace. `required`: Jobs and pods must name the queue themselves."""
    allowed = f"[{', '.join(repr(name) for name in priorities)}]"
    classes = ", ".join(priorities) or "none"
    rules = [
        AdmissionRule(
            id="queue-of-team",
            expression=f"{_LABELS}[?'{QUEUE_LABEL}'].orValue('{local_queue}') == '{local_queue}'",
            message=f"the queue of this namespace is {local_queue}: write the label {QUEUE_LABEL}: {local_queue}",
        ),
        AdmissionRule(
            id="queue-priority-class",
            expression=f"!('{PRIORITY_LABEL}' in {_LABELS}) || {_LABELS}['{PRIORITY_LABEL}'] in {allowed}",
            message=f"the label {PRIORITY_LABEL} may name {classes}: no class above the team's own",
        ),
        AdmissionRule(
            id="queue-priority-class",
            expression=(
                f"({_POD_SPECS}).all(spec, spec.?priorityClassName.orValue('') == '' || "
                f"spec.?priorityClassName.orValue('') in {allowed})"
            ),
            message=f"priorityClassName may be {classes}: no class above the team's own",
        ),
        AdmissionRule(
            id="queue-pod-gate",
            expression=(
                f"object.kind != 'Pod' || request.operation != 'UPDATE' || "
                f"{_OLD_GATES}.all(gate, !gate.name.startsWith('kueue.x-k8s.io/') || gate in {_GATES})"
                f" || {_BY_KUEUE}"
            ),
            message="Kueue removes the scheduling gates of a pod when its quota is free: wait, or delete the pod",
        ),
        AdmissionRule(
            id="queue-owner",
            expression=(
                f"(request.operation == 'UPDATE' ? {_OWNERS}.all(one, one in {_OLD_OWNERS}) : "
                f"{_OWNERS}.size() == 0) || {_BY_A_CONTROLLER} || 'system:masters' in request.userInfo.groups"
            ),
            message="controllers set ownerReferences, members do not: what has a queued owner is not queued",
        ),
    ]
    if required:
        rules.append(
            AdmissionRule(
                id="kueue-queue-name",
                expression=(
                    f"request.operation != 'CREATE' || '{QUEUE_LABEL}' in {_LABELS} || "
                    f"{_OWNERS}.exists(one, one.kind in {_QUEUED_OWNERS})"
                ),
                message=f"name the queue: write the label {QUEUE_LABEL}: {local_queue}",
            )
        )
    return tuple(rules)
