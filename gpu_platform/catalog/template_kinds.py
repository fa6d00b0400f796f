"""Where the objects that members create have their pod templates, as CEL of the API server's policies.

Kinds and fields: Kubernetes 1.36 API, and the CustomResourceDefinitions of JobSet v1alpha2, Trainer v1alpha1 and
v1, KubeRay v1, LeaderWorkerSet v1 and KEDA v1alpha1; read 2026-11-25. A kind that is not installed matches
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePlace:
    """One place of pod templates in an object.

    `path`: to the template, or from an item to it. `items`: path to a list or mapping of items with a template
    each, None: there is one template. `name`: the field that names an item, None: the key of the mapping does.
    `deadline`: seconds after which the object ends its pods, 0 without, as CEL of `{of}`, the object, and `one`,
    the item.
    """

    path: str
    items: str | None = None
    name: str | None = None
    deadline: str = "0"

    def templates(self, of: str) -> str:
        """Return the list of place, template and deadline in the object `of`."""
        deadline = f"'deadline': dyn({self.deadline.format(of=of)})"
        if self.items is None:
            found = f"[?{_optional(of, self.path)}]"
            return f"{found}.map(one, {{'at': dyn('{self.path}'), 'template': dyn(one), {deadline}}})"
        items = _optional(of, self.items)
        if self.name is None:
            template, named = f"{of}.{self.items}[one].{self.path}", "one"
            items = f"{items}.orValue({{}})"
        else:
            template, named = f"one.{self.path}", f"string(one.?{self.name}.orValue(''))"
            items = f"{items}.orValue([])"
        at = f"'{self.items}[' + {named} + '].{self.path}'"
        return f"{items}.map(one, {{'at': dyn({at}), 'template': dyn({template}), {deadline}}})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateKind:
    """A kind of object with pod templates. `queued`: Kueue reads its templates."""

    kind: str
    group: str
    resource: str
    places: tuple[TemplatePlace, ...]
    queued: bool = False


def _optional(of: str, path: str) -> str:
    return f"{of}.?{path.replace('.', '.?')}"


def _ray(cluster: str, deadline: str = "0") -> tuple[TemplatePlace, ...]:
    return (
        TemplatePlace(path=f"{cluster}.headGroupSpec.template", deadline=deadline),
        TemplatePlace(items=f"{cluster}.workerGroupSpecs", name="groupName", path="template", deadline=deadline),
    )


def _deadline(job: str) -> str:
    """Return the deadline of a Job's spec, `{of}` and a path or `one` and a path, as CEL."""
    return f"{job.replace('.', '.?')}.?activeDeadlineSeconds.orValue(0)"


_TEMPLATE: Final = (TemplatePlace(path="spec.template"),)
_JOBS: Final = "template.spec.template"
_OF_JOBS: Final = _deadline("one.template.spec")
_OF_RUN: Final = _deadline("{of}.spec.runPolicy")
# After its deadline a RayJob deletes the cluster if it does so at its end.
_OF_RAY_JOB: Final = f"({{of}}.?spec.?shutdownAfterJobFinishes.orValue(false) ? {_deadline('{of}.spec')} : 0)"
TEMPLATE_KINDS: Final = (
    TemplateKind(kind="Deployment", group="apps", resource="deployments", places=_TEMPLATE),
    TemplateKind(kind="StatefulSet", group="apps", resource="statefulsets", places=_TEMPLATE),
    TemplateKind(kind="ReplicaSet", group="apps", resource="replicasets", places=_TEMPLATE),
    TemplateKind(
        kind="Job",
        group="batch",
        resource="jobs",
        places=(TemplatePlace(path="spec.template", deadline=_deadline("{of}.spec")),),
        queued=True,
    ),
    TemplateKind(
        kind="CronJob",
        group="batch",
        resource="cronjobs",
        places=(
            TemplatePlace(path="spec.jobTemplate.spec.template", deadline=_deadline("{of}.spec.jobTemplate.spec")),
        ),
    ),
    TemplateKind(
        kind="JobSet",
        group="jobset.x-k8s.io",
        resource="jobsets",
        places=(TemplatePlace(items="spec.replicatedJobs", name="name", path=_JOBS, deadline=_OF_JOBS),),
        queued=True,
    ),
    TemplateKind(
        kind="TrainingRuntime",
        group="trainer.kubeflow.org",
        resource="trainingruntimes",
        places=(
            TemplatePlace(items="spec.template.spec.replicatedJobs", name="name", path=_JOBS, deadline=_OF_JOBS),
        ),
    ),
    TemplateKind(
        kind="LeaderWorkerSet",
        group="leaderworkerset.x-k8s.io",
        resource="leaderworkersets",
        places=(
            TemplatePlace(path="spec.leaderWorkerTemplate.leaderTemplate"),
            TemplatePlace(path="spec.leaderWorkerTemplate.workerTemplate"),
        ),
        queued=True,
    ),
    TemplateKind(kind="RayCluster", group="ray.io", resource="rayclusters", places=_ray("spec"), queued=True),
    TemplateKind(
        kind="RayJob",
        group="ray.io",
        resource="rayjobs",
        places=(
            *_ray("spec.rayClusterSpec", _OF_RAY_JOB),
            TemplatePlace(path="spec.submitterPodTemplate", deadline=_OF_RAY_JOB),
        ),
        queued=True,
    ),
    TemplateKind(
        kind="RayService",
        group="ray.io",
        resource="rayservices",
        places=_ray("spec.rayClusterConfig"),
        queued=True,
    ),
    TemplateKind(
        kind="ScaledJob",
        group="keda.sh",
        resource="scaledjobs",
        places=(TemplatePlace(path="spec.jobTargetRef.template", deadline=_deadline("{of}.spec.jobTargetRef")),),
    ),
    TemplateKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        resource="pytorchjobs",
        places=(TemplatePlace(items="spec.pytorchReplicaSpecs", path="template", deadline=_OF_RUN),),
    ),
    TemplateKind(
        kind="MPIJob",
        group="kubeflow.org",
        resource="mpijobs",
        places=(TemplatePlace(items="spec.mpiReplicaSpecs", path="template", deadline=_OF_RUN),),
    ),
)
"""Every kind that members may create, and that starts pods by a template."""
TRAIN_JOBS: Final = ("trainer.kubeflow.org", "trainjobs")
"""API group and resource of TrainJobs, whose pods are those of a runtime with patches."""
QUEUED_KINDS: Final = tuple(kind for kind in TEMPLATE_KINDS if kind.queued)
"""Those whose templates Kueue reads. Pods of the others wait one by one; a TrainJob has no template of its own."""


def templates_of(of: str, kinds: Sequence[TemplateKind] = TEMPLATE_KINDS) -> str:
    """Return the templates in the object `of`, as CEL: mappings with `at`, a path, `template` and `deadline`."""
    found = "".join(
        f"{of}.kind == '{kind.kind}' ? {' + '.join(place.templates(of) for place in kind.places)} : "
        for kind in kinds
    )
    return f"({found}[])"


def patches_of(kinds: Sequence[TemplateKind], patches: Callable[[str, str], str]) -> tuple[str, ...]:
    """Return for each place a list of JSON patches, as CEL.

    `patches`: from a template and the CEL text of its JSON pointer, whose last quote is open, a list of patches.
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
