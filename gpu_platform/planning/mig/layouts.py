"""Finds all layouts that fit on one GPU: placements of instances, and their multisets of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from gpu_platform.catalog.models import Mig, MigProfile
from gpu_platform.planning.mig.geometry import GpuInstance, place

Multiset = tuple[tuple[str, int], ...]
"""Profiles with their counts in the order of the catalogue. Unlike a dict, it is hashable."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """An instance that does not fit on the GPU. `by_start` maps each start position of its profile to the
    instances that block this position.
    """

    profile: str
    by_start: tuple[tuple[int, tuple[GpuInstance, ...]], ...]
    why: str
    """Reason why the instance does not fit, such as too few compute slices or decoders. Empty if the memory slices
    are the only reason.
    """


def maximal_placements(
    mig: Mig, *, profiles: tuple[str, ...] | None = None
) -> tuple[tuple[GpuInstance, ...], ...]:
    """Return every set of placed instances to which no instance can be added. Each set is ordered by start
    position.

    Only `profiles` are placed. The default is all profiles without media engines, because media engines do not
    change the geometry.
    """
    allowed = tuple(
        profile
        for profile in mig.profiles
        if (profile.name in profiles if profiles is not None else not profile.media_engines)
    )
    return tuple(placed for placed in _placements(mig, allowed) if not _can_grow(mig, allowed, placed))


def maximal_multisets(mig: Mig, *, profiles: tuple[str, ...] | None = None) -> tuple[Multiset, ...]:
    """Return every distinct multiset of profiles among the maximal placements.

    A multiset may be contained in another one, because poorly placed instances can block further instances.
    """
    order = {profile.name: index for index, profile in enumerate(mig.profiles)}

    def by_size(layout: tuple[tuple[str, int], ...]) -> list[tuple[int, int]]:
        return [(order[name], -count) for name, count in layout]

    found = {
        tuple(sorted(_count(placed).items(), key=lambda item: order[item[0]]))
        for placed in maximal_placements(mig, profiles=profiles)
    }
    return tuple(sorted(found, key=by_size))


def _placements(mig: Mig, allowed: tuple[MigProfile, ...]) -> Iterator[tuple[GpuInstance, ...]]:
    """Yield every legal set of placed instances once. From the first slice to the last, each slice stays free or
    starts an instance.
    """

    def extend(
        at: int, placed: tuple[GpuInstance, ...], compute: int, media: int, decoders: int
    ) -> Iterator[tuple[GpuInstance, ...]]:
        if at >= mig.memory_slices:
            yield placed
            return
        yield from extend(at + 1, placed, compute, media, decoders)
        for profile in allowed:
            if (
                at in profile.starts
                and at + profile.memory_slices <= mig.memory_slices
                and compute + profile.compute_slices <= mig.compute_slices
                and media + profile.media_engines <= 1
                and (mig.decoders is None or decoders + profile.decoders <= mig.decoders)
            ):
                instance = GpuInstance(profile.name, at, profile.memory_slices)
                yield from extend(
                    at + profile.memory_slices,
                    (*placed, instance),
                    compute + profile.compute_slices,
                    media + profile.media_engines,
                    decoders + profile.decoders,
                )

    for placed in extend(0, (), 0, 0, 0):
        counts = _count(placed)
        if all(counts.get(profile.name, 0) <= profile.max_instances for profile in allowed):
            yield placed


def _can_grow(mig: Mig, allowed: tuple[MigProfile, ...], placed: tuple[GpuInstance, ...]) -> bool:
    return any(
        not blocked.why and any(not held for _, held in blocked.by_start)
        for blocked in (_blocked(mig, profile, placed) for profile in allowed)
    )


def _blocked(mig: Mig, profile: MigProfile, placed: tuple[GpuInstance, ...]) -> Blocked:
    by_name = {each.name: each for each in mig.profiles}
    compute = sum(by_name[instance.profile].compute_slices for instance in placed)
    why = ""
    if _count(placed).get(profile.name, 0) >= profile.max_instances:
        why = f"at most {profile.max_instances} of {profile.name} on one GPU"
    elif compute + profile.compute_slices > mig.compute_slices:
        why = f"{compute} of {mig.compute_slices} compute slices are taken, "
        why += f"and the instance needs {profile.compute_slices}"
    elif profile.media_engines and any(by_name[instance.profile].media_engines for instance in placed):
        why = "the media engines are already in use"
    elif mig.decoders is not None:
        taken = sum(by_name[instance.profile].decoders for instance in placed)
        if taken + profile.decoders > mig.decoders:
            why = f"{taken} of {mig.decoders} decoders are taken, and the instance needs {profile.decoders}"
    return Blocked(
        profile.name,
        tuple(
            (
                start,
                tuple(one for one in placed if set(one.slices) & set(range(start, start + profile.memory_slices))),
            )
            for start in profile.starts
        ),
        why,
    )


def blocked_by(mig: Mig, layout: Mapping[str, int]) -> tuple[tuple[GpuInstance, ...], Blocked] | None:
    """Return the instances of an illegal layout that can be placed, and the first instance that does not fit, with
    the reason.

    Return None for a legal layout. Large profiles are placed first.
    """
    by_name = {profile.name: profile for profile in mig.profiles}
    fitting: dict[str, int] = {}
    order = sorted(layout, key=lambda name: (-by_name[name].memory_slices, -by_name[name].compute_slices, name))
    for name in order:
        for _ in range(layout[name]):
            larger = {**fitting, name: fitting.get(name, 0) + 1}
            if place(mig, larger) is None:
                placed = place(mig, fitting) or ()
                return placed, _blocked(mig, by_name[name], placed)
            fitting = larger
    return None


def _count(placed: tuple[GpuInstance, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for instance in placed:
        counts[instance.profile] = counts.get(instance.profile, 0) + 1
    return counts


def largest_multisets(mig: Mig) -> tuple[Multiset, ...]:
    """Return the maximal multisets of all profiles, including media engines. The search runs once per geometry."""
    return _largest_multisets(mig)


@cache
def _largest_multisets(mig: Mig) -> tuple[Multiset, ...]:
    return maximal_multisets(mig, profiles=tuple(profile.name for profile in mig.profiles))
