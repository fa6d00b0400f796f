"""Reads NVML into a Snapshot. The only module that calls NVML; it runs in a separate process.

Every call is announced before it is made, so that the report can name a call that does not return.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import pynvml

from validators.agent.snapshot import NOT_SUPPORTED, GpuSnapshot, Reading, Snapshot

T = TypeVar("T")
U = TypeVar("U")
Announce = Callable[[str], None]

SYSFS_VARIABLE = "GPU_PLATFORM_SYSFS"  # path of sysfs; a sandbox sets it to a folder that does not exist
FUNCTION_NOT_FOUND = "function-not-found"
_MIB = 1 << 20
_NUMA_WORDS = 4  # 64 NUMA nodes each
_REMAPPED_FIELDS = (142, 143, 144, 145)  # NVML_FI_DEV_REMAPPED_COR, _UNC, _PENDING, _FAILURE
_SLOWDOWN_TLIMIT_FIELD = 194  # NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
_SIGNED_TYPES = (4, 5)  # nvmlValueType_t: signed long long, signed int

_INIT_REMEDIES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found: install the NVIDIA driver, or make it available in the container "
        "(runtime class nvidia, NVIDIA_VISIBLE_DEVICES=all, NVIDIA_DRIVER_CAPABILITIES=utility)"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "load the kernel module (modprobe nvidia); if it fails, see dmesg",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "driver library and loaded kernel module have different versions, as after an update: reboot the node"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "give the container the GPU devices: runtime class nvidia, NVIDIA_VISIBLE_DEVICES=all"
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: (
        "a GPU has fallen off the bus: drain and power-cycle the node; replace the GPU if it happens again"
    ),
}
_OTHER_INIT_REMEDY = "run nvidia-smi on the node and look for Xid and NVRM lines in dmesg"


def read_nvml(announce: Announce) -> Snapshot:
    """Open NVML, read all values that the checks need, close it."""
    announce("nvmlInitWithFlags")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Snapshot(
            failure=f"NVML cannot be opened: {error}",
            remediation=_INIT_REMEDIES.get(error.value, _OTHER_INIT_REMEDY),
        )
    snapshot = _node(announce)
    announce("nvmlShutdown")
    pynvml.nvmlShutdown()
    return snapshot


def _node(announce: Announce) -> Snapshot:
    read = _reader(announce, "")
    count = read(pynvml.nvmlDeviceGetCount)
    return Snapshot(
        gpus=tuple(_gpu(announce, index) for index in range(count.value or 0)),
        driver_version=read(pynvml.nvmlSystemGetDriverVersion),
        gpu_count=count,
    )


def _gpu(announce: Announce, index: int) -> GpuSnapshot:
    announced = _reader(announce, f" on GPU {index}")
    handle = announced(pynvml.nvmlDeviceGetHandleByIndex, index)
    if not handle.ok:
        unread: dict[str, Any] = {field.name: handle for field in fields(GpuSnapshot) if field.name != "index"}
        return GpuSnapshot(index=index, **unread)

    def read(function: Callable[..., Any], *arguments: object) -> Reading[Any]:
        return announced(function, handle.value, *arguments)

    mig_mode = _mapped(read(pynvml.nvmlDeviceGetMigMode), _both)
    throttle_reasons = read(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if throttle_reasons.problem == FUNCTION_NOT_FOUND:  # its name before driver 535
        throttle_reasons = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return GpuSnapshot(
        index=index,
        handle=Reading(True),
        name=read(pynvml.nvmlDeviceGetName),
        uuid=read(pynvml.nvmlDeviceGetUUID),
        memory_mib=_mapped(read(pynvml.nvmlDeviceGetMemoryInfo), lambda memory: memory.total // _MIB),
        ecc=_mapped(read(pynvml.nvmlDeviceGetEccMode), _both),
        mig_mode=mig_mode,
        mig_instances=_mig_instances(read, announced, mig_mode),
        throttle_reasons=throttle_reasons,
        temperature=read(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        slowdown_threshold=read(
            pynvml.nvmlDeviceGetTemperatureThreshold, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        ),
        temperature_margin=read(pynvml.nvmlDeviceGetMarginTemperature),
        slowdown_margin=_mapped(_fields(read, (_SLOWDOWN_TLIMIT_FIELD,)), lambda values: values[0]),
        remapped_rows=_remapped_rows(read),
        nvlinks=_nvlinks(read),
        pcie_width=read(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_generation=read(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
        numa_node=_numa_node(read),
        fabric=_fabric(read),
    )


Read = Callable[..., Reading[Any]]


def _reader(announce: Announce, suffix: str) -> Read:
    """Return a function that announces an NVML call, makes it, and turns its error into a Reading."""

    def read(function: Callable[..., Any], *arguments: object) -> Reading[Any]:
        announce(function.__name__ + suffix)
        try:
            return Reading(function(*arguments))
        except pynvml.NVMLError as error:
            return Reading(problem=_kind(error), call=function.__name__)

    return read


def _kind(error: pynvml.NVMLError) -> str:
    """Return the kind of an NVML error, such as `not-supported` or `gpu-lost`."""
    kinds = {
        pynvml.NVML_ERROR_NOT_SUPPORTED: NOT_SUPPORTED,
        pynvml.NVML_ERROR_GPU_IS_LOST: "gpu-lost",
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION: "no-permission",
        pynvml.NVML_ERROR_INVALID_ARGUMENT: "invalid-argument",
        pynvml.NVML_ERROR_NOT_FOUND: "not-found",
    }
    return kinds.get(error.value) or str(error).strip(" .").lower().replace(" ", "-")


def _mapped(reading: Reading[T], change: Callable[[T], U]) -> Reading[U]:
    """Return a reading with its value converted; a reading without a value stays as it is."""
    if reading.value is None:
        return Reading(problem=reading.problem, call=reading.call)
    return Reading(change(reading.value))


def _both(modes: list[int]) -> tuple[bool, bool]:
    return bool(modes[0]), bool(modes[1])


def _fields(read: Read, ids: tuple[int, ...]) -> Reading[list[int]]:
    """Read NVML fields; the result is `not-supported` if one of them has no value."""
    reading = read(pynvml.nvmlDeviceGetFieldValues, list(ids))
    if reading.value is None:
        return reading
    if any(field.nvmlReturn != pynvml.NVML_SUCCESS for field in reading.value):
        return Reading(problem=NOT_SUPPORTED, call="nvmlDeviceGetFieldValues")
    return Reading(
        [
            int(field.value.siVal if field.valueType in _SIGNED_TYPES else field.value.uiVal)
            for field in reading.value
        ]
    )


def _remapped_rows(read: Read) -> Reading[tuple[int, int, bool, bool]]:
    """Read row remapping by the function, or by fields, which may also work while there are GPU instances."""
    rows = read(pynvml.nvmlDeviceGetRemappedRows)
    if rows.problem == NOT_SUPPORTED:
        values = _fields(read, _REMAPPED_FIELDS)
        if values.ok:
            rows = values
    return _mapped(rows, lambda row: (row[0], row[1], bool(row[2]), bool(row[3])))


def _nvlinks(read: Read) -> Reading[list[bool]]:
    """Read whether each link is active; the index after the last link is an invalid argument."""
    links: list[bool] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = read(pynvml.nvmlDeviceGetNvLinkState, link)
        if state.problem == "invalid-argument" or (links and state.problem == NOT_SUPPORTED):
            break
        if not state.ok:
            return Reading(problem=state.problem, call=state.call)
        links.append(bool(state.value))
    return Reading(links)


def _fabric(read: Read) -> Reading[tuple[int, int]]:
    """Read state and status of the registration in the NVLink fabric that connects nodes."""
    info = pynvml.c_nvmlGpuFabricInfo_t()
    reading = read(pynvml.nvmlDeviceGetGpuFabricInfo, ctypes.byref(info))
    if reading.ok and info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return Reading(problem=NOT_SUPPORTED, call="nvmlDeviceGetGpuFabricInfo")
    return _mapped(reading, lambda _: (int(info.state), int(info.status)))


def _mig_instances(read: Read, announced: Read, mode: Reading[tuple[bool, bool]]) -> Reading[dict[str, int]]:
    """Count GPU instances by profile, through their MIG devices (one for each compute instance)."""
    if mode.value is None:
        return Reading(problem=mode.problem, call=mode.call)
    if not mode.value[0]:
        return Reading({})
    maximum = read(pynvml.nvmlDeviceGetMaxMigDeviceCount)
    if maximum.value is None:
        return Reading(problem=maximum.problem, call=maximum.call)
    memory = read(pynvml.nvmlDeviceGetMemoryInfo)
    profiles: dict[int, str] = {}
    for place in range(maximum.value):
        device = read(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, place)
        if device.problem == "not-found":
            continue
        instance = announced(pynvml.nvmlDeviceGetGpuInstanceId, device.value) if device.ok else device
        if instance.value is None:
            return Reading(problem=instance.problem, call=instance.call)
        profile = _mig_profile(announced, device.value, memory)
        if profile.value is None:
            return Reading(problem=profile.problem, call=profile.call)
        profiles[instance.value] = profile.value
    counted: dict[str, int] = {}
    for name in profiles.values():
        counted[name] = counted.get(name, 0) + 1
    return Reading(counted)


def _mig_profile(announced: Read, device: object, memory: Reading[Any]) -> Reading[str]:
    """Return the profile of a MIG device's GPU instance, `1g.10gb`.

    The name of a MIG device has its profile, with the prefix `1c.` if the compute instance is smaller than its GPU
    instance. With older drivers the profile is computed from slices and memory: its memory is the GPU's memory in
    GB times the instance's eighths of it, rounded.
    """
    name = announced(pynvml.nvmlDeviceGetName, device)
    match = re.search(r" MIG (?:\d+c\.)?(\d+g\.\d+gb\S*)$", name.value or "")
    if match:
        return Reading(match.group(1))
    attributes = announced(pynvml.nvmlDeviceGetAttributes, device)
    if attributes.value is None or memory.value is None:
        return Reading(problem=attributes.problem or memory.problem, call=attributes.call or memory.call)
    total_gib = -(-memory.value.total // (1 << 30))
    eighths = -(-attributes.value.memorySizeMB * _MIB * 8 // memory.value.total)
    return Reading(f"{attributes.value.gpuInstanceSliceCount}g.{round(total_gib * eighths / 8)}gb")


def _numa_node(read: Read) -> Reading[int]:
    """Return the NUMA node of the GPU's PCI device, -1 if the platform does not report it.

    sysfs first, because on some virtual machines NVML's affinity is node 0 where the kernel reports -1.
    """
    pci = read(pynvml.nvmlDeviceGetPciInfo)
    if pci.value is not None:
        bus_id = f"{pci.value.domain:04x}:{pci.value.bus:02x}:{pci.value.device:02x}.0"
        root = os.environ.get(SYSFS_VARIABLE, "/sys")
        try:
            with open(f"{root}/bus/pci/devices/{bus_id}/numa_node", encoding="ascii") as file:
                return Reading(int(file.read()))
        except (OSError, ValueError):
            pass
    affinity = read(pynvml.nvmlDeviceGetMemoryAffinity, _NUMA_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE)
    return _mapped(affinity, _only_node)


def _only_node(words: Any) -> int:  # noqa: ANN401 - a C array
    """Return the only node of an affinity mask; -1 for none or several."""
    nodes = [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    return nodes[0] if len(nodes) == 1 else -1
