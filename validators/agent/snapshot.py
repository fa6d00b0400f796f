"""What NVML said about a node at one moment, as plain values: the input of every check.

Nothing here calls NVML (`nvml.py` does), so a test can write a Snapshot down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, TypeVar

T = TypeVar("T")

NOT_SUPPORTED = "not-supported"


@dataclass(frozen=True)
class Reading(Generic[T]):
    """One answer of NVML: a value, or why there is none.

    `problem` is "" for a value, `not-supported` where the GPU has no such thing, else the kind of error
    (`gpu-lost`, `function-not-found`, `no-permission`, ...; the words are NVML's status in lower case).
    """

    value: T | None = None
    problem: str = ""
    call: str = ""
    """The function that did not answer."""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.problem

    @property
    def supported(self) -> bool:
        """Whether the GPU has such a thing, or may have: an error does not tell."""
        return self.problem != NOT_SUPPORTED


def _unread() -> Reading[Any]:
    return Reading(problem="not-read")


@dataclass(frozen=True)
class GpuSnapshot:
    """One GPU. Temperatures in °C, memory in MiB; pairs are current and pending."""

    index: int
    handle: Reading[bool] = field(default_factory=_unread)
    """Whether NVML gives the device out at all."""
    name: Reading[str] = field(default_factory=_unread)
    uuid: Reading[str] = field(default_factory=_unread)
    memory_mib: Reading[int] = field(default_factory=_unread)
    ecc: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_mode: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_instances: Reading[dict[str, int]] = field(default_factory=_unread)
    """GPU instances by profile, counted where they have a compute instance."""
    throttle_reasons: Reading[int] = field(default_factory=_unread)
    """NVML's bit mask."""
    temperature: Reading[int] = field(default_factory=_unread)
    slowdown_threshold: Reading[int] = field(default_factory=_unread)
    temperature_margin: Reading[int] = field(default_factory=_unread)
    """Degrees left to the GPU's limit, and below the slowdown one: for GPUs without an absolute threshold."""
    slowdown_margin: Reading[int] = field(default_factory=_unread)
    remapped_rows: Reading[tuple[int, int, bool, bool]] = field(default_factory=_unread)
    """Rows remapped for correctable and for uncorrectable errors, whether one is pending, whether one failed."""
    nvlinks: Reading[list[bool]] = field(default_factory=_unread)
    """Whether each link is active."""
    pcie_width: Reading[int] = field(default_factory=_unread)
    """Of the link now: lanes do not go down when idle."""
    pcie_generation: Reading[int] = field(default_factory=_unread)
    """The most that this link can do: the current one goes down when idle."""
    numa_node: Reading[int] = field(default_factory=_unread)
    """-1: the platform does not tell."""


@dataclass(frozen=True)
class Snapshot:
    """One node. `failure` says why NVML could not be read at all, else it is ""."""

    gpus: tuple[GpuSnapshot, ...] = ()
    driver_version: Reading[str] = field(default_factory=_unread)
    gpu_count: Reading[int] = field(default_factory=_unread)
    """As NVML counts: a GPU that fell off the bus may still be counted."""
    failure: str = ""
    remediation: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the Snapshot that `to_json` wrote."""
        return cls(
            gpus=tuple(_gpu(each) for each in data["gpus"]),
            driver_version=_reading(data["driver_version"]),
            gpu_count=_reading(data["gpu_count"]),
            failure=data["failure"],
            remediation=data["remediation"],
        )


_PAIRS = {"ecc", "mig_mode", "remapped_rows"}


def _gpu(data: Mapping[str, Any]) -> GpuSnapshot:
    readings = {
        each.name: _reading(data[each.name], as_tuple=each.name in _PAIRS)
        for each in fields(GpuSnapshot)
        if each.name != "index"
    }
    return GpuSnapshot(index=data["index"], **readings)


def _reading(data: Mapping[str, Any], as_tuple: bool = False) -> Reading[Any]:
    value = data["value"]
    if as_tuple and value is not None:
        value = tuple(value)
    return Reading(value, data["problem"], data["call"])
