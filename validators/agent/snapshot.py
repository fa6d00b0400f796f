"""Values that NVML reported for a node at one time, the input of all checks.

This module does not call NVML (`nvml.py` does), so tests can construct Snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, TypeVar

T = TypeVar("T", covariant=True)

NOT_SUPPORTED = "not-supported"
RESET_REQUIRED = "reset-required"
# Failures of a Snapshot whose driver has gone, or was replaced under this container, which keeps the old library.
DRIVER_NOT_LOADED = "the driver's kernel module is not loaded"
OTHER_DRIVER = "driver library and loaded kernel module have different versions"
NO_DRIVER_LISTED = "no-NVIDIA-driver-in-it"


@dataclass(frozen=True)
class Reading(Generic[T]):
    """Result of one NVML call: a value, or the reason why there is none.

    `problem` is "" with a value, `not-supported` if the GPU does not have the feature, else the kind of error:
    NVML's status in lower case (`gpu-lost`, `function-not-found`, `no-permission`, ...), or one of `NO_ANSWER` in
    calls.py.
    """

    value: T | None = None
    problem: str = ""
    call: str = ""
    """NVML function that failed."""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.problem

    @property
    def supported(self) -> bool:
        """False if the GPU does not have the feature; True also if an error leaves this open."""
        return self.problem != NOT_SUPPORTED


def _unread() -> Reading[Any]:
    return Reading(problem="not-read")


@dataclass(frozen=True)
class GpuSnapshot:
    """Values of one GPU. Temperatures in °C, memory in MiB; pairs are current and pending."""

    index: int
    handle: Reading[bool] = field(default_factory=_unread)
    """Whether NVML gives the device out at all."""
    name: Reading[str] = field(default_factory=_unread)
    uuid: Reading[str] = field(default_factory=_unread)
    memory_mib: Reading[int] = field(default_factory=_unread)
    ecc: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_mode: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_instances: Reading[dict[str, int]] = field(default_factory=_unread)
    """Number of GPU instances with a compute instance, by profile."""
    throttle_reasons: Reading[int] = field(default_factory=_unread)
    """NVML's bit mask."""
    temperature: Reading[int] = field(default_factory=_unread)
    slowdown_threshold: Reading[int] = field(default_factory=_unread)
    temperature_margin: Reading[int] = field(default_factory=_unread)
    """Degrees below the GPU's limit, for GPUs without an absolute threshold; `slowdown_margin` is its
    threshold."""
    slowdown_margin: Reading[int] = field(default_factory=_unread)
    remapped_rows: Reading[tuple[int, int, bool, bool]] = field(default_factory=_unread)
    """Rows remapped for correctable and for uncorrectable errors; a remapping is pending; a remapping failed."""
    nvlinks: Reading[list[bool]] = field(default_factory=_unread)
    """Whether each link is active."""
    pcie_width: Reading[int] = field(default_factory=_unread)
    """Current width of the link, which does not change when the GPU is idle."""
    pcie_generation: Reading[int] = field(default_factory=_unread)
    """Maximum generation of the link; the current one is lower when the GPU is idle."""
    numa_node: Reading[int] = field(default_factory=_unread)
    """-1: the platform does not report it."""
    fabric: Reading[tuple[int, int]] = field(default_factory=_unread)
    """State of the registration in the NVLink fabric between nodes (nvmlGpuFabricState_t), and its status, an
    nvmlReturn_t."""
    fabric_health: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Summary of the health of its fabric (NVML_GPU_FABRIC_HEALTH_SUMMARY_*), and its mask."""
    fabric_domain: Reading[tuple[str, int]] = field(default_factory=_unread)
    """UUID of the cluster that the fabric connects, and the clique in it whose GPUs reach each other."""
    serial: Reading[str] = field(default_factory=_unread)
    vbios: Reading[str] = field(default_factory=_unread)
    inforom: Reading[str] = field(default_factory=_unread)
    gsp_firmware: Reading[str] = field(default_factory=_unread)
    pci: Reading[tuple[int, int, int]] = field(default_factory=_unread)
    """Domain, bus and device of the PCI address."""
    persistence: Reading[bool] = field(default_factory=_unread)
    compute_mode: Reading[int] = field(default_factory=_unread)
    """nvmlComputeMode_t."""
    graphics_clock: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Application clock and its default, MHz."""
    power_limit: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Power limit and its default, mW."""
    ecc_errors: Reading[dict[str, int]] = field(default_factory=_unread)
    """Uncorrectable errors since the last reset, by location; `elsewhere`: of no known location."""
    sram_exceeded: Reading[bool] = field(default_factory=_unread)
    """Whether the GPU has had more uncorrectable SRAM errors than its threshold."""
    retired_pages: Reading[tuple[int, int, bool]] = field(default_factory=_unread)
    """Pages retired for single-bit errors and for double-bit errors; one is pending."""
    banks_without_rows: Reading[int] = field(default_factory=_unread)
    """Memory banks without spare rows."""
    recovery_action: Reading[int] = field(default_factory=_unread)
    """What the driver asks for, nvmlDeviceGpuRecoveryAction_t; 0: nothing."""
    pcie_replays: Reading[int] = field(default_factory=_unread)
    nvlink_errors: Reading[tuple[int, int, int]] = field(default_factory=_unread)
    """CRC errors, replays and recoveries of all NVLinks."""
    processes: Reading[list[tuple[int, int]]] = field(default_factory=_unread)
    """PID and memory in MiB of the processes that compute on the GPU."""
    utilization: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Percent of the last sample in which a kernel ran, and in which memory was read or written."""
    memory_used_bytes: Reading[int] = field(default_factory=_unread)
    power: Reading[int] = field(default_factory=_unread)
    """Power that the board draws, mW."""
    energy: Reading[int] = field(default_factory=_unread)
    """Energy since the driver was loaded, mJ."""
    clocks: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Clocks of the SMs and of the memory, MHz."""
    ecc_corrected: Reading[int] = field(default_factory=_unread)
    """Corrected ECC errors since the last reset."""
    mig_memory: Reading[list[tuple[int, str, int, int]]] = field(default_factory=_unread)
    """GPU instances: id, profile, memory used and memory in all, bytes."""
    growth: Reading[dict[str, int]] = field(default_factory=_unread)
    """How much counters of corrected errors have grown in the earlier passes of the last minutes; `seconds`: how
    many. Not read by one pass alone."""
    slowed: Reading[dict[str, int]] = field(default_factory=_unread)
    """In how many passes of the last minutes what slows a GPU down was seen, by its name (`heat.py`); `passes`: of
    how many. Not read by one pass alone."""
    peers: Reading[dict[int, tuple[int, int]]] = field(default_factory=_unread)
    """By the index of each later GPU: common ancestor (nvmlGpuTopologyLevel_t) and status of peer access by NVLink
    (nvmlGpuP2PStatus_t)."""

    @property
    def problems(self) -> frozenset[str]:
        """Why values of this GPU could not be read; what NVML answers for a pair may be the fault of the other."""
        own = [getattr(self, field.name) for field in fields(self) if field.name not in ("index", "peers")]
        return frozenset(reading.problem for reading in own)


@dataclass(frozen=True)
class Snapshot:
    """Values of one node; `failure` is the reason why NVML could not be read, else ""."""

    gpus: tuple[GpuSnapshot, ...] = ()
    driver_version: Reading[str] = field(default_factory=_unread)
    gpu_count: Reading[int] = field(default_factory=_unread)
    """NVML's count, which may include a GPU that has fallen off the bus."""
    xids: Reading[list[tuple[int, int, int, int, int, str]]] = field(default_factory=_unread)
    """Xid errors in the kernel's log: code, PCI domain, bus and device, age in seconds, rest of the line."""
    events: Reading[list[tuple[int, int, int]]] = field(default_factory=_unread)
    """Xid errors of NVML's events: code, index of the GPU, age in seconds."""
    resets: Reading[list[tuple[int, int]]] = field(default_factory=_unread)
    """Resets of GPUs that earlier passes have seen: index of the GPU, age in seconds."""
    daemons: Reading[list[str]] = field(default_factory=_unread)
    """Names of the host's processes that are looked for; none where the host's are not visible."""
    imex_channels: Reading[bool] = field(default_factory=_unread)
    """Whether the driver offers IMEX channels."""
    interfaces: Reading[list[tuple[str, str, int]]] = field(default_factory=_unread)
    """Network interfaces of the NICs in sysfs: kind of NIC, name, MTU."""
    pci_devices: Reading[list[tuple[str, str, tuple[str, ...]]]] = field(default_factory=_unread)
    """GPUs and NICs of sysfs: kind, address, and the bridges above it."""
    failure: str = ""
    remediation: str = ""
    unanswered: tuple[str, ...] = ()
    """Calls that did not return or ended their process, each as a text with what happened."""

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
            xids=_tuples(data["xids"]),
            events=_tuples(data["events"]),
            resets=_tuples(data["resets"]),
            daemons=_reading(data["daemons"]),
            imex_channels=_reading(data["imex_channels"]),
            interfaces=_tuples(data["interfaces"]),
            pci_devices=_pci_devices(data["pci_devices"]),
            failure=data["failure"],
            remediation=data["remediation"],
            unanswered=tuple(data["unanswered"]),
        )


_PAIRS = {
    "ecc",
    "mig_mode",
    "remapped_rows",
    "fabric",
    "fabric_health",
    "fabric_domain",
    "pci",
    "graphics_clock",
    "power_limit",
    "retired_pages",
    "nvlink_errors",
    "utilization",
    "clocks",
}


def _gpu(data: Mapping[str, Any]) -> GpuSnapshot:
    readings = {
        each.name: _reading(data[each.name], as_tuple=each.name in _PAIRS)
        for each in fields(GpuSnapshot)
        if each.name != "index"
    }
    if readings["processes"].value is not None:
        readings["processes"] = Reading([(pid, mib) for pid, mib in readings["processes"].value])
    if readings["mig_memory"].value is not None:
        readings["mig_memory"] = Reading([tuple(each) for each in readings["mig_memory"].value])
    if readings["peers"].value is not None:
        readings["peers"] = Reading({int(key): (one, two) for key, (one, two) in readings["peers"].value.items()})
    return GpuSnapshot(index=data["index"], **readings)


def _tuples(data: Mapping[str, Any]) -> Reading[Any]:
    value = data["value"]
    return Reading(None if value is None else [tuple(each) for each in value], data["problem"], data["call"])


def _pci_devices(data: Mapping[str, Any]) -> Reading[Any]:
    value = data["value"]
    found = None if value is None else [(kind, address, tuple(above)) for kind, address, above in value]
    return Reading(found, data["problem"], data["call"])


def _reading(data: Mapping[str, Any], as_tuple: bool = False) -> Reading[Any]:
    value = data["value"]
    if as_tuple and value is not None:
        value = tuple(value)
    return Reading(value, data["problem"], data["call"])
