"""Decide whether a controller may be installed on a cluster that may already run the same controller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpu_platform.base.errors import Problem
from gpu_platform.base.versions import is_older, version_numbers
from gpu_platform.catalog.models import Chart
from gpu_platform.stack.gpu_parts import Part

HelmRelease = tuple[str, str]
"""Namespace and name of a Helm release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """A controller that the pools need. If `install` is false, the owner of the cluster has installed it.

    `name` is the controller's field in `cluster.parts`. If the field is elsewhere, `field` is its path. A
    running controller is recognised by the kind of its workload in apps/v1 (`kind`), and by either its label
    app.kubernetes.io/name (`label`) or a substring of its image's name (`image`). Workloads that another
    controller owns are ignored. `alone` is the reason why a cluster can have only one such controller. `least` is
    the oldest release that supports the objects that the program creates for the controller, and the reason.
    `chart` is the chart with the controller's CRDs.
    """

    name: str
    title: str
    install: bool
    kind: str
    label: str
    image: str
    alone: str
    field: str | None = None
    least: tuple[str, str] | None = None
    chart: Chart | None = None
    objects: tuple[tuple[str, str], ...] = ()
    """API versions and kinds of the custom resources that configure the controller."""
    may_keep_off: bool = False
    """Whether the cluster's owner may run another installation of the controller, if a node selector keeps its
    pods off the pools' nodes.
    """

    @property
    def place(self) -> str:
        """Path of the stack file field that states who installs the controller."""
        return self.field or f"cluster.parts.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, which contains only the controller's name, its title and who installs it."""
        return {"name": self.name, "title": self.title, "install": self.install}

    def too_old(self, version: str) -> str:
        """Return why the version that the cluster's owner has installed is too old. Return an empty string if it
        is new enough, or if the text is not a version.
        """
        if self.least is None:
            return ""
        least, why = self.least
        is_version = len(version_numbers(version)) > 1
        return f"{self.title} {least} or newer: {why}" if is_version and is_older(version, least) else ""

    def declared(self, part: Part) -> PartPlan:
        """Return a copy with the value of `install` from the stack file."""
        return replace(self, install=part == "install")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPart:
    """A controller that a cluster already has. `release` is its Helm release, or None."""

    part: str
    kind: str
    namespace: str
    name: str
    version: str
    release: HelmRelease | None

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"{self.kind} {self.name}{version}" + (f" in namespace {self.namespace}" if self.namespace else "")


def part_problems(
    parts: Iterable[PartPlan], found: Collection[InstalledPart], own: Collection[HelmRelease]
) -> tuple[Problem, ...]:
    """Return a problem for each controller that cannot be installed or is missing.

    `own` contains the Helm releases of the stack.
    """
    return tuple(problem for part in parts for problem in _problems(part, found, own))


def _problems(part: PartPlan, found: Collection[InstalledPart], own: Collection[HelmRelease]) -> Iterator[Problem]:
    here = [one for one in found if one.part == part.name]
    foreign = [one for one in here if one.release is None or one.release not in own]
    field = part.place
    if part.install and foreign:
        yield Problem(
            field,
            f"install, but the cluster has {', '.join(map(str, foreign))}, which this stack did not install",
            f"one {part.title}: {part.alone}",
            f"write {field}: present to use the existing installation, or uninstall it first; nothing was changed",
        )
    if not part.install and not foreign:
        yield Problem(
            field,
            f"present, but the cluster has no {part.title}" + (" except the one from this stack" if here else ""),
            f"{part.title} installed by the cluster's owner",
            "ask the owner to install it, or set the field to `install`; nothing was changed",
        )
    for one in foreign if not part.install else ():
        if too_old := part.too_old(one.version):
            yield Problem(
                field,
                f"present, but the cluster has {one}",
                too_old,
                "ask the owner to upgrade it, with its CRDs and, in a cloud, its IAM policy; nothing was changed",
            )
