"""Reads NVML into a Snapshot. This is the only module that calls NVML, and it runs in a separate process.

`Calls` announces every call, so that the report can name a call that does not return.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import pynvml

from validators.agent.calls import NO_ANSWER, Call, Calls, Emit, Journal
from validators.agent.events import Events, gpu_handle
from validators.agent.fabric import (
    SYSFS_VARIABLE,
    NoDriverListedError,
    has_imex_channels,
    read_daemons,
    read_interfaces,
    read_locked_memory,
    read_pci,
)
from validators.agent.snapshot import (
    DRIVER_NOT_LOADED,
    NO_DRIVER_LISTED,
    NOT_SUPPORTED,
    OTHER_DRIVER,
    RESET_REQUIRED,
    GpuSnapshot,
    Reading,
    Snapshot,
)
from validators.agent.xids import read_xids

T = TypeVar("T")
U = TypeVar("U")

LIBRARY = "libnvidia-ml.so.1"
FUNCTION_NOT_FOUND = "function-not-found"
INVALID_ARGUMENT = "invalid-argument"
_LIBRARY_NOT_FOUND = "library-not-found"
_LIBRARY_NOT_LOADABLE = "library-not-loadable"
_MIB = 1 << 20
_MOST_GPUS = 32  # indices to try if NVML does not report the number of GPUs
_NUMA_WORDS = 4  # 64 NUMA nodes per word
_REMAPPED_FIELDS = (142, 143, 144, 145)  # NVML_FI_DEV_REMAPPED_COR, _UNC, _PENDING, _FAILURE
_SLOWDOWN_TLIMIT_FIELD = 194  # NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
_RECOVERY_ACTION_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
# NVML_FI_DEV_NVLINK_CRC_FLIT_, _CRC_DATA_, _REPLAY_ and _RECOVERY_ERROR_COUNT_TOTAL
_NVLINK_CRC_FIELDS = (38, 45)
_NVLINK_REPLAY_FIELD = 52
_NVLINK_RECOVERY_FIELD = 59
_NVLINK_FIELDS = (*_NVLINK_CRC_FIELDS, _NVLINK_REPLAY_FIELD, _NVLINK_RECOVERY_FIELD)
_FIELDS = (*_REMAPPED_FIELDS, _SLOWDOWN_TLIMIT_FIELD, _RECOVERY_ACTION_FIELD, *_NVLINK_FIELDS)
_GRAPHICS_CLOCK = 0
_CORRECTED, _UNCORRECTED, _SINCE_RESET = 0, 1, 0  # constants of nvmlMemoryErrorType_t and nvmlEccCounterType_t
_LOCATIONS = {  # values of nvmlMemoryLocation_t
    0: "L1 cache",
    1: "L2 cache",
    2: "memory",
    3: "register file",
    4: "texture memory",
    5: "shared texture memory",
    6: "CBU",
    7: "SRAM",
}
_ELSEWHERE = "elsewhere"
_SINGLE_BIT, _DOUBLE_BIT = 0, 1  # values of nvmlPageRetirementCause_t
_P2P_NVLINK = 2  # value of nvmlGpuP2PCapsIndex_t
_TYPES = {2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}  # values of nvmlValueType_t that are not unsigned int

_KINDS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: NOT_SUPPORTED,
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu-lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: RESET_REQUIRED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION: "no-permission",
    pynvml.NVML_ERROR_INVALID_ARGUMENT: INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_FOUND: "not-found",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: _LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver-not-loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "version-mismatch",
}
_INIT_FAILURES = {
    _LIBRARY_NOT_FOUND: (
        f"{LIBRARY} was not found",
        "install the NVIDIA driver, or make its library available in the container (runtime class nvidia, "
        "NVIDIA_VISIBLE_DEVICES=all, NVIDIA_DRIVER_CAPABILITIES=utility)",
    ),
    _LIBRARY_NOT_LOADABLE: (
        f"{LIBRARY} exists, but cannot be loaded",
        "the file is damaged, has the wrong architecture or lacks a library that it needs: compare it with the "
        "driver's package (ldd, file), and reinstall the driver",
    ),
    FUNCTION_NOT_FOUND: (
        f"{LIBRARY} has no nvmlInitWithFlags",
        "the file does not belong to a supported driver: check which package owns it, and reinstall the driver",
    ),
    "driver-not-loaded": (
        DRIVER_NOT_LOADED,
        "load the kernel module (modprobe nvidia); if it fails, see dmesg",
    ),
    "version-mismatch": (
        OTHER_DRIVER,
        "this is normal after an update: reboot the node",
    ),
    "no-permission": (
        "no permission to use the driver",
        "make the GPU devices available in the container: runtime class nvidia, NVIDIA_VISIBLE_DEVICES=all",
    ),
    "gpu-lost": (
        "a GPU has fallen off the bus",
        "drain and power-cycle the node; replace the GPU if it happens again",
    ),
}
_OTHER_INIT_REMEDY = "run nvidia-smi on the node and look for Xid and NVRM lines in dmesg"


def read_nvml(journal: Journal, emit: Emit, *, live: bool = True) -> Snapshot:
    """Open NVML and read all values that the checks need, except those already in the journal.

    Without `live`, no call is made, and values that are missing from the journal are marked as `not-called`.
    """
    calls = Calls(journal, emit, _kind, live=live)
    xids = _mapped(
        calls.value(Call("kernel log"), read_xids, (), lambda found: found),
        # Recordings of earlier agents do not contain the text of an Xid error.
        lambda found: [(*one[:5], str(one[5]) if len(one) > 5 else "") for one in found],
    )
    devices = _mapped(
        calls.value(Call("PCI devices of sysfs"), read_pci, (), lambda found: found),
        lambda found: [(kind, address, tuple(above)) for kind, address, above in found],
    )
    interfaces = _mapped(
        calls.value(Call("MTU of sysfs"), read_interfaces, (), lambda found: found),
        lambda found: [(kind, name, mtu) for kind, name, mtu in found],
    )
    imex = calls.value(Call("IMEX channels of /proc/devices"), has_imex_channels, (), _plain)
    daemons = calls.value(Call("processes of the host"), read_daemons, (), _plain)
    locked = calls.value(Call("locked memory of /proc/self/limits"), read_locked_memory, (), _plain)
    return replace(
        _read(calls),
        xids=xids,
        pci_devices=devices,
        interfaces=interfaces,
        imex_channels=imex,
        locked_memory=locked,
        daemons=Reading(daemons.value or []),  # missing in recordings of earlier agents
    )


def _read(calls: Calls) -> Snapshot:
    for opened in (_load(calls), calls.handle(Call("nvmlInitWithFlags"), pynvml.nvmlInit)):
        if not opened.ok:
            return _closed(opened)
    return _node(calls)


def wait_for_events(journal: Journal, emit: Emit) -> Snapshot:
    """Open NVML and wait for events for the journal's `wait_seconds`."""
    calls = Calls(journal, emit, _kind)
    for opened in (_load(calls), calls.handle(Call("nvmlInitWithFlags"), pynvml.nvmlInit)):
        if not opened.ok:
            return _closed(opened)
    count = _of_node(calls, pynvml.nvmlDeviceGetCount, "nvmlDeviceGetCount")
    return Snapshot(events=Events(calls, range(count.value or 0)).read(journal.wait_seconds))


def close_nvml(emit: Emit) -> None:
    """Close NVML after the Snapshot is complete."""
    Calls(Journal(), emit, _kind).handle(Call("nvmlShutdown"), pynvml.nvmlShutdown)


def _load(calls: Calls) -> Reading[Any]:
    """Load the library before initialising it, to distinguish an unloadable library from a missing library."""

    def load(name: str) -> object:
        library: Any = pynvml
        return library.nvmlLib or library.CDLL(name)

    return calls.handle(Call(f"loading {LIBRARY}"), load, LIBRARY)


def _closed(opened: Reading[Any]) -> Snapshot:
    """Return the Snapshot of a node on which NVML could not be opened."""
    kind, _, detail = opened.problem.partition(": ")
    if kind in NO_ANSWER:
        return Snapshot(failure=f"{opened.call}: {kind.replace('-', ' ')}")
    text, remedy = _INIT_FAILURES.get(kind, (kind.replace("-", " "), _OTHER_INIT_REMEDY))
    return Snapshot(
        failure=f"NVML cannot be opened: {text}" + (f" ({detail})" if detail else ""), remediation=remedy
    )


def _node(calls: Calls) -> Snapshot:
    count = _of_node(calls, pynvml.nvmlDeviceGetCount, "nvmlDeviceGetCount")
    events = Events(calls, range(count.value or 0))  # before reading the GPUs, because a read may reveal a fault
    return Snapshot(
        gpus=_gpus(calls, count),
        driver_version=_of_node(calls, pynvml.nvmlSystemGetDriverVersion, "nvmlSystemGetDriverVersion"),
        gpu_count=count,
        events=events.read(),
    )


def _of_node(calls: Calls, function: Callable[..., Any], name: str) -> Reading[Any]:
    return calls.value(Call(name), function, (), _plain)


def _gpus(calls: Calls, count: Reading[int]) -> tuple[GpuSnapshot, ...]:
    """Read the GPUs. If NVML has not reported their number, try each index until NVML returns no device."""
    if count.value is not None:
        return _with_peers(calls, [_gpu(calls, index) for index in range(count.value)])
    found: list[GpuSnapshot] = []
    for index in range(_MOST_GPUS if count.problem in NO_ANSWER else 0):
        gpu = _gpu(calls, index)
        if not gpu.handle.ok and gpu.handle.problem not in ("gpu-lost", RESET_REQUIRED, "no-permission"):
            break
        found.append(gpu)
    return _with_peers(calls, found)


def _with_peers(calls: Calls, gpus: Sequence[GpuSnapshot]) -> tuple[GpuSnapshot, ...]:
    """Return the GPUs, each with its connections to the GPUs with a higher index."""
    return tuple(
        replace(gpu, peers=_peers(calls, gpu, [other.index for other in gpus[place + 1 :] if other.handle.ok]))
        if gpu.handle.ok
        else gpu
        for place, gpu in enumerate(gpus)
    )


def _peers(calls: Calls, gpu: GpuSnapshot, others: Sequence[int]) -> Reading[dict[int, tuple[int, int]]]:
    device = _Device(calls, f"GPU {gpu.index}", gpu_handle(calls, gpu.index).value)
    found: dict[int, tuple[int, int]] = {}
    for index in others:
        other, detail = gpu_handle(calls, index).value, f"to GPU {index}"
        ancestor = device.read(pynvml.nvmlDeviceGetTopologyCommonAncestor, other, detail=detail)
        access = device.read(pynvml.nvmlDeviceGetP2PStatus, other, _P2P_NVLINK, detail=detail)
        both = _pair(ancestor, access)
        if both.value is None:
            return Reading(problem=both.problem, call=both.call)
        found[index] = both.value
    return Reading(found)


class _Device:
    """Reads values of one GPU or MIG device."""

    def __init__(self, calls: Calls, name: str, handle: object) -> None:
        self._calls = calls
        self._name = name
        self._handle = handle

    def read(
        self,
        function: Callable[..., Any],
        *arguments: object,
        detail: str = "",
        convert: Callable[[Any], Any] | None = None,
    ) -> Reading[Any]:
        """Read a value.

        `detail` distinguishes calls of the same function, and `convert` turns the value into plain JSON.
        """
        call = Call(function.__name__, self._name, detail)
        return self._calls.value(call, function, (self._handle, *arguments), convert or _plain)

    def part(self, function: Callable[..., Any], index: int, kind: str) -> tuple[Reading[Any], _Device]:
        """Request the handle of a MIG device or another component of this device. Return the result, and a reader
        for it.
        """
        name = f"{kind} {index} of {self._name}"
        handle = self._calls.handle(Call(function.__name__, name), function, self._handle, index)
        return handle, _Device(self._calls, name, handle.value)


def _gpu(calls: Calls, index: int) -> GpuSnapshot:
    name = f"GPU {index}"
    handle = gpu_handle(calls, index)
    if not handle.ok:
        unread: dict[str, Any] = {field.name: handle for field in fields(GpuSnapshot) if field.name != "index"}
        return GpuSnapshot(index=index, **unread)
    device = _Device(calls, name, handle.value)
    read = device.read
    mig_mode = _mapped(read(pynvml.nvmlDeviceGetMigMode), _both)
    throttle_reasons = read(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if throttle_reasons.problem == FUNCTION_NOT_FOUND:  # drivers before 535 use the function's older name
        throttle_reasons = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    memory = _memory(read)
    size = _mapped(memory, lambda found: found[0])
    instances = _mig_instances(device, mig_mode, size)
    values = read(pynvml.nvmlDeviceGetFieldValues, list(_FIELDS), convert=_field_values)
    address = read(pynvml.nvmlDeviceGetPciInfo, convert=_address)
    fabric = _fabric(read)
    return GpuSnapshot(
        index=index,
        handle=Reading(True),
        name=read(pynvml.nvmlDeviceGetName),
        uuid=read(pynvml.nvmlDeviceGetUUID),
        memory_mib=_mapped(size, lambda total: total // _MIB),
        ecc=_mapped(read(pynvml.nvmlDeviceGetEccMode), _both),
        mig_mode=mig_mode,
        mig_instances=_mapped(instances, _by_profile),
        throttle_reasons=throttle_reasons,
        temperature=read(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        slowdown_threshold=read(
            pynvml.nvmlDeviceGetTemperatureThreshold, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        ),
        temperature_margin=read(pynvml.nvmlDeviceGetMarginTemperature),
        slowdown_margin=_mapped(_some(values, (_SLOWDOWN_TLIMIT_FIELD,)), lambda found: found[0]),
        remapped_rows=_remapped_rows(read, values),
        nvlinks=_nvlinks(read),
        pcie_width=read(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_generation=read(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        numa_node=_numa_node(calls, name, address, read),
        fabric=_mapped(fabric, lambda found: (found[0], found[1])),
        fabric_health=_mapped(fabric, lambda found: (found[2], found[3])),
        fabric_domain=_mapped(fabric, lambda found: (found[5], found[4])),
        serial=read(pynvml.nvmlDeviceGetSerial),
        vbios=read(pynvml.nvmlDeviceGetVbiosVersion),
        inforom=read(pynvml.nvmlDeviceGetInforomImageVersion),
        gsp_firmware=read(pynvml.nvmlDeviceGetGspFirmwareVersion, convert=_text),
        pci=_mapped(address, lambda found: (found[0], found[1], found[2])),
        persistence=_mapped(read(pynvml.nvmlDeviceGetPersistenceMode), bool),
        compute_mode=read(pynvml.nvmlDeviceGetComputeMode),
        graphics_clock=_pair(
            read(pynvml.nvmlDeviceGetApplicationsClock, _GRAPHICS_CLOCK),
            read(pynvml.nvmlDeviceGetDefaultApplicationsClock, _GRAPHICS_CLOCK),
        ),
        power_limit=_pair(
            read(pynvml.nvmlDeviceGetPowerManagementLimit), read(pynvml.nvmlDeviceGetPowerManagementDefaultLimit)
        ),
        ecc_errors=_ecc_errors(read),
        sram_exceeded=_sram_exceeded(read),
        retired_pages=_retired_pages(read),
        banks_without_rows=read(pynvml.nvmlDeviceGetRowRemapperHistogram, convert=lambda found: found.none),
        recovery_action=_mapped(_some(values, (_RECOVERY_ACTION_FIELD,)), lambda found: found[0]),
        pcie_replays=read(pynvml.nvmlDeviceGetPcieReplayCounter),
        nvlink_errors=_link_errors(values),
        processes=_mapped(
            read(pynvml.nvmlDeviceGetComputeRunningProcesses, convert=_processes),
            lambda found: [(pid, mib) for pid, mib in found],
        ),
        utilization=_mapped(
            read(pynvml.nvmlDeviceGetUtilizationRates, convert=lambda found: [found.gpu, found.memory]),
            lambda found: (found[0], found[1]),
        ),
        memory_used_bytes=_mapped(memory, lambda found: found[1]),
        power=read(pynvml.nvmlDeviceGetPowerUsage),
        energy=read(pynvml.nvmlDeviceGetTotalEnergyConsumption),
        clocks=_pair(
            read(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM, detail="of the SMs"),
            read(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM, detail="of the memory"),
        ),
        ecc_corrected=read(pynvml.nvmlDeviceGetTotalEccErrors, _CORRECTED, _SINCE_RESET, detail="corrected"),
        mig_memory=instances,
    )


Read = Callable[..., Reading[Any]]


def _kind(error: Exception) -> str:
    """Return the kind of an error, such as `not-supported` or `gpu-lost`."""
    if isinstance(error, pynvml.NVMLError):
        return _KINDS.get(error.value) or str(error).strip(" .").lower().replace(" ", "-")
    if isinstance(error, NoDriverListedError):
        return NO_DRIVER_LISTED
    if isinstance(error, OSError):  # raised when the library is loaded
        kind = (
            _LIBRARY_NOT_FOUND if "No such file" in str(error) and LIBRARY in str(error) else _LIBRARY_NOT_LOADABLE
        )
        return kind if kind == _LIBRARY_NOT_FOUND else f"{kind}: {error}"
    return f"no-valid-answer: {type(error).__name__}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - what the bindings return
    """Convert a value to plain JSON."""
    return value if isinstance(value, (bool, int, float, str)) else [int(each) for each in value]


def _mapped(reading: Reading[T], change: Callable[[T], U]) -> Reading[U]:
    """Return a reading with its value converted. A reading without a value stays unchanged."""
    if reading.value is None:
        return Reading(problem=reading.problem, call=reading.call)
    return Reading(change(reading.value))


def _both(modes: list[int]) -> tuple[bool, bool]:
    return bool(modes[0]), bool(modes[1])


def _field_values(found: Any) -> list[int | None]:  # noqa: ANN401 - an array of C structs
    """Return the values of NVML fields, with None for a field that has no value."""
    return [
        int(getattr(each.value, _TYPES.get(each.valueType, "uiVal")))
        if each.nvmlReturn == pynvml.NVML_SUCCESS
        else None
        for each in found
    ]


def _some(values: Reading[list[int | None]], ids: tuple[int, ...]) -> Reading[list[int]]:
    """Return the values of the fields in `ids`. The result is `not-supported` if one of them has no value."""
    if values.value is None:
        return Reading(problem=values.problem, call=values.call)
    found = [values.value[_FIELDS.index(each)] for each in ids]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return Reading(problem=NOT_SUPPORTED, call="nvmlDeviceGetFieldValues")
    return Reading(known)


def _link_errors(values: Reading[list[int | None]]) -> Reading[tuple[int | None, int | None, int | None]]:
    """Return the CRC errors, replays and recoveries of all NVLinks, each None if it has no value.

    HGX machines with H100 do not report CRC errors (NVIDIA/DCGM#173, read 2026-11-30). Without any value, the
    result is `not-supported`.
    """
    if values.value is None:
        return Reading(problem=values.problem, call=values.call)
    flits, data, replays, recoveries = (values.value[_FIELDS.index(each)] for each in _NVLINK_FIELDS)
    crc = None if flits is None or data is None else flits + data
    if crc is None and replays is None and recoveries is None:
        return Reading(problem=NOT_SUPPORTED, call="nvmlDeviceGetFieldValues")
    return Reading((crc, replays, recoveries))


def _pair(one: Reading[int], other: Reading[int]) -> Reading[tuple[int, int]]:
    if one.value is None or other.value is None:
        missing = one if one.value is None else other
        return Reading(problem=missing.problem, call=missing.call)
    return Reading((one.value, other.value))


def _ecc_errors(read: Read) -> Reading[dict[str, int]]:
    """Read the number of uncorrectable errors since the last reset, by memory location."""
    total = read(pynvml.nvmlDeviceGetTotalEccErrors, _UNCORRECTED, _SINCE_RESET)
    if not total.value:
        return _mapped(total, lambda _: dict[str, int]())
    found: dict[str, int] = {}
    for number, name in _LOCATIONS.items():
        count = read(
            pynvml.nvmlDeviceGetMemoryErrorCounter, _UNCORRECTED, _SINCE_RESET, number, detail=f"of {name}"
        )
        if count.value:
            found[name] = count.value
    rest = total.value - sum(found.values())
    return Reading(found if rest <= 0 else {**found, _ELSEWHERE: rest})


def _sram_exceeded(read: Read) -> Reading[bool]:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()

    def exceeded(_status: object) -> bool:
        return bool(status.bThresholdExceeded)

    return read(pynvml.nvmlDeviceGetSramEccErrorStatus, ctypes.byref(status), convert=exceeded)


def _retired_pages(read: Read) -> Reading[tuple[int, int, bool]]:
    """Read the retired pages, which only GPUs older than Ampere report."""
    counts: list[int] = []
    for cause, name in ((_SINGLE_BIT, "of single-bit errors"), (_DOUBLE_BIT, "of double-bit errors")):
        pages = read(pynvml.nvmlDeviceGetRetiredPages, cause, detail=name, convert=len)
        if pages.value is None:
            return Reading(problem=pages.problem, call=pages.call)
        counts.append(pages.value)
    pending = read(pynvml.nvmlDeviceGetRetiredPagesPendingStatus)
    return _mapped(pending, lambda value: (counts[0], counts[1], bool(value)))


def _processes(found: Any) -> list[list[int]]:  # noqa: ANN401 - C structs
    return [[each.pid, (each.usedGpuMemory or 0) // _MIB] for each in found]


def _text(value: Any) -> str:  # noqa: ANN401 - a C text
    return value.decode() if isinstance(value, bytes) else str(value)


def _remapped_rows(read: Read, values: Reading[list[int | None]]) -> Reading[tuple[int, int, bool, bool]]:
    """Read the state of row remapping.

    If NVML does not support the function for it, the state is read from field values. The field values may also
    work while GPU instances exist.
    """
    rows = read(pynvml.nvmlDeviceGetRemappedRows)
    if rows.problem == NOT_SUPPORTED:
        of_fields = _some(values, _REMAPPED_FIELDS)
        if of_fields.ok:
            rows = of_fields
    return _mapped(rows, lambda row: (row[0], row[1], bool(row[2]), bool(row[3])))


def _nvlinks(read: Read) -> Reading[list[bool]]:
    """Read whether each NVLink is active. NVML rejects the index after the last link as an invalid argument."""
    links: list[bool] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = read(pynvml.nvmlDeviceGetNvLinkState, link, detail=f"of link {link}")
        if state.problem == INVALID_ARGUMENT or (links and state.problem == NOT_SUPPORTED):
            break
        if not state.ok:
            return Reading(problem=state.problem, call=state.call)
        links.append(bool(state.value))
    return Reading(links)


def _fabric(read: Read) -> Reading[list[Any]]:
    """Read the registration in the NVLink fabric: state, status, health (summary and mask), clique and cluster."""

    def told(function: Any, info: Any) -> Reading[list[Any]]:  # noqa: ANN401 - a C struct, which the call fills
        def values(_status: object) -> list[Any]:
            return [
                int(info.state),
                int(info.status),
                int(getattr(info, "healthSummary", 0)),
                int(getattr(info, "healthMask", 0)),
                int(info.cliqueId),
                bytes(info.clusterUuid).hex(),
            ]

        return read(function, ctypes.byref(info), convert=values)

    found = told(pynvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfo_v3_t())
    if found.problem in (FUNCTION_NOT_FOUND, INVALID_ARGUMENT, "argument-version-mismatch"):
        found = told(pynvml.nvmlDeviceGetGpuFabricInfo, pynvml.c_nvmlGpuFabricInfo_t())
    if found.value is not None and found.value[0] == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return Reading(problem=NOT_SUPPORTED, call="nvmlDeviceGetGpuFabricInfo")
    return found


def _mig_instances(
    device: _Device, mode: Reading[tuple[bool, bool]], memory: Reading[int]
) -> Reading[list[tuple[int, str, int, int]]]:
    """Return the GPU instances, which are found through their MIG devices (one for each compute instance).

    Each entry is a tuple of id, profile, used memory and total memory. Memory is -1 if the driver does not report
    it.
    """
    if mode.value is None:
        return Reading(problem=mode.problem, call=mode.call)
    if not mode.value[0]:
        return Reading([])
    maximum = device.read(pynvml.nvmlDeviceGetMaxMigDeviceCount)
    if maximum.value is None:
        return Reading(problem=maximum.problem, call=maximum.call)
    found: dict[int, tuple[int, str, int, int]] = {}
    for place in range(maximum.value):
        handle, part = device.part(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, place, "MIG device")
        if handle.problem == "not-found":
            continue
        instance = part.read(pynvml.nvmlDeviceGetGpuInstanceId) if handle.ok else handle
        if instance.value is None:
            return Reading(problem=instance.problem, call=instance.call)
        profile = _mig_profile(part.read, memory)
        if profile.value is None:
            return Reading(problem=profile.problem, call=profile.call)
        total, used = _memory(part.read).value or (-1, -1)
        found[instance.value] = (instance.value, profile.value, used, total)
    return Reading(list(found.values()))


def _by_profile(instances: list[tuple[int, str, int, int]]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for _, profile, _, _ in instances:
        counted[profile] = counted.get(profile, 0) + 1
    return counted


def _memory(read: Read) -> Reading[list[int]]:
    """Return the total and used memory in bytes.

    As in nvidia-smi, memory that the driver reserves for itself does not count as used.
    """
    found = read(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2, convert=_total_and_used)
    if found.problem == FUNCTION_NOT_FOUND:  # drivers before 510 lack the function
        found = read(pynvml.nvmlDeviceGetMemoryInfo, detail="with the driver's own", convert=_total_and_used)
    return found


def _total_and_used(found: Any) -> list[int]:  # noqa: ANN401 - a C struct
    return [found.total, found.used]


def _mig_profile(read: Read, memory: Reading[int]) -> Reading[str]:
    """Return the profile of a MIG device's GPU instance, such as `1g.10gb`.

    The name of a MIG device contains its profile, with a prefix such as `1c.` if the compute instance is smaller
    than its GPU instance. With older drivers, the profile is computed from slices and memory. The memory in the
    profile is the GPU's memory in GB, times the instance's number of memory eighths, divided by 8 and rounded.
    """
    name = read(pynvml.nvmlDeviceGetName)
    match = re.search(r" MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$", name.value or "")
    if match:
        return Reading(match.group(1))
    attributes = read(pynvml.nvmlDeviceGetAttributes, convert=_slices_and_memory)
    if attributes.value is None or memory.value is None:
        return Reading(problem=attributes.problem or memory.problem, call=attributes.call or memory.call)
    slices, mib = attributes.value
    total_gib = -(-memory.value // (1 << 30))
    eighths = -(-mib * _MIB * 8 // memory.value)
    return Reading(f"{slices}g.{round(total_gib * eighths / 8)}gb")


def _slices_and_memory(found: Any) -> list[int]:  # noqa: ANN401 - a C struct
    return [found.gpuInstanceSliceCount, found.memorySizeMB]


def _numa_node(calls: Calls, gpu: str, address: Reading[list[int]], read: Read) -> Reading[int]:
    """Return the NUMA node of the GPU's PCI device, or -1 if the platform does not report it.

    sysfs is read first, because on some virtual machines NVML reports node 0 while the kernel reports -1.
    """
    if address.value is not None:
        domain, bus, slot = address.value
        bus_id = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
        of_kernel = calls.value(Call("numa_node of sysfs", gpu), _sysfs_numa_node, (bus_id,), _plain)
        if of_kernel.ok:
            return of_kernel
    affinity = read(pynvml.nvmlDeviceGetMemoryAffinity, _NUMA_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE)
    return _mapped(affinity, _only_node)


def _address(pci: Any) -> list[int]:  # noqa: ANN401 - a C struct
    return [pci.domain, pci.bus, pci.device]


def _sysfs_numa_node(bus_id: str) -> int:
    root = os.environ.get(SYSFS_VARIABLE, "/sys")
    with open(f"{root}/bus/pci/devices/{bus_id}/numa_node", encoding="ascii") as file:
        return int(file.read())


def _only_node(words: list[int]) -> int:
    """Return the only node in an affinity mask, or -1 if the mask contains none or several."""
    nodes = [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    return nodes[0] if len(nodes) == 1 else -1
