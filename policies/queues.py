"""Rules about queueing with Kueue.

Sources: Kueue v0.19 docs and API reference (kueue.x-k8s.io/v1beta2), read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.pod_limits import PARENT_ANNOTATION, WORKLOAD_OF_OTHERS
from policies._inputs import Value
from policies._node_pool import NodePool
from policies._pod_templates import KINDS, pod_templates
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack
from policies._workloads import Workload, workloads

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_TOPOLOGY: Final = tuple(names.TOPOLOGY_ANNOTATIONS.values())
_DEFAULT_QUEUE: Final = "default"  # jobs without a queue label use the LocalQueue of this name
_BY_POD: Final = ("apps/Deployment", "apps/StatefulSet")
_QUEUED: Final = frozenset(
    {
        "batch/Job",
        "jobset.x-k8s.io/JobSet",
        "kubeflow.org/PyTorchJob",
        "kubeflow.org/MPIJob",
        "ray.io/RayCluster",
        "ray.io/RayJob",
        "ray.io/RayService",
        "leaderworkerset.x-k8s.io/LeaderWorkerSet",
        "apps/Deployment",
        "apps/StatefulSet",
        "core/Pod",
    }
)


def _queue_of(workload: Workload) -> Value:
    """Return the queue label. Kueue queues single pods if it does not support their controller."""
    label = workload.resource.inputs.get("metadata", "labels", QUEUE_LABEL)
    if workload.resource.kind in _BY_POD and not label.present:
        return workload.labels.get(QUEUE_LABEL)
    return label


def _queues_in(stack: Stack, namespace: str) -> list[str]:
    """Return the names of the LocalQueues of a namespace. Raises NotVisible."""
    found = stack.in_namespace("kueue.x-k8s.io/LocalQueue", namespace) if namespace else ()
    return [one.object_name for one in found]


def _no_queue(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if workload.resource.kind not in _QUEUED or not workload.requests_gpus:
        return
    queues = _queues_in(stack, workload.namespace)
    if not queues:
        return
    label = _queue_of(workload)
    if label.text() is None and (_DEFAULT_QUEUE not in queues or not workload.ends):
        yield Breach(
            at=label,
            found=f"no label {QUEUE_LABEL} in a namespace with queues ({', '.join(queues)})",
            allowed="pods with GPUs that use a queue",
            fix=f"add the label {QUEUE_LABEL}: {queues[0]}",
        )
    elif label.text() is not None and label.text() not in queues:
        yield Breach(
            at=label,
            found=f"queue {label.text()!r}",
            allowed="one of " + ", ".join(queues),
            fix="use a LocalQueue of the namespace; otherwise the job stays suspended",
        )


kueue_queue_name = Rule(
    id="kueue-queue-name",
    severity=Severity.HIGH,
    description="Pods with GPUs use the queue of their namespace. Otherwise they take GPUs out of turn.",
    subjects=lambda stack: stack.view(workloads),
    check=_no_queue,
    settings=Settings,
)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterQueue(ObjectSubject):
    """One ClusterQueue."""


def cluster_queues(stack: Stack) -> tuple[ClusterQueue, ...]:
    """Return every ClusterQueue."""
    return tuple(ClusterQueue(resource) for resource in stack.of_kind("kueue.x-k8s.io/ClusterQueue"))


def reaches(stack: Stack, namespace: str, pool: NodePool, resource: str) -> bool:
    """Return whether pods of a namespace can use a resource of a pool, through its queues if it has any.

    Raises NotVisible, also if a queue is not in the stack.
    """
    queues = stack.in_namespace("kueue.x-k8s.io/LocalQueue", namespace)
    return not queues or any(_offers(stack, queue.inputs, pool, resource) for queue in queues)


def _offers(stack: Stack, queue: Value, pool: NodePool, resource: str) -> bool:
    named = queue.get("spec", "clusterQueue")
    found = [one for one in stack.of_kind("kueue.x-k8s.io/ClusterQueue") if one.object_name == named.text()]
    if not found:
        raise named.not_visible("the ClusterQueue is not in this stack")
    spec = found[0].inputs.get("spec")
    alone = not (spec.get("cohortName").text() or spec.get("cohort").text())
    for group in spec.get("resourceGroups").items():
        for flavor in group.get("flavors").items():
            for entry in flavor.get("resources").items():
                if entry.get("name").text() != resource or not _selects(stack, flavor.get("name").text(), pool):
                    continue
                borrowed = entry.get("borrowingLimit")
                lent = not alone and (not borrowed.present or bool(borrowed.quantity()))
                if lent or entry.get("nominalQuota").quantity():
                    return True
    return False


def _selects(stack: Stack, flavor: str | None, pool: NodePool) -> bool:
    """Return whether a flavor may select a pool's nodes. A flavor that is not in the stack may select any pool."""
    found = [one for one in stack.of_kind("kueue.x-k8s.io/ResourceFlavor") if one.object_name == flavor]
    labels = found[0].inputs.get("spec", "nodeLabels").entries() if found else ()
    return all(pool.label(key).text() == value.text() for key, value in labels)


def _borrows_without_end(_: Stack, queue: ClusterQueue, __: Settings) -> Iterator[Breach]:
    spec = queue.resource.inputs.get("spec")
    if not (spec.get("cohortName").text() or spec.get("cohort").text()):
        return
    if spec.get("preemption", "reclaimWithinCohort").text() not in (None, "Never"):
        return
    for group in spec.get("resourceGroups").items():
        for flavor in group.get("flavors").items():
            for resource in flavor.get("resources").items():
                name = resource.get("name").text() or ""
                if names.is_gpu_resource(name) and not resource.get("borrowingLimit").present:
                    yield Breach(
                        at=resource.get("borrowingLimit"),
                        found=f"no borrowingLimit of {name} in a cohort that does not reclaim quota",
                        allowed="a borrowingLimit, or preemption.reclaimWithinCohort other than Never",
                        fix="add a borrowingLimit (0 borrows nothing), or reclaimWithinCohort: Any",
                    )


kueue_borrow_unbounded = Rule(
    id="kueue-borrow-unbounded",
    severity=Severity.HIGH,
    description="Borrowed GPUs are limited or can be reclaimed. Otherwise one team could hold all GPUs of the "
    "cohort.",
    subjects=lambda stack: stack.view(cluster_queues),
    check=_borrows_without_end,
    settings=Settings,
)


def _scattered(stack: Stack, workload: Workload, _: Settings) -> Iterator[Breach]:
    if not stack.of_kind("kueue.x-k8s.io/Topology") or workload.pods_together < 2 or not workload.requests_gpus:
        return
    if workload.resource.kind == "kueue.x-k8s.io/Workload" or _queue_of(workload).text() is None:
        return
    annotations = workload.annotations
    if not any(annotations.get(key).present for key in _TOPOLOGY):
        yield Breach(
            at=annotations,
            found=f"{workload.pods_together} pods with GPUs for one task, without a topology request",
            allowed="one of the annotations " + ", ".join(_TOPOLOGY),
            fix=f"add {names.TOPOLOGY_ANNOTATIONS['preferred']} with a level of the Topology to the pod template",
        )


kueue_tas_multi_node = Rule(
    id="kueue-tas-multi-node",
    severity=Severity.HIGH,
    description="Tasks on several nodes request nodes that are close together. Otherwise they are slow.",
    subjects=lambda stack: stack.view(workloads),
    check=_scattered,
    settings=Settings,
    before_only="depends on the levels of the Topology; without the request, a task starts but is slow",
)


@dataclass(frozen=True, slots=True, eq=False)
class QueuedObject(ObjectSubject):
    """One object that creates pods, or that is queued itself."""


def queued_objects(stack: Stack) -> tuple[QueuedObject, ...]:
    """Return every object that creates pods, and every TrainJob."""
    return tuple(QueuedObject(resource) for resource in stack.of_kind(*KINDS, "trainer.kubeflow.org/TrainJob"))


def _joins_others(stack: Stack, queued: QueuedObject, _: Settings) -> Iterator[Breach]:
    resource = queued.resource
    if not _queues_in(stack, resource.seen_namespace()):
        return
    metadata = [resource.inputs.get("metadata")]
    if resource.kind in KINDS:
        metadata += [template.metadata for template in pod_templates(resource.kind, resource.inputs)]
    if resource.kind == "batch/CronJob":  # metadata of the Jobs that it creates
        metadata.append(resource.inputs.get("spec", "jobTemplate", "metadata"))
    for one in metadata:
        for field in ("labels", "annotations"):
            for key, value in one.get(field).entries():
                if key in (*WORKLOAD_OF_OTHERS, PARENT_ANNOTATION):
                    yield Breach(
                        at=value,
                        found=f"{key} in {field}",
                        allowed="the object's own Workload, which Kueue creates and which counts all its pods",
                        fix="remove it, and use a Job, a JobSet or a LeaderWorkerSet for pods that start together",
                    )


queue_workload = Rule(
    id="queue-workload",
    severity=Severity.HIGH,
    description="A queued object has its own Workload. With the Workload of another object, its GPUs are not "
    "counted.",
    subjects=lambda stack: stack.view(queued_objects),
    check=_joins_others,
    settings=Settings,
)

RULES = (queue_workload, kueue_queue_name, kueue_borrow_unbounded, kueue_tas_multi_node)
