"""MIG tables of the simulated driver: the profiles of each GPU, and the sets of GPU instances that fit on it.

The data is in `mig_tables.yaml`, in the output format of `nvidia-smi mig -lgip` and `-lgipp`. The tables do not
use gpu_platform.planning or the MIG facts of the catalogue, because the sandbox checks both.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

ENGINES: Final = ("decoders", "encoders", "jpeg-engines", "ofa-engines")
"""Media engines in the order of nvidia-smi's columns. The DRA driver's counters have the same names."""

_MEMORY_STEP_MIB: Final = 32  # nvidia-smi rounds GiB to two decimals; every captured size is a multiple of 32 MiB
_ROW: Final = re.compile(
    r"(?P<name>(?P<slices>\d+)g\.\S+)\s+(?P<id>\d+|-)\s+(?P<instances>\d+)\s+(?P<gib>\d+\.\d\d|-)"
    r"\s+(?P<engines>\d+ \d+ \d+ \d+)\s+\{(?P<starts>[\d,]+)\}:(?P<size>\d+)"
)


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    """One GPU instance profile in nvidia-smi's terms.

    `instances` is the maximum number of instances on one GPU. `memory_mib` is None if no captured output contains
    the memory. `starts` and `size` are in placement units. `engines` is in the order of `ENGINES`.
    """

    name: str
    number: int
    instances: int
    compute_slices: int
    memory_mib: int | None
    engines: tuple[int, ...]
    starts: tuple[int, ...]
    size: int

    def units(self, start: int) -> range:
        """Return the placement units of an instance that starts at the unit `start`."""
        return range(start, start + self.size)


@dataclass(frozen=True, slots=True)
class Placement:
    """One GPU instance and the placement unit where it starts."""

    profile: InstanceProfile
    start: int


@dataclass(frozen=True)
class MigTable:
    """The profiles of one GPU model. The profile with the most compute slices is the whole GPU."""

    product: str
    device_id: int | None
    """PCI device ID and vendor ID in one number, or None if unknown."""
    profiles: tuple[InstanceProfile, ...]
    source: str

    @cached_property
    def whole(self) -> InstanceProfile:
        """Profile that uses the whole GPU."""
        return max(self.profiles, key=lambda profile: (profile.compute_slices, profile.size))

    def profile(self, name: str) -> InstanceProfile | None:
        """Return the profile with exactly this name, or None."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def memory_mib(self, profile: InstanceProfile, gpu_memory_mib: int) -> int:
        """Return an instance's memory. If no captured output contains it, return the instance's share of the GPU's
        memory.
        """
        if profile.memory_mib is not None:
            return profile.memory_mib
        return gpu_memory_mib * profile.size // self.whole.size

    def place(self, layout: Mapping[str, int]) -> tuple[Placement, ...] | None:
        """Return a placement of all instances in `layout`, ordered by start, or None if there is none.

        `layout` maps profiles to counts. The search tries every start of every instance, so None proves that there
        is no placement. mig-parted tries every order of creation, with the same result (pkg/mig/config,
        SetMigConfig).
        """
        return (
            None if self.refusal(layout) else tuple(sorted(self._search(layout) or (), key=lambda one: one.start))
        )

    def refusal(self, layout: Mapping[str, int]) -> str:
        """Return why the driver cannot create the GPU instances of `layout` together, or an empty string if it
        can.
        """
        for name, count in layout.items():
            profile = self.profile(name)
            if profile is None:
                known = ", ".join(each.name for each in self.profiles)
                return f"no profile {name!r} on {self.product} (it has {known})"
            if count > profile.instances:
                return f"Insufficient Resources: {name} x{count}, at most {profile.instances} on {self.product}"
        wanted = self._instances(layout)
        taken = sum(profile.compute_slices for profile in wanted)
        if taken > self.whole.compute_slices:
            has = self.whole.compute_slices
            return f"Insufficient Resources: needs {taken} compute slices, but the GPU has {has}"
        for engine, name in enumerate(ENGINES):
            used = sum(profile.engines[engine] for profile in wanted)
            if used > self.whole.engines[engine]:
                return f"Insufficient Resources: needs {used} {name}, but the GPU has {self.whole.engines[engine]}"
        if self._search(layout) is None:
            starts = "; ".join(
                f"{profile.name} at {{{','.join(map(str, profile.starts))}}}:{profile.size}"
                for profile in dict.fromkeys(wanted)
            )
            return f"Insufficient Resources: no placement on {self.product} for {_text(layout)} ({starts})"
        return ""

    def _instances(self, layout: Mapping[str, int]) -> list[InstanceProfile]:
        return [each for each in self.profiles for _ in range(layout.get(each.name, 0))]

    def _search(self, layout: Mapping[str, int]) -> list[Placement] | None:
        """Search depth-first for a placement. Instances with the fewest possible starts come first. Return None if
        there is no placement.
        """
        waiting = sorted(self._instances(layout), key=lambda profile: (len(profile.starts), -profile.size))

        def settle(index: int, free: frozenset[int]) -> list[Placement] | None:
            if index == len(waiting):
                return []
            profile = waiting[index]
            for start in profile.starts:
                if free.issuperset(profile.units(start)):
                    rest = settle(index + 1, free.difference(profile.units(start)))
                    if rest is not None:
                        return [Placement(profile, start), *rest]
            return None

        return settle(0, frozenset(range(self.whole.size)))


def mig_table(product: str) -> MigTable | None:
    """Return the MIG table of a GPU by its NVML product name, or None for a GPU without MIG."""
    return mig_tables().get(product)


@cache
def mig_tables() -> Mapping[str, MigTable]:
    """Return every MIG table by NVML product name."""
    text = (resources.files("sandbox.nvml") / "mig_tables.yaml").read_text("utf-8")
    file = TypeAdapter(_File).validate_python(yaml.load(text, Loader=yaml.CSafeLoader))
    return {
        product: MigTable(
            product, int(device, 16) if device else None, read_profiles(each.profiles), str(each.source)
        )
        for each in file.tables
        for product, device in each.gpus.items()
    }


def read_profiles(text: str) -> tuple[InstanceProfile, ...]:
    """Parse the rows of one table. Raises ValueError for a row that does not match the format in the file's
    header.
    """
    return tuple(_read_row(index, line) for index, line in enumerate(text.splitlines()))


def _read_row(index: int, line: str) -> InstanceProfile:
    row = _ROW.fullmatch(line.strip())
    if row is None:
        raise ValueError(f"not a row of a MIG table: {line!r}")
    return InstanceProfile(
        name=row["name"],
        number=index if row["id"] == "-" else int(row["id"]),
        instances=int(row["instances"]),
        compute_slices=int(row["slices"]),
        memory_mib=None if row["gib"] == "-" else _mib(float(row["gib"])),
        engines=tuple(int(count) for count in row["engines"].split()),
        starts=tuple(int(start) for start in row["starts"].split(",")),
        size=int(row["size"]),
    )


def _mib(gib: float) -> int:
    return _MEMORY_STEP_MIB * round(gib * 1024 / _MEMORY_STEP_MIB)


def _text(layout: Mapping[str, int]) -> str:
    return " + ".join(f"{name} x{count}" for name, count in layout.items() if count)


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Source(_Strict):
    title: str
    url: str
    date: datetime.date

    def __str__(self) -> str:
        return f"{self.title}, {self.date.isoformat()}"


class _Table(_Strict):
    gpus: dict[str, str | None]
    source: _Source
    profiles: str


class _File(_Strict):
    tables: Sequence[_Table]
