"""Which MIG layouts a GPU can hold, for the MIG rules: the tables of NVIDIA's guide and a check of their own.

The check is independent of gpu_platform.planning, which made the layouts, in data and in method. A GPU is a row of
memory slices, of which the first ones have a compute slice each: seven of eight on most GPUs. An instance takes a
run of memory slices that begins at a multiple of its length and holds enough compute slices. `_reachable` goes
through a layout instance by instance and keeps every possible set of taken slices, each as a bit mask.
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
    """One row of the guide: slices that an instance takes, and how many instances one GPU has.

    `engines`: media engines in the order of the guide's columns; None: not counted.
    """

    name: str
    memory_slices: int
    compute_slices: int
    engines: tuple[int | None, ...]
    instances: int


@dataclass(frozen=True, slots=True)
class LayoutError:
    """Why a GPU cannot hold a layout: what was found, what is allowed, the likely fix."""

    found: str
    allowed: str
    fix: str
    foreign: bool = False
    """The GPU model has no such profile."""


@dataclass(frozen=True, slots=True)
class GuideTable:
    """The profiles of one GPU model, and the slices and engines of the whole GPU."""

    profiles: tuple[GuideProfile, ...]
    memory_slices: int
    compute_slices: int
    engines: tuple[int | None, ...]

    def profile(self, name: str) -> GuideProfile | None:
        """Return the profile of that exact name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def places(self, profile: GuideProfile) -> tuple[int, ...]:
        """Return the sets of memory slices that an instance can take, each as a bit mask."""
        length = profile.memory_slices
        run = (1 << length) - 1
        with_compute = (1 << self.compute_slices) - 1 if self.memory_slices > self.compute_slices else -1
        return tuple(
            run << start
            for start in range(0, self.memory_slices - length + 1, length)
            if ((run << start) & with_compute).bit_count() >= profile.compute_slices
        )

    def holds(self, layout: Mapping[str, int]) -> bool:
        """Return whether one GPU can hold every instance of `layout` (profile to count) at once."""
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
        """Return every set of slices, as a bit mask, that instances of the profiles can take together."""
        taken = {0}
        for profile in wanted:
            places = self.places(profile)
            taken = {mask | place for mask in taken for place in places if not mask & place}
        return taken


def mig_tables() -> Mapping[str, GuideTable]:
    """Return the table of every GPU model with MIG, by the catalogue's name of the model."""
    return _tables()


def layout_text(layout: Mapping[str, int]) -> str:
    """Return a layout as people write it: `3g.40gb x1 + 1g.10gb x4`."""
    return " + ".join(f"{name} x{count}" for name, count in layout.items())


def layout_error(table: GuideTable, layout: Mapping[str, int], product: str) -> LayoutError | None:
    """Return why `layout` (profile to count) cannot exist on a GPU, or None where one GPU can hold it."""
    if table.holds(layout):
        return None
    known = [profile.name for profile in table.profiles]
    for name, count in layout.items():
        profile = table.profile(name)
        if profile is None:
            return LayoutError(
                found=f"profile {name!r} on {product}",
                allowed="one of " + ", ".join(known),
                fix=did_you_mean(name, known) or "choose a profile of this GPU's memory size",
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
    return f"the GPU has {table.memory_slices} memory slices; {', '.join(sizes)}, at multiples of its size"


def _nearest_fix(table: GuideTable, layout: Mapping[str, int]) -> str:
    """Return the legal layout that lacks the fewest instances of one profile, the smallest profile first."""
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
