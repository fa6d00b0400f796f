"""Places of pod templates in the objects that members create, and the settings that end the pods of these objects.

The API server's policies use them as CEL, and the policy pack as data.

Kinds and fields: Kubernetes 1.36 API, and the CustomResourceDefinitions of JobSet v1alpha2, Trainer v1alpha1 and
v1, KubeRay v1, LeaderWorkerSet v1 and KEDA v1alpha1; read 2026-11-25. A kind that is not installed matches no
objects. Integrations: kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs; ray-project/kuberay v1.7.0,
rayservice_controller.go (rayClusterSpecForHashing, modifyRayCluster), and ray-project/kuberay#4841; read
2026-11-30. Endings of RayJobs: rayjob_controller.go and utils/validation.go of the same release; of PyTorchJobs:
kubeflow/trainer v1.9.3, pytorch_defaults.go and controller.v1/common/job.go; of MPIJobs: kubeflow/mpi-operator
v0.8.0, v2beta1/default.go and mpi_job_controller.go; read 2026-11-30.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Where an object limits the time until it has finished, in addition to a deadline in its pods.

    `spec` is the path of the object with `activeDeadlineSeconds`. In this path, `*` stands for the list item with
    the pod template.
    """

    spec: str

    def seconds(self, of: str) -> str:
        """Return a CEL expression for the deadline in seconds of the object `of`, or 0 if it has none. The
        expression may use `one` for the list item with the pod template.
        """
        before, star, after = self.spec.partition(".*.")
        spec = _optional("one", after) if star else _optional(of, before)
        return f"{spec}.?activeDeadlineSeconds.orValue(0)"


@dataclass(frozen=True, slots=True)
class EndingField:
    """A field that decides whether pods end when their object has finished.

    They end if the field has one of `values`. A missing field counts as the value `default`.
    """

    path: str
    values: tuple[str | bool, ...]
    default: str | bool

    def ends(self, of: str) -> str:
        """Return a CEL condition that is true if the field ends the pods of the object `of`."""
        return f"{_optional(of, self.path)}.orValue({json.dumps(self.default)}) in {json.dumps(self.values)}"


@dataclass(frozen=True, slots=True)
class Ending:
    """The settings that end the pods of an object when the object has finished. Kueue then returns its quota.

    The pods end only if each of `fields` ends them. `after` is the path of the number of seconds that the pods
    stay after the object has finished, or None if they end at once.
    """

    fields: tuple[EndingField, ...]
    after: str | None = None

    def condition(self, of: str) -> str:
        """Return a CEL condition that is true if the pods of the object `of` end, at once or after some time."""
        return "(" + " && ".join(field.ends(of) for field in self.fields) + ")"

    def seconds(self, of: str) -> str:
        """Return a CEL expression for the number of seconds that the pods of the object `of` stay."""
        return "0" if self.after is None else f"{_optional(of, self.after)}.orValue(0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePlace:
    """A place of pod templates in an object.

    `path` is the path of the template in the object or in an item. `items` is the path of a list or mapping
    whose items each contain a template, or None if the object has only one template. `name` is the field with
    the name of an item, or None if the keys of the mapping are the names.
    """

    path: str
    items: str | None = None
    name: str | None = None

    def templates(self, of: str, deadline: str) -> str:
        """Return a CEL expression that lists the templates in the object `of`, with places and `deadline`."""
        ending = f"'deadline': dyn({deadline})"
        if self.items is None:
            found = f"[?{_optional(of, self.path)}]"
            return f"{found}.map(one, {{'at': dyn('{self.path}'), 'template': dyn(one), {ending}}})"
        items = _optional(of, self.items)
        if self.name is None:
            template, named = f"{of}.{self.items}[one].{self.path}", "one"
            items = f"{items}.orValue({{}})"
        else:
            template, named = f"one.{self.path}", f"string(one.?{self.name}.orValue(''))"
            items = f"{items}.orValue([])"
        at = f"'{self.items}[' + {named} + '].{self.path}'"
        return f"{items}.map(one, {{'at': dyn({at}), 'template': dyn({template}), {ending}}})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateKind:
    """A kind of object with pod templates.

    `ending` is None if the pods always end with the object, or if the object never finishes. `integration` is the
    integration of Kueue that starts an object of this kind with all of its pods, or None. `creates_queued` means
    that its controller creates objects that Kueue starts, with the same templates.
    """

    kind: str
    group: str
    resource: str
    places: tuple[TemplatePlace, ...]
    deadline: Deadline | None = None
    ending: Ending | None = None
    integration: str | None = None
    creates_queued: bool = False

    def deadline_seconds(self, of: str) -> str:
        """Return a CEL expression for the time in seconds after which the pods of the object `of` have ended, or 0
        if the object does not limit it. The expression may use `one` for the list item with the pod template.
        """
        if self.deadline is None:
            return "0"
        deadline = self.deadline.seconds(of)
        if self.ending is None:
            return deadline
        ended = f"{deadline} + {self.ending.seconds(of)}"
        return f"({self.ending.condition(of)} && {deadline} > 0 ? {ended} : 0)"


def _optional(of: str, path: str) -> str:
    return f"{of}.?{path.replace('.', '.?')}"


def _ray(cluster: str) -> tuple[TemplatePlace, ...]:
    return (
        TemplatePlace(path=f"{cluster}.headGroupSpec.template"),
        TemplatePlace(items=f"{cluster}.workerGroupSpecs", name="groupName", path="template"),
    )


_TRAINING_OPERATOR: Final = Ending(
    (EndingField("spec.runPolicy.cleanPodPolicy", ("Running", "All"), default="None"),)
)
_TEMPLATE: Final = (TemplatePlace(path="spec.template"),)
_JOBS: Final = "template.spec.template"
_DELETED: Final = ("DeleteCluster", "DeleteSelf")
TEMPLATE_KINDS: Final = (
    TemplateKind(kind="Deployment", group="apps", resource="deployments", places=_TEMPLATE),
    TemplateKind(kind="StatefulSet", group="apps", resource="statefulsets", places=_TEMPLATE),
    TemplateKind(kind="ReplicaSet", group="apps", resource="replicasets", places=_TEMPLATE),
    TemplateKind(
        kind="Job",
        group="batch",
        resource="jobs",
        places=_TEMPLATE,
        deadline=Deadline(spec="spec"),
        integration="batch/job",
    ),
    TemplateKind(
        kind="CronJob",
        group="batch",
        resource="cronjobs",
        places=(TemplatePlace(path="spec.jobTemplate.spec.template"),),
        deadline=Deadline(spec="spec.jobTemplate.spec"),
    ),
    TemplateKind(
        kind="JobSet",
        group="jobset.x-k8s.io",
        resource="jobsets",
        places=(TemplatePlace(items="spec.replicatedJobs", name="name", path=_JOBS),),
        deadline=Deadline(spec="spec.replicatedJobs.*.template.spec"),
        integration="jobset.x-k8s.io/jobset",
    ),
    TemplateKind(
        kind="TrainingRuntime",
        group="trainer.kubeflow.org",
        resource="trainingruntimes",
        places=(TemplatePlace(items="spec.template.spec.replicatedJobs", name="name", path=_JOBS),),
        deadline=Deadline(spec="spec.template.spec.replicatedJobs.*.template.spec"),
    ),
    TemplateKind(
        kind="LeaderWorkerSet",
        group="leaderworkerset.x-k8s.io",
        resource="leaderworkersets",
        places=(
            TemplatePlace(path="spec.leaderWorkerTemplate.leaderTemplate"),
            TemplatePlace(path="spec.leaderWorkerTemplate.workerTemplate"),
        ),
        integration="leaderworkerset.x-k8s.io/leaderworkerset",
    ),
    TemplateKind(
        kind="RayCluster",
        group="ray.io",
        resource="rayclusters",
        places=_ray("spec"),
        integration="ray.io/raycluster",
    ),
    TemplateKind(
        kind="RayJob",
        group="ray.io",
        resource="rayjobs",
        places=(*_ray("spec.rayClusterSpec"), TemplatePlace(path="spec.submitterPodTemplate")),
        deadline=Deadline(spec="spec"),
        # A RayJob deletes its cluster after its TTL, and its deletion strategy may keep the head of the cluster.
        ending=Ending(
            (
                EndingField("spec.shutdownAfterJobFinishes", (True,), default=False),
                *(
                    EndingField(f"spec.deletionStrategy.{case}.policy", _DELETED, default="DeleteCluster")
                    for case in ("onSuccess", "onFailure")
                ),
            ),
            after="spec.ttlSecondsAfterFinished",
        ),
        integration="ray.io/rayjob",
    ),
    TemplateKind(
        kind="RayService",
        group="ray.io",
        resource="rayservices",
        places=_ray("spec.rayClusterConfig"),
        # Kueue's integration of RayServices sets `suspend` in the service, but KubeRay 1.7 copies this field only
        # to a new RayCluster. Kueue therefore could not stop the pods. It starts each RayCluster instead.
        creates_queued=True,
    ),
    TemplateKind(
        kind="ScaledJob",
        group="keda.sh",
        resource="scaledjobs",
        places=(TemplatePlace(path="spec.jobTargetRef.template"),),
        deadline=Deadline(spec="spec.jobTargetRef"),
    ),
    TemplateKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        resource="pytorchjobs",
        places=(TemplatePlace(items="spec.pytorchReplicaSpecs", path="template"),),
        deadline=Deadline(spec="spec.runPolicy"),
        ending=_TRAINING_OPERATOR,
        integration="kubeflow.org/pytorchjob",
    ),
    TemplateKind(
        kind="MPIJob",
        group="kubeflow.org",
        resource="mpijobs",
        places=(TemplatePlace(items="spec.mpiReplicaSpecs", path="template"),),
        deadline=Deadline(spec="spec.runPolicy"),
        ending=_TRAINING_OPERATOR,
        integration="kubeflow.org/mpijob",
    ),
)
"""Every kind that members may create and that starts pods from a template."""
TRAIN_JOBS: Final = ("trainer.kubeflow.org", "trainjobs")
"""API group and resource of TrainJobs. The pods of a TrainJob use the template of its runtime, with patches."""
STARTED_KINDS: Final = tuple(kind for kind in TEMPLATE_KINDS if kind.integration is not None)
"""Kinds whose objects Kueue starts with all of their pods. Kueue queues the pods of other kinds one by one. A
TrainJob has no template.
"""
QUEUED_KINDS: Final = tuple(kind for kind in TEMPLATE_KINDS if kind.integration is not None or kind.creates_queued)
"""Kinds whose pod templates Kueue reads."""


def templates_of(of: str, kinds: Sequence[TemplateKind] = TEMPLATE_KINDS) -> str:
    """Return a CEL expression that lists the templates in the object `of`. Each item is a map with the keys `at`
    (a path), `template` and `deadline`.
    """
    by_kind = ""
    for kind in kinds:
        templates = " + ".join(place.templates(of, kind.deadline_seconds(of)) for place in kind.places)
        by_kind += f"{of}.kind == '{kind.kind}' ? {templates} : "
    return f"({by_kind}[])"


def ends_of(of: str, kinds: Sequence[TemplateKind] = QUEUED_KINDS) -> str:
    """Return a CEL condition that is true if the pods of the object `of` end when the object has finished."""
    conditions = [f"{of}.kind == '{kind.kind}' ? {kind.ending.condition(of)}" for kind in kinds if kind.ending]
    return f"({' : '.join([*conditions, 'true'])})"


def stays_of(of: str, kinds: Sequence[TemplateKind] = QUEUED_KINDS) -> str:
    """Return a CEL expression for the number of seconds that pods stay after the object `of` has finished."""
    seconds = [f"{of}.kind == '{kind.kind}' ? {kind.ending.seconds(of)}" for kind in kinds if kind.ending]
    return f"({' : '.join([*seconds, '0'])})"


def patches_of(kinds: Sequence[TemplateKind], patches: Callable[[str, str], str]) -> tuple[str, ...]:
    """Return a CEL expression for each place of a template. Each expression returns a list of JSON patches.

    `patches` is a function that returns a list of patches in CEL for one template. Its arguments are the CEL
    expressions for the template and for the template's JSON pointer. The second expression ends inside a string
    literal, so that `patches` can append the rest of the pointer and the closing quote.
    """
    return tuple(_patch(kind, place, patches) for kind in kinds for place in kind.places)


def _patch(kind: TemplateKind, place: TemplatePlace, patches: Callable[[str, str], str]) -> str:
    of_kind = f"object.kind == '{kind.kind}'"
    path = place.path.replace(".", "/")
    if place.items is None:
        there = f"{_optional('object', place.path)}.hasValue()"
        found = patches(f"object.{place.path}", f"'/{path}")
        return f"{of_kind} && {there} ? ({found}) : []"
    items, pointer = f"{_optional('object', place.items)}.orValue([])", place.items.replace(".", "/")
    each = patches(f"one.{place.path}", f"'/{pointer}/' + string(i) + '/{path}")
    return f"{of_kind} ? {items}.transformList(i, one, {each}).flatten() : []"
