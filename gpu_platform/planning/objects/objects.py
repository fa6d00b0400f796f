"""Check and plan `objects` and `images` in the stack file."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_platform.base import names
from gpu_platform.base.errors import Problem, did_you_mean
from gpu_platform.catalog import Catalog
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.objects.images import registries
from gpu_platform.planning.objects.section import ObjectsPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.objects import Objects

# Kubernetes allows 256 KiB for all annotations of an object, and the program adds some of them.
_ANNOTATIONS_BYTES = 64 * 1024


def check(environment: Environment, catalog: Catalog) -> list[Problem]:
    """Return problems with `objects` and `images`.

    `catalog` must have the images in their original registries.
    """
    problems = Problems()
    _check_objects(environment.objects, problems.at("objects"))
    known = registries(catalog)
    for registry in environment.images.registries:
        if registry not in known:
            allowed = "a registry of the program's images: " + ", ".join(known)
            place = problems.at("images.registries").at(registry)
            place.add(f"{registry!r}", allowed, did_you_mean(registry, known) or "remove it")
    return problems.found


def _check_objects(objects: Objects, problems: Problems) -> None:
    """Record a problem for labels and annotations that only the program, Kubernetes or its controllers may set."""
    domains = (*names.RESERVED_DOMAINS, "pulumi.com")
    for field, keys in (("labels", objects.labels), ("annotations", objects.annotations)):
        for key in keys:
            domain, slash, _ = key.partition("/")
            if slash and domain.endswith(domains):
                problems.at(field).at(key).add(
                    f"{key!r}", "a key outside the domains " + ", ".join(domains), "use your own domain"
                )
    size = sum(len(key.encode()) + len(value.encode()) for key, value in objects.annotations.items())
    if size > _ANNOTATIONS_BYTES:
        problems.at("annotations").add(f"{size} bytes", f"at most {_ANNOTATIONS_BYTES} bytes", "shorten them")


def plan(context: CompleteContext, team_namespaces: Iterable[str]) -> Decided[ObjectsPlan]:
    """Return the settings that all objects of a valid environment share."""
    objects, images = context.environment.objects, context.environment.images
    section = ObjectsPlan(
        labels=objects.labels,
        annotations=objects.annotations,
        pull_secrets=images.pull_secrets,
        team_namespaces=tuple(team_namespaces),
    )
    found: list[Decision] = []
    if images.mirror is not None:
        why = "images.mirror contains each image of the program's pods, under the name of its original registry"
        found.append(Decision(subject="images", what="registry", chosen=images.mirror, why=why))
    for registry, path in images.registries.items():
        why = f"images.registries replaces {registry}; the repositories stay the same"
        found.append(Decision(subject="images", what=f"registry instead of {registry}", chosen=path, why=why))
    if images.pull_secrets:
        why = "each must exist in the namespaces that `gpu-platform images` lists"
        chosen = ", ".join(images.pull_secrets)
        found.append(Decision(subject="images", what="pull secrets", chosen=chosen, why=why))
    for what, keys in (("labels", objects.labels), ("annotations", objects.annotations)):
        if keys:
            why = f"objects.{what} apply to every Kubernetes object of the program and to its pods"
            found.append(Decision(subject="objects", what=what, chosen=", ".join(keys), why=why))
    return Decided(section, tuple(found))


def plan_one(environment: Environment) -> ObjectsPlan:
    """Return the shared settings for the objects of a team's separate stack. The team's environment declares
    them.
    """
    return ObjectsPlan(labels=environment.objects.labels, annotations=environment.objects.annotations)
