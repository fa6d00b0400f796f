"""Paths of pod specs in each kind of resource, and paths of the fields that count the pods that run together.

Sources: Kubernetes 1.36 API; CustomResourceDefinitions of JobSet v1alpha2, Trainer v1 and v2, KubeRay v1,
LeaderWorkerSet v1, Kueue v1beta2 and KEDA v1alpha1; read 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from policies._inputs import NotVisible, Value

_GPUS: Final = re.compile(r"(nvidia|amd)\.com/")
_ELSEWHERE: Final = "GPUs are requested outside of any pod spec that rules can read"
_SEARCHED: Final = frozenset({"containers", "resources", "quantity"})
_EACH: Final = "*"  # in a path: every item of a list or every value of a mapping


@dataclass(frozen=True, slots=True)
class TemplatePath:
    """One path of a pod spec in a kind of resource.

    `gang` are paths of counts. The product of these counts is the number of pods that work together on one task.
    `gang` is empty for pods that serve independently, such as pods of a Deployment.
    """

    spec: tuple[str, ...]
    gang: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One pod spec of a resource, or the reason why it is not visible."""

    spec: Value | NotVisible
    metadata: Value
    counts: tuple[Value, ...] = ()


def _template(spec: str, *gang: str) -> TemplatePath:
    return TemplatePath(tuple(spec.split(".")), tuple(tuple(path.split(".")) for path in gang))


_JOBS: Final = "spec.replicatedJobs.*.template.spec"
_RUNTIME_JOBS: Final = "spec.template.spec.replicatedJobs.*.template.spec"


def _ray(cluster: str) -> tuple[TemplatePath, ...]:
    workers = f"{cluster}.workerGroupSpecs.*"
    return (
        _template(f"{cluster}.headGroupSpec.template.spec"),
        _template(f"{workers}.template.spec", f"{workers}.replicas", f"{workers}.numOfHosts"),
    )


_PATHS: Final[Mapping[str, tuple[TemplatePath, ...]]] = {
    "core/Pod": (_template("spec"),),
    "core/PodTemplate": (_template("template.spec"),),
    "core/ReplicationController": (_template("spec.template.spec"),),
    "apps/DaemonSet": (_template("spec.template.spec"),),
    "apps/Deployment": (_template("spec.template.spec"),),
    "apps/ReplicaSet": (_template("spec.template.spec"),),
    "apps/StatefulSet": (_template("spec.template.spec"),),
    "batch/Job": (_template("spec.template.spec", "spec.parallelism"),),
    "batch/CronJob": (_template("spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.parallelism"),),
    "jobset.x-k8s.io/JobSet": (
        _template(f"{_JOBS}.template.spec", f"{_JOBS}.parallelism", "spec.replicatedJobs.*.replicas"),
    ),
    "trainer.kubeflow.org/TrainingRuntime": (_template(f"{_RUNTIME_JOBS}.template.spec"),),
    "trainer.kubeflow.org/ClusterTrainingRuntime": (_template(f"{_RUNTIME_JOBS}.template.spec"),),
    "kubeflow.org/PyTorchJob": (
        _template("spec.pytorchReplicaSpecs.*.template.spec", "spec.pytorchReplicaSpecs.*.replicas"),
    ),
    "kubeflow.org/MPIJob": (_template("spec.mpiReplicaSpecs.*.template.spec", "spec.mpiReplicaSpecs.*.replicas"),),
    "ray.io/RayCluster": _ray("spec"),
    "ray.io/RayJob": (*_ray("spec.rayClusterSpec"), _template("spec.submitterPodTemplate.spec")),
    "ray.io/RayService": _ray("spec.rayClusterConfig"),
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": (
        _template("spec.leaderWorkerTemplate.leaderTemplate.spec", "spec.leaderWorkerTemplate.size"),
        _template("spec.leaderWorkerTemplate.workerTemplate.spec", "spec.leaderWorkerTemplate.size"),
    ),
    "keda.sh/ScaledJob": (_template("spec.jobTargetRef.template.spec", "spec.jobTargetRef.parallelism"),),
    "kueue.x-k8s.io/Workload": (_template("spec.podSets.*.template.spec", "spec.podSets.*.count"),),
}
_PATCHES: Final = "spec.runtimePatches.*.trainingRuntimeSpec.template.spec.replicatedJobs.*.template.spec.template"
_TRAINER: Final = _template("spec.trainer")
KINDS: Final = tuple(_PATHS)
BATCH_KINDS: Final = frozenset(
    {
        "batch/Job",
        "batch/CronJob",
        "jobset.x-k8s.io/JobSet",
        "trainer.kubeflow.org/TrainingRuntime",
        "trainer.kubeflow.org/ClusterTrainingRuntime",
        "kubeflow.org/PyTorchJob",
        "kubeflow.org/MPIJob",
        "ray.io/RayJob",
        "keda.sh/ScaledJob",
    }
)
"""Kinds whose pods terminate when their work is done."""


def pod_templates(kind: str, inputs: Value) -> tuple[PodTemplate, ...]:
    """Return the pod specs of a resource. For each pod spec that is not visible, return a template with the
    reason. Never raises.
    """
    return tuple(template for path in _PATHS[kind] for template in _templates(inputs, path))


def found_templates(inputs: Value) -> tuple[PodTemplate, ...]:
    """Return all pod specs in a resource of an unknown kind. Never raises.

    If GPUs are requested elsewhere, such as in a chart's values, the result has a template that is not visible.
    """
    if not _has_key(inputs.raw):
        return ()
    try:
        return tuple(_search(inputs, Value(inputs.owner)))
    except NotVisible as gap:
        return (PodTemplate(gap, Value(inputs.owner)),)


def _has_key(raw: object) -> bool:
    """Return whether a mapping contains a key that requires a slow search. Most mappings contain no such key."""
    if isinstance(raw, Mapping):
        found = cast("Mapping[str, object]", raw)
        return not _SEARCHED.isdisjoint(found) or any(_has_key(one) for one in found.values())
    return isinstance(raw, list) and any(_has_key(one) for one in cast("list[object]", raw))


def _search(value: Value, metadata: Value) -> Iterator[PodTemplate]:
    if any(_is_container(one) for one in value.get("containers").items()):
        yield PodTemplate(value, metadata)
        return
    for amounts in ("requests", "limits"):
        for name, amount in value.get("resources", amounts).entries():
            if _GPUS.match(name):
                yield PodTemplate(amount.not_visible(_ELSEWHERE), metadata)
                return
    named = value.get("name").raw
    if isinstance(named, str) and _GPUS.match(named) and value.get("quantity").present:  # GPUs of a Spark job
        yield PodTemplate(value.not_visible(_ELSEWHERE), metadata)
    own = value.get("metadata")
    for key, inner in value.entries():
        if key not in ("metadata", "status") and isinstance(inner.raw, (Mapping, list)):
            yield from _search(inner, own if key == "spec" else Value(inner.owner))
    for inner in value.items():
        yield from _search(inner, Value(inner.owner))


def _is_container(one: Value) -> bool:
    return isinstance(one.raw, Mapping) and any(one.get(key).present for key in ("image", "resources", "command"))


def pod_patches(inputs: Value) -> tuple[PodTemplate, ...]:
    """Return the partial pod specs that a TrainJob applies to its runtime's pods. Never raises."""
    try:
        found = [patch for patch, _ in _walk(inputs, _PATCHES.split("."))]
        return tuple(PodTemplate(patch.get("spec"), patch.get("metadata")) for patch in found)
    except NotVisible as gap:
        return (PodTemplate(gap, Value(inputs.owner)),)


def trainers(inputs: Value) -> tuple[PodTemplate, ...]:
    """Return a TrainJob's container settings, which it has instead of a pod spec. Never raises."""
    return tuple(_templates(inputs, _TRAINER))


def _templates(inputs: Value, path: TemplatePath) -> Iterator[PodTemplate]:
    try:
        for spec, chosen in _walk(inputs, path.spec):
            metadata = _at(inputs, (*path.spec[:-1], "metadata"), chosen)
            yield PodTemplate(spec, metadata, tuple(_at(inputs, count, chosen) for count in path.gang))
    except NotVisible as gap:
        yield PodTemplate(gap, Value(inputs.owner))


def _walk(value: Value, path: Sequence[str]) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """Yield each value at a path, with the values that the wildcards matched. Raises NotVisible."""
    if not path:
        if value.present:
            yield value, ()
        return
    if path[0] != _EACH:
        yield from _walk(value.get(path[0]), path[1:])
        return
    for item in (*value.items(), *(one for _, one in value.entries())):
        for found, chosen in _walk(item, path[1:]):
            yield found, (item, *chosen)


def _at(inputs: Value, path: Sequence[str], chosen: Sequence[Value]) -> Value:
    """Return the value at a path. Its wildcards match the same items as the wildcards of the pod spec's path,
    which are in `chosen`. Raises NotVisible if the value cannot be read.
    """
    places = [index for index, key in enumerate(path) if key == _EACH]
    if not places:
        return inputs.get(*path)
    last = places[-1]
    return chosen[len(places) - 1].get(*path[last + 1 :])
