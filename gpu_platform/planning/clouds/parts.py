"""Decide whether a controller may be installed on a cluster, from what the cluster has already."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpu_platform.base.errors import Problem
from gpu_platform.stack.gpu_parts import Part

HelmRelease = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """A controller that the pools need. `install` False: the owner of the cluster has installed it.

    `name`: its field in `cluster.parts`; `field`: its place in the file, unless it is there; `kind`: of the object
    that runs it, in apps/v1, without a controller; `label`: the value of app.kubernetes.io/name in its chart;
    `image`: part of the name of its image; `alone`: why two are wrong; `least`: the oldest release that knows what
    is rendered for it, and why.
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
    objects: tuple[tuple[str, str], ...] = ()
    """API versions and kinds of the custom resources that configure it."""
    may_keep_off: bool = False
    """Whether one that selects its nodes by labels of the owner is no second one."""

    def to_json(self) -> dict[str, Any]:
        """Return who installs it; how it is recognised is the program's own concern."""
        return {"name": self.name, "title": self.title, "install": self.install}

    def too_old(self, version: str) -> str:
        """Return why a version of the owner is too old; an empty text where it is not, or is no version."""
        if self.least is None:
            return ""
        (least, why), found = self.least, _numbers(version)
        return f"{self.title} {least} or newer: {why}" if found and found < _numbers(least) else ""

    def declared(self, part: Part) -> PartPlan:
        """Return the part as the stack file has it."""
        return replace(self, install=part == "install")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: (1, 14, 1) of v1.14.1; empty where it begins with none."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPart:
    """A controller that a cluster has. `release`: the Helm release that it belongs to, if any."""

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
    """Return which controllers cannot be installed, or are missing; `own`: Helm releases of the stack."""
    return tuple(problem for part in parts for problem in _problems(part, found, own))


def _problems(part: PartPlan, found: Collection[InstalledPart], own: Collection[HelmRelease]) -> Iterator[Problem]:
    here = [one for one in found if one.part == part.name]
    foreign = [one for one in here if one.release is None or one.release not in own]
    field = part.field or f"cluster.parts.{part.name}"
    if part.install and foreign:
        yield Problem(
            field,
            f"install, and the cluster has {', '.join(map(str, foreign))}, which this stack did not install",
            f"one {part.title}: {part.alone}",
            f"write {field}: present to use it as it is, or uninstall it first; nothing was changed",
        )
    if not part.install and not foreign:
        yield Problem(
            field,
            f"present, and the cluster has no {part.title}" + (" but that of this stack" if here else ""),
            f"{part.title} of the cluster's owner",
            "let the owner install it, or write install; nothing was changed",
        )
    for one in foreign if not part.install else ():
        if too_old := part.too_old(one.version):
            yield Problem(
                field,
                f"present, and the cluster has {one}",
                too_old,
                "let the owner upgrade it, with its CRDs and its IAM policy; nothing was changed",
            )
