"""Refuse pools that declare the same reservation with different machine types, zones or times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from gpu_platform.planning.clouds.windows import utc_text
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Block, CapacityBlock, Pool, Reservation

_WORDS: Final = {"machine_type": "with", "zone": "in", "starts": "from", "ends": "until"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A reservation as a pool declares it.

    `path` is the place in the stack file that names it. `project` is the project of its owner, or None for the
    cluster's project.
    """

    path: str
    project: str | None
    name: str
    machine_type: str
    zone: str | None
    starts: datetime | None
    ends: datetime | None

    def differs(self, other: _Declared) -> tuple[str, str] | None:
        """Return the differing fields of each reservation as text, or None if the reservations do not differ.
        Undeclared fields never differ.
        """
        found = [
            (f"{word} {_text(mine)}", f"{word} {_text(theirs)}")
            for field, word in _WORDS.items()
            if (mine := getattr(self, field)) is not None
            and (theirs := getattr(other, field)) is not None
            and mine != theirs
        ]
        return (" ".join(mine for mine, _ in found), " ".join(theirs for _, theirs in found)) if found else None


def check_reservations(
    pools: Sequence[tuple[int, Pool]], problems: Problems, identity: Sequence[Literal["zone", "machine_type"]]
) -> None:
    """Record a problem for each reservation that two pools declare differently, because one of the pools would
    never get a node.

    `identity` are the fields that identify a reservation together with its name and project.
    """
    first: dict[tuple[str | None, ...], _Declared] = {}
    for index, pool in pools:
        for one in _declared(f"pools[{index}]", pool):
            other = first.setdefault((one.project, one.name, *(getattr(one, field) for field in identity)), one)
            differing = one.differs(other)
            if differing is not None and not other.path.startswith(f"pools[{index}]."):
                mine, theirs = differing
                Problems(one.path, problems.found).add(
                    f"{one.name!r} {mine}",
                    f"{theirs}, as {other.path.partition('.')[0]} declares it; "
                    "a reservation has one machine type, zone and time",
                    "correct the reservation, or the fields that differ",
                )


def _declared(path: str, pool: Pool) -> Iterator[_Declared]:
    capacity = pool.capacity
    if isinstance(capacity, CapacityBlock) and capacity.blocks is not None:
        for index, block in enumerate(capacity.blocks):
            yield _of(f"{path}.capacity.blocks[{index}].reservation", pool, block)
    elif isinstance(capacity, CapacityBlock | Reservation):
        yield _of(f"{path}.capacity.reservation", pool, capacity)


def _of(path: str, pool: Pool, one: Block | CapacityBlock | Reservation) -> _Declared:
    return _Declared(
        path=path,
        project=one.project if isinstance(one, Reservation) else None,
        name=one.reservation or "",
        machine_type=pool.machine_type,
        zone=one.zone,
        starts=one.starts,
        ends=one.ends,
    )


def _text(value: str | datetime) -> str:
    return value if isinstance(value, str) else str(utc_text(value))
