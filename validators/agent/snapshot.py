"""Values that NVML reported for a node at one point in time. They are the input of all checks.

This module does not call NVML (`nvml.py` does), so that tests can construct Snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, TypeVar

T = TypeVar("T", covariant=True)

NOT_SUPPORTED = "not-supported"
RESET_REQUIRED = "reset-required"
# Failures after the driver was removed, or was replaced while this container kept the old library.
DRIVER_NOT_LOADED = "the driver's kernel module is not loaded"
OTHER_DRIVER = "driver library and loaded kernel module have different versions"
NO_DRIVER_LISTED = "no-NVIDIA-driver-in-it"


@dataclass(frozen=True)
class Reading(Generic[T]):
    """Result of one NVML call: a value, or the reason why there is no value.

    `problem` is "" if there is a value, and `not-supported` if the GPU does not have the feature. Otherwise it is
    the kind of error: NVML's status in lower case (`gpu-lost`, `function-not-found`, `no-permission`, ...), or one
    of `NO_ANSWER` in calls.py.
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
        """Whether the GPU may have the feature. Also True if an error prevents a definite answer."""
        return self.problem != NOT_SUPPORTED


def _unread() -> Reading[Any]:
    return Reading(problem="not-read")


@dataclass(frozen=True)
class GpuSnapshot:
    """Values of one GPU, with temperatures in °C and memory in MiB. A pair of modes contains the current and the
    pending mode.
    """

    index: int
    handle: Reading[bool] = field(default_factory=_unread)
    """Whether NVML returns a handle for the device."""
    name: Reading[str] = field(default_factory=_unread)
    uuid: Reading[str] = field(default_factory=_unread)
    memory_mib: Reading[int] = field(default_factory=_unread)
    ecc: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_mode: Reading[tuple[bool, bool]] = field(default_factory=_unread)
    mig_instances: Reading[dict[str, int]] = field(default_factory=_unread)
    """Number of GPU instances with a compute instance, by profile."""
    throttle_reasons: Reading[int] = field(default_factory=_unread)
    """NVML's bit mask of the slowdown reasons."""
    temperature: Reading[int] = field(default_factory=_unread)
    slowdown_threshold: Reading[int] = field(default_factory=_unread)
    temperature_margin: Reading[int] = field(default_factory=_unread)
    """Degrees by which the GPU is below its limit, for GPUs without an absolute threshold.

    `slowdown_margin` is the margin at which such a GPU slows down.
    """
    slowdown_margin: Reading[int] = field(default_factory=_unread)
    remapped_rows: Reading[tuple[int, int, bool, bool]] = field(default_factory=_unread)
    """Rows remapped for correctable and uncorrectable errors, and whether a remapping is pending or has failed."""
    nvlinks: Reading[list[bool]] = field(default_factory=_unread)
    """Whether each link is active."""
    pcie_width: Reading[int] = field(default_factory=_unread)
    """Current width of the PCIe link. It does not change when the GPU is idle."""
    pcie_generation: Reading[int] = field(default_factory=_unread)
    """Maximum generation of the PCIe link. The current generation is lower when the GPU is idle."""
    numa_node: Reading[int] = field(default_factory=_unread)
    """NUMA node of the GPU, or -1 if the platform does not report it."""
    fabric: Reading[tuple[int, int]] = field(default_factory=_unread)
    """State of the registration in the NVLink fabric (nvmlGpuFabricState_t), and its status (nvmlReturn_t)."""
    fabric_health: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Summary of the fabric's health (NVML_GPU_FABRIC_HEALTH_SUMMARY_*), and its bit mask."""
    fabric_domain: Reading[tuple[str, int]] = field(default_factory=_unread)
    """UUID of the fabric's cluster, and the clique within it. The GPUs of a clique reach each other."""
    serial: Reading[str] = field(default_factory=_unread)
    vbios: Reading[str] = field(default_factory=_unread)
    inforom: Reading[str] = field(default_factory=_unread)
    gsp_firmware: Reading[str] = field(default_factory=_unread)
    pci: Reading[tuple[int, int, int]] = field(default_factory=_unread)
    """Domain, bus and device number of the PCI address."""
    persistence: Reading[bool] = field(default_factory=_unread)
    compute_mode: Reading[int] = field(default_factory=_unread)
    """Compute mode of the GPU (nvmlComputeMode_t)."""
    graphics_clock: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Application clock and its default, in MHz."""
    power_limit: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Power limit and its default, in mW."""
    ecc_errors: Reading[dict[str, int]] = field(default_factory=_unread)
    """Uncorrectable errors since the last reset, by location. Errors without a known location are in `elsewhere`.
    """
    sram_exceeded: Reading[bool] = field(default_factory=_unread)
    """Whether the number of uncorrectable SRAM errors has exceeded the GPU's threshold."""
    retired_pages: Reading[tuple[int, int, bool]] = field(default_factory=_unread)
    """Pages retired for single-bit errors and for double-bit errors, and whether a retirement is pending."""
    banks_without_rows: Reading[int] = field(default_factory=_unread)
    """Memory banks without spare rows."""
    recovery_action: Reading[int] = field(default_factory=_unread)
    """Recovery action that the driver requests (nvmlDeviceGpuRecoveryAction_t), or 0 for none."""
    pcie_replays: Reading[int] = field(default_factory=_unread)
    nvlink_errors: Reading[tuple[int | None, int | None, int | None]] = field(default_factory=_unread)
    """Number of CRC errors, replays and recoveries on all NVLinks, each None if the driver does not report it."""
    processes: Reading[list[tuple[int, int]]] = field(default_factory=_unread)
    """PID and memory in MiB of each process that uses the GPU for compute."""
    utilization: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Percentages of the last sample period in which a kernel ran, and in which memory was read or written."""
    memory_used_bytes: Reading[int] = field(default_factory=_unread)
    power: Reading[int] = field(default_factory=_unread)
    """Power draw of the board, in mW."""
    energy: Reading[int] = field(default_factory=_unread)
    """Energy used since the driver was loaded, in mJ."""
    clocks: Reading[tuple[int, int]] = field(default_factory=_unread)
    """Clocks of the SMs and of the memory, in MHz."""
    ecc_corrected: Reading[int] = field(default_factory=_unread)
    """Corrected ECC errors since the last reset."""
    mig_memory: Reading[list[tuple[int, str, int, int]]] = field(default_factory=_unread)
    """For each GPU instance: id, profile, used memory and total memory in bytes."""
    growth: Reading[dict[str, int]] = field(default_factory=_unread)
    """Growth of each counter of corrected errors in recent passes.

    `seconds` is the length of this period. There is no value until the second pass.
    """
    slowed: Reading[dict[str, int]] = field(default_factory=_unread)
    """For each slowdown reason in `heat.py`, the number of the agent's recent passes that detected it, by name.

    `passes` is the total number of recent passes. There is no value if there was only one pass.
    """
    peers: Reading[dict[int, tuple[int, int]]] = field(default_factory=_unread)
    """Connections to the GPUs with a higher index, by that index.

    Each connection is a pair: the common ancestor (nvmlGpuTopologyLevel_t), and the status of peer access over
    NVLink (nvmlGpuP2PStatus_t).
    """

    @property
    def problems(self) -> frozenset[str]:
        """Problems with values that could not be read. `peers` is excluded, because its problems may be due to
        another GPU.
        """
        own = [getattr(self, field.name) for field in fields(self) if field.name not in ("index", "peers")]
        return frozenset(reading.problem for reading in own)


@dataclass(frozen=True)
class Snapshot:
    """Values of one node. `failure` is the reason why NVML could not be read, or ""."""

    gpus: tuple[GpuSnapshot, ...] = ()
    driver_version: Reading[str] = field(default_factory=_unread)
    gpu_count: Reading[int] = field(default_factory=_unread)
    """Number of GPUs that NVML reports. It may include a GPU that has fallen off the bus."""
    xids: Reading[list[tuple[int, int, int, int, int, str]]] = field(default_factory=_unread)
    """Xid errors in the kernel log, each as a tuple: code, PCI domain, PCI bus, PCI device, age in seconds, and
    the rest of its line.
    """
    events: Reading[list[tuple[int, int, int]]] = field(default_factory=_unread)
    """Xid errors from NVML events, each as a tuple of code, GPU index and age in seconds."""
    resets: Reading[list[tuple[int, int]]] = field(default_factory=_unread)
    """GPU resets that earlier passes have detected, each as a pair of GPU index and age in seconds."""
    daemons: Reading[list[str]] = field(default_factory=_unread)
    """Names of the host's processes that a check needs. Empty if the host's processes are not visible."""
    imex_channels: Reading[bool] = field(default_factory=_unread)
    """Whether the driver offers IMEX channels."""
    locked_memory: Reading[int] = field(default_factory=_unread)
    """Bytes that a process in a container may lock, or -1 if the number is unlimited."""
    interfaces: Reading[list[tuple[str, str, int]]] = field(default_factory=_unread)
    """Network interfaces of the NICs in sysfs, each as a tuple of NIC kind, name and MTU."""
    pci_devices: Reading[list[tuple[str, str, tuple[str, ...]]]] = field(default_factory=_unread)
    """GPUs and NICs in sysfs, each as a tuple of kind, address, and bridges above it."""
    failure: str = ""
    remediation: str = ""
    unanswered: tuple[str, ...] = ()
    """Calls that did not return or that ended their process, each as text with a description of what happened."""

    def to_json(self) -> dict[str, Any]:
        """Return the Snapshot as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the Snapshot from the JSON values that `to_json` wrote."""
        return cls(
            gpus=tuple(_gpu(each) for each in data["gpus"]),
            driver_version=_reading(data["driver_version"]),
            gpu_count=_reading(data["gpu_count"]),
            xids=_tuples(data["xids"]),
            events=_tuples(data["events"]),
            resets=_tuples(data["resets"]),
            daemons=_reading(data["daemons"]),
            imex_channels=_reading(data["imex_channels"]),
            locked_memory=_reading(data["locked_memory"]),
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
