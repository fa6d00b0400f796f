"""Admission rules that keep Kueue's accounting equal to the pods that run.

Kueue finds the pods of what it has started by labels, annotations and owners. A member may write all of them, and
so could run pods that no quota counts, or that Kueue cannot stop.

Sources: kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs/pod (role hashes, groups, the label of managed pods),
pkg/controller/jobframework/reconciler.go (prebuilt workloads), pkg/workloadslicing (elastic jobs); read
2026-11-25.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog.pod_limits import WORKLOAD_OF_OTHERS
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import text, texts
from gpu_platform.planning.teams.pod_templates import QUEUED_KINDS, TEMPLATE_KINDS, made_metadata, templates_of

QUEUED_OWNERS: Final = ("TrainJob", *(kind.kind for kind in QUEUED_KINDS))
"""Kinds for whose pods Kueue counts, whatever stands between."""
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
BY_KUEUE: Final = (
    "authorizer.group('kueue.x-k8s.io').resource('workloads').subresource('status')"
    ".namespace(request.namespace).check('update').allowed()"
)
"""That Kueue or an administrator sends the request, as CEL: who may set the status of workloads."""

_PREFIX: Final = "kueue.x-k8s.io/"
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"  # the annotation, and the scheduling gate
_ELASTIC_KINDS: Final = tuple(kind for kind in TEMPLATE_KINDS if kind.kind in ("Job", "RayCluster", "RayService"))
_FIELDS: Final = ("labels", "annotations")
_OLD: Final = "(request.operation == 'CREATE' ? dyn({}) : dyn(oldObject.metadata))"
_OWNERS: Final = "oldObject.metadata.?ownerReferences.orValue([])"
_OF_QUEUED: Final = f"{_OWNERS}.exists(one, one.kind in {texts(QUEUED_OWNERS)})"
_ELASTIC_OBJECT: Final = f"object.metadata.?annotations[?{text(_ELASTIC)}].orValue('') == 'true'"


def tracking_rules(by_a_controller: str) -> tuple[PodRule, ...]:
    """Return the rules of what is created or changed. `by_a_controller`: that a controller does it, as CEL."""
    exempt = f"{by_a_controller} || {BY_KUEUE}"
    updates = f"request.operation != 'UPDATE' || {exempt}"
    return (
        PodRule(
            id="queue-workload",
            expression=f"({' && '.join(_own(field) for field in _FIELDS)} && "
            f"((request.operation == 'UPDATE' && {made_metadata('object')} == {made_metadata('oldObject')}) || "
            f"{made_metadata('object')}.all(each, {' && '.join(_of_made(field) for field in _FIELDS)}))) || "
            f"{exempt}",
            message="Kueue makes the Workload of what waits, one for each, and counts all of its pods: remove "
            f"{' and '.join(WORKLOAD_OF_OTHERS)} from labels and annotations; what starts together is a Job, a "
            "JobSet or a LeaderWorkerSet",
        ),
        PodRule(
            id="queue-pod-labels",
            expression=f"object.kind != 'Pod' || {updates} || ({' && '.join(_kept(field) for field in _FIELDS)})",
            message=f"Kueue finds the pods that it has started by labels and annotations of {_PREFIX}: leave them "
            "as they are, or delete the pod",
        ),
        PodRule(
            id="queue-pod-owner",
            # A Job makes another pod in place of one that has not its labels, and leaves that one running.
            expression=f"object.kind != 'Pod' || {updates} || !{_OF_QUEUED} || "
            f"({_OWNERS} == object.metadata.?ownerReferences.orValue([]) && "
            "oldObject.metadata.?labels.orValue({}).all(key, "
            "object.metadata.?labels[?key].orValue('') == oldObject.metadata.labels[key]))",
            message="this pod belongs to what was started in the queue, which would start another in its place: "
            "leave its labels and ownerReferences as they are, or delete it",
        ),
        PodRule(
            id="queue-owned",
            expression=f"object.kind == 'Pod' || {updates} || !{_OF_QUEUED} || {_ELASTIC_OBJECT} || "
            "object.spec == oldObject.spec",
            message="what owns this waits in the queue with all of its pods: change the owner, which is queued "
            "again where it then needs more",
        ),
        PodRule(
            id="queue-elastic-gate",
            expression=f"!(object.kind in {texts([kind.kind for kind in _ELASTIC_KINDS])}) || "
            f"!({_ELASTIC_OBJECT}) || {exempt} || {templates_of('object', _ELASTIC_KINDS)}.all(each, "
            f"each.template.?spec.?schedulingGates.orValue([]).exists(gate, gate.name == {text(_ELASTIC)}))",
            message=f"each pod of an elastic job waits until it is counted: leave the scheduling gate {_ELASTIC} "
            f"in its templates, or remove the annotation {_ELASTIC}",
        ),
    )


def _own(field: str) -> str:
    """Return CEL that is true if the object names no other Workload, or named it before."""
    found, old = f"object.metadata.?{field}.orValue({{}})", f"{_OLD}.?{field}.orValue({{}})"
    return f"{texts(WORKLOAD_OF_OTHERS)}.all(key, !(key in {found}) || key in {old})"


def _of_made(field: str) -> str:
    return f"{texts(WORKLOAD_OF_OTHERS)}.all(key, !(key in each.?{field}.orValue({{}})))"


def _kept(field: str) -> str:
    """Return CEL that is true if labels and annotations written by Kueue are unchanged; a class may change."""
    new, old = f"object.metadata.?{field}.orValue({{}})", f"oldObject.metadata.?{field}.orValue({{}})"
    of_kueue = f"key.startsWith({text(_PREFIX)}) && key != {text(PRIORITY_LABEL)}"
    return (
        f"{new}.all(key, !({of_kueue}) || (key in {old} && {old}[key] == {new}[key])) && "
        f"{old}.all(key, !({of_kueue}) || key in {new})"
    )
