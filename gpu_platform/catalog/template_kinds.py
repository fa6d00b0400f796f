"""Places of pod templates in the objects that members create, and the deadlines of their pods.

The API server's policies use them as CEL, and the policy pack as data.

Kinds and fields: Kubernetes 1.36 API, and the CustomResourceDefinitions of JobSet v1alpha2, Trainer v1alpha1 and
v1, KubeRay v1, LeaderWorkerSet v1 and KEDA v1alpha1; read 2026-11-25. A kind that is not installed matches no
objects. Integrations: kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs; ray-project/kuberay v1.7.0,
rayservice_controller.go (rayClusterSpecForHashing, modifyRayCluster), and ray-project/kuberay#4841; read
2026-11-30. Deadlines of RayJobs: rayjob_controller.go of the same release; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Where an object limits the time of its pods, in addition to a deadline in the pods.

    `spec` is the path of the object with `activeDeadlineSeconds`. In this path, `*` stands for the list item with
    the pod template. `ends_if` is a field next to it that must be true, or else the pods stay after the deadline.
    `then` is a field next to it with the number of seconds that the pods stay after the deadline.
    """

    spec: str
    ends_if: str | None = None
    then: str | None = None

    def seconds(self, of: str) -> str:
        """Return a CEL expression for the time in seconds after which the pods of the object `of` have ended, or 0
        if the object does not limit it. The expression may use `one` for the list item with the pod template.
        """
        before, star, after = self.spec.partition(".*.")
        spec = _optional("one", after) if star else _optional(of, before)
        deadline = f"{spec}.?activeDeadlineSeconds.orValue(0)"
        ends = f"{spec}.?{self.ends_if}.orValue(false) && " if self.ends_if is not None else ""
        stays = f" + {spec}.?{self.then}.orValue(0)" if self.then is not None else ""
        return f"({ends}{deadline} > 0 ? {deadline}{stays} : 0)" if ends or stays else deadline


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

    def templates(self, of: str, deadline: Deadline | None) -> str:
        """Return a CEL expression that lists the templates in the object `of`, with places and `deadline`."""
        ending = f"'deadline': dyn({'0' if deadline is None else deadline.seconds(of)})"
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

    `integration` is the integration of Kueue that starts an object of this kind with all of its pods, or None.
    `creates_queued` means that its controller creates objects that Kueue starts, with the same templates.
    """

    kind: str
    group: str
    resource: str
    places: tuple[TemplatePlace, ...]
    deadline: Deadline | None = None
    integration: str | None = None
    creates_queued: bool = False


def _optional(of: str, path: str) -> str:
    return f"{of}.?{path.replace('.', '.?')}"


def _ray(cluster: str) -> tuple[TemplatePlace, ...]:
    return (
        TemplatePlace(path=f"{cluster}.headGroupSpec.template"),
        TemplatePlace(items=f"{cluster}.workerGroupSpecs", name="groupName", path="template"),
    )


_TEMPLATE: Final = (TemplatePlace(path="spec.template"),)
_JOBS: Final = "template.spec.template"
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
        # A RayJob deletes its cluster at its deadline only if it is configured to delete it when the job ends, and
        # only after its TTL. Kueue has returned the quota of these nodes by then (kubernetes-sigs/kueue#3994).
        deadline=Deadline(spec="spec", ends_if="shutdownAfterJobFinishes", then="ttlSecondsAfterFinished"),
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
        integration="kubeflow.org/pytorchjob",
    ),
    TemplateKind(
        kind="MPIJob",
        group="kubeflow.org",
        resource="mpijobs",
        places=(TemplatePlace(items="spec.mpiReplicaSpecs", path="template"),),
        deadline=Deadline(spec="spec.runPolicy"),
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
        templates = " + ".join(place.templates(of, kind.deadline) for place in kind.places)
        by_kind += f"{of}.kind == '{kind.kind}' ? {templates} : "
    return f"({by_kind}[])"


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
