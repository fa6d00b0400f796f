"""Decides which multisets of MIG profiles fit on a GPU, and where each instance starts.

A layout is legal only if all its instances can be placed. It is not enough that the sum of their slices fits. An
instance takes contiguous memory slices that begin at one of its profile's start positions. So 3g+3g+1g is illegal
on an A100, because the two 3g instances take all eight memory slices, but 4g+3g is legal. Source: NVIDIA
Multi-Instance GPU User Guide, "Supported MIG Profiles" and NVML's nvmlDeviceGetGpuInstancePossiblePlacements. The
catalogue contains the start positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog.models import Gpu, Mig, MigProfile


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A placed GPU instance, which takes the memory slices `start` to `start + size - 1`."""

    profile: str
    start: int
    size: int

    @property
    def slices(self) -> range:
        """The memory slices of the instance."""
        return range(self.start, self.start + self.size)


@dataclass(frozen=True, slots=True)
class IllegalLayout:
    """The reason why a layout is illegal on a GPU model: what was found, what is allowed, and the likely fix."""

    found: str
    allowed: str
    fix: str


def place(mig: Mig, layout: Mapping[str, int]) -> tuple[GpuInstance, ...] | None:
    """Return one placement of every instance of `layout` (profile name to count), or None if no placement exists.
    The result is also None if the GPU does not have one of the profiles. The placement is ordered by start
    position.
    """
    wanted: list[MigProfile] = []
    for name, count in layout.items():
        profile = mig.profile(name)
        if profile is None or count > profile.max_instances:
            return None
        wanted.extend([profile] * count)
    if sum(profile.compute_slices for profile in wanted) > mig.compute_slices:
        return None
    if sum(profile.media_engines for profile in wanted) > 1:
        return None
    if mig.decoders is not None and sum(profile.decoders for profile in wanted) > mig.decoders:
        return None
    # Large profiles come first: they have the fewest start positions, so dead ends are found early.
    wanted.sort(key=lambda profile: (-profile.memory_slices, profile.name))
    found = next(_search(wanted, 0, frozenset()), None)
    return None if found is None else tuple(sorted(found, key=lambda instance: instance.start))


def _search(
    wanted: list[MigProfile], at: int, taken: frozenset[int], earliest: int = 0
) -> Iterator[tuple[GpuInstance, ...]]:
    if at == len(wanted):
        yield ()
        return
    profile = wanted[at]
    for start in profile.starts:
        if start < earliest:
            continue
        slices = frozenset(range(start, start + profile.memory_slices))
        if slices & taken:
            continue
        instance = GpuInstance(profile.name, start, profile.memory_slices)
        # Instances of a profile are interchangeable, so the next instance is tried only at later start positions.
        same_next = at + 1 < len(wanted) and wanted[at + 1].name == profile.name
        for rest in _search(wanted, at + 1, taken | slices, start + 1 if same_next else 0):
            yield (instance, *rest)


def layout_text(layout: Mapping[str, int]) -> str:
    """Return a layout as text, such as `3g.40gb x1 + 1g.10gb x4`."""
    return " + ".join(f"{name} x{count}" for name, count in layout.items())


def check_layout(gpu: Gpu, layout: Mapping[str, int]) -> IllegalLayout | None:
    """Return why `layout` is illegal on `gpu`, or None if it fits on one GPU."""
    if gpu.mig is None:
        return IllegalLayout(
            found=f"MIG on {gpu.product}",
            allowed="MIG on a GPU that supports it (A30, A100, H100, H200, B200 and newer data-centre GPUs)",
            fix="use sharing mode time-slicing or none, or a machine type with a MIG-capable GPU",
        )
    mig = gpu.mig
    names = [profile.name for profile in mig.profiles]
    for name in layout:
        if mig.profile(name) is None:
            return IllegalLayout(
                found=f"profile {name!r} on {gpu.product}",
                allowed="one of " + ", ".join(names),
                fix=did_you_mean(name, names) or "use a profile with this GPU's memory size",
            )
    if place(mig, layout) is not None:
        return None
    for name, count in layout.items():
        profile = mig.profile(name)
        if profile is not None and count > profile.max_instances:
            return IllegalLayout(
                found=f"{name} x{count} on {gpu.product}",
                allowed=f"at most {profile.max_instances} of {name} on one GPU",
                fix=f"request {profile.max_instances} or fewer",
            )
    return IllegalLayout(
        found=f"{layout_text(layout)} on {gpu.product}",
        allowed=(
            f"instances whose memory slices do not overlap ({mig.memory_slices} memory slices, "
            f"{mig.compute_slices} compute slices; " + _starts_text(mig, layout) + ")"
        ),
        fix=_nearest_fix(mig, layout),
    )


def _starts_text(mig: Mig, layout: Mapping[str, int]) -> str:
    parts: list[str] = []
    for name in layout:
        profile = mig.profile(name)
        if profile is not None:
            starts = ",".join(str(start) for start in profile.starts)
            parts.append(f"{name} takes {profile.memory_slices} from {starts}")
    return "; ".join(parts)


def _nearest_fix(mig: Mig, layout: Mapping[str, int]) -> str:
    """Suggest a legal layout with fewer instances of one profile. Small profiles are reduced first."""

    def memory_slices(name: str) -> int:
        profile = mig.profile(name)
        return profile.memory_slices if profile is not None else 0

    by_size = sorted(layout, key=memory_slices)
    for name in by_size:
        for fewer in range(layout[name] - 1, -1, -1):
            smaller = {other: count for other, count in {**layout, name: fewer}.items() if count}
            if smaller and place(mig, smaller) is not None:
                return f"{layout_text(smaller)} is legal"
    return "request fewer or smaller instances"
