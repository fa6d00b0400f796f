"""The MIG layouts that a GPU supports, from the tables of NVIDIA's guide.

The check shares neither data nor method with gpu_platform.planning, which created the layouts. It models a GPU as
a row of memory slices. The first slices, seven of eight on most GPUs, have a compute slice each. An instance
occupies consecutive memory slices that start at a multiple of its length and include enough compute slices.
`_reachable` processes a layout instance by instance and keeps every possible set of occupied slices as a bit mask.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from gpu_platform.base.errors import did_you_mean

_ROW = re.compile(
    r"(?P<name>\S+)\s+(?P<memory>\d+)/(?P<memories>\d+)\s+(?P<compute>\d+)/(?P<computes>\d+)"
    r"\s+(?P<engines>[-\d]+ [-\d]+ [-\d]+ [-\d]+)\s+(?P<instances>\d+)"
)


@dataclass(frozen=True, slots=True)
class GuideProfile:
    """One row of the guide, with the slices of an instance, and the maximum number of instances on a GPU.

    `engines` are the media engines in the order of the guide's columns, or None if they are not counted.
    """

    name: str
    memory_slices: int
    compute_slices: int
    engines: tuple[int | None, ...]
    instances: int


@dataclass(frozen=True, slots=True)
class LayoutError:
    """Reason why a GPU does not support a layout, the allowed values, and the likely fix."""

    found: str
    allowed: str
    fix: str
    foreign: bool = False
    """Whether the GPU model does not have the profile."""


@dataclass(frozen=True, slots=True)
class GuideTable:
    """The profiles of one GPU model, and the slices and media engines of the whole GPU."""

    profiles: tuple[GuideProfile, ...]
    memory_slices: int
    compute_slices: int
    engines: tuple[int | None, ...]

    def profile(self, name: str) -> GuideProfile | None:
        """Return the profile with that exact name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def places(self, profile: GuideProfile) -> tuple[int, ...]:
        """Return the sets of memory slices that an instance can occupy, each as a bit mask."""
        length = profile.memory_slices
        run = (1 << length) - 1
        with_compute = (1 << self.compute_slices) - 1 if self.memory_slices > self.compute_slices else -1
        return tuple(
            run << start
            for start in range(0, self.memory_slices - length + 1, length)
            if ((run << start) & with_compute).bit_count() >= profile.compute_slices
        )

    def holds(self, layout: Mapping[str, int]) -> bool:
        """Return whether one GPU supports all instances of `layout` at the same time. `layout` is the number of
        instances by profile.
        """
        wanted: list[GuideProfile] = []
        for name, count in layout.items():
            profile = self.profile(name)
            if profile is None or count > profile.instances:
                return False
            wanted += [profile] * count
        for engine, total in enumerate(self.engines):
            if total is not None and sum(profile.engines[engine] or 0 for profile in wanted) > total:
                return False
        return bool(self._reachable(wanted))

    def _reachable(self, wanted: Sequence[GuideProfile]) -> set[int]:
        """Return every set of slices that instances of the profiles can occupy together, as bit masks."""
        taken = {0}
        for profile in wanted:
            places = self.places(profile)
            taken = {mask | place for mask in taken for place in places if not mask & place}
        return taken


def mig_tables() -> Mapping[str, GuideTable]:
    """Return the table of every GPU model with MIG, by the model's name in the catalogue."""
    return _tables()


def layout_text(layout: Mapping[str, int]) -> str:
    """Return a layout as readable text, such as `3g.40gb x1 + 1g.10gb x4`."""
    return " + ".join(f"{name} x{count}" for name, count in layout.items())


def layout_error(table: GuideTable, layout: Mapping[str, int], product: str) -> LayoutError | None:
    """Return why a GPU does not support `layout` (the number of instances by profile), or None if it does."""
    if table.holds(layout):
        return None
    known = [profile.name for profile in table.profiles]
    for name, count in layout.items():
        profile = table.profile(name)
        if profile is None:
            return LayoutError(
                found=f"profile {name!r} on {product}",
                allowed="one of " + ", ".join(known),
                fix=did_you_mean(name, known) or "choose a profile with a memory size of this GPU",
                foreign=True,
            )
        if count > profile.instances:
            return LayoutError(
                found=f"{name} x{count} on {product}",
                allowed=f"at most {profile.instances} of {name} on one GPU",
                fix=f"lower the count to {profile.instances}",
            )
    return LayoutError(
        found=f"{layout_text(layout)} on {product}",
        allowed=f"instances that fit side by side: {_sizes_text(table, layout)}",
        fix=_nearest_fix(table, layout),
    )


def _sizes_text(table: GuideTable, layout: Mapping[str, int]) -> str:
    sizes = (f"{each.name} takes {each.memory_slices}" for each in table.profiles if each.name in layout)
    every = f"the GPU has {table.memory_slices} memory slices"
    return f"{every}; {', '.join(sizes)}; each starts at a multiple of its size"


def _nearest_fix(table: GuideTable, layout: Mapping[str, int]) -> str:
    """Return the supported layout with the fewest instances removed, preferring to remove small instances."""
    order = [profile.name for profile in sorted(table.profiles, key=lambda each: each.memory_slices)]
    for name in sorted(layout, key=order.index):
        for fewer in range(layout[name] - 1, -1, -1):
            smaller = {other: count for other, count in {**layout, name: fewer}.items() if count}
            if smaller and table.holds(smaller):
                return f"{layout_text(smaller)} is legal"
    return "use fewer or smaller instances"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Source(_Strict):
    title: str
    url: str
    date: datetime.date


class _Table(_Strict):
    gpus: tuple[str, ...]
    source: _Source
    profiles: str


class _File(_Strict):
    source: _Source
    tables: tuple[_Table, ...]


@cache
def _tables() -> Mapping[str, GuideTable]:
    text = (resources.files("policies") / "mig_profiles.yaml").read_text("utf-8")
    file = TypeAdapter(_File).validate_python(yaml.load(text, Loader=yaml.CSafeLoader))
    return {gpu: _read(each.profiles) for each in file.tables for gpu in each.gpus}


def _read(text: str) -> GuideTable:
    rows = [row for line in text.splitlines() if (row := _ROW.fullmatch(line.strip())) is not None]
    if len(rows) != len(text.splitlines()):
        raise ValueError(f"not all lines are rows of a MIG table:\n{text}")
    profiles = tuple(
        GuideProfile(
            name=row["name"],
            memory_slices=int(row["memory"]),
            compute_slices=int(row["compute"]),
            engines=tuple(None if count == "-" else int(count) for count in row["engines"].split()),
            instances=int(row["instances"]),
        )
        for row in rows
    )
    memory, compute = int(rows[0]["memories"]), int(rows[0]["computes"])
    whole = next(profile for profile in profiles if profile.memory_slices == memory)
    return GuideTable(profiles, memory, compute, whole.engines)
