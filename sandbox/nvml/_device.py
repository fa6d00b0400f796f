"""Functions of the simulated NVML for the identity, memory, clocks, power, processes and PCIe link of a device."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from sandbox.nvml._hardware import REASON_IDLE, MigInstance, SimulatedGpu, SimulatedNode
from sandbox.nvml._symbols import (
    ARGUMENT_VERSION_MISMATCH,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    MIB,
    NOT_SUPPORTED,
    Status,
    fill,
    resolve,
    symbol,
    value_of,
)

_RESERVED_MIB: Final = 600  # memory that the driver reserves on an idle data-centre GPU
_WHOLE_GPU: Final = 0xFFFFFFFF  # NVML's ID for "no GPU or compute instance", for processes on a GPU without MIG
_GRAPHICS, _SM, _MEMORY, _VIDEO = range(4)


@symbol("nvmlDeviceGetName", subject="any")
def name(gpu: SimulatedGpu, instance: MigInstance | None) -> str:
    return gpu.product if instance is None else f"{gpu.product} MIG {instance.profile}"


@symbol("nvmlDeviceGetUUID", subject="any")
def uuid(gpu: SimulatedGpu, instance: MigInstance | None) -> str:
    return gpu.uuid if instance is None else instance.uuid


@symbol("nvmlDeviceGetSerial")
def serial(gpu: SimulatedGpu) -> str:
    return gpu.serial


@symbol("nvmlDeviceGetVbiosVersion")
def vbios_version(gpu: SimulatedGpu) -> str:
    return gpu.vbios


@symbol("nvmlDeviceGetInforomImageVersion")
def inforom_image_version(gpu: SimulatedGpu) -> str:
    del gpu
    return "G500.0200.00.05"


@symbol("nvmlDeviceGetGspFirmwareVersion", subject="node", raw=True)
def gsp_firmware_version(node: SimulatedNode, handle: Any, target: Any) -> None:  # noqa: ANN401 - C arguments
    gpu, _ = resolve(node, value_of(handle))
    fill(target, gpu.gsp_firmware or node.driver_version)


@symbol("nvmlDeviceGetComputeMode")
def compute_mode(gpu: SimulatedGpu) -> int:
    return gpu.compute_mode


@symbol("nvmlDeviceGetApplicationsClock")
def applications_clock(gpu: SimulatedGpu, which: int) -> int:
    return _clock(gpu, which, gpu.sm_mhz[1] if gpu.application_mhz is None else gpu.application_mhz)


@symbol("nvmlDeviceGetDefaultApplicationsClock")
def default_applications_clock(gpu: SimulatedGpu, which: int) -> int:
    return _clock(gpu, which, gpu.sm_mhz[1])


@symbol("nvmlDeviceGetPowerManagementLimit")
def power_limit(gpu: SimulatedGpu) -> int:
    return gpu.milliwatt_limit[0]


@symbol("nvmlDeviceGetPowerManagementDefaultLimit")
def default_power_limit(gpu: SimulatedGpu) -> int:
    return gpu.milliwatt_limit[1]


@symbol("nvmlDeviceGetPcieReplayCounter")
def pcie_replay_counter(gpu: SimulatedGpu) -> int:
    return gpu.grown("PCIe replays") & 0xFFFFFFFF


@symbol("nvmlDeviceGetIndex")
def index(gpu: SimulatedGpu) -> int:
    return gpu.index


@symbol("nvmlDeviceGetPciInfo_v3")
def pci_info(gpu: SimulatedGpu) -> dict[str, object]:
    return {
        "domain": 0,
        "bus": gpu.bus,
        "device": 0,
        "busId": gpu.pci_bus_id.encode(),
        "busIdLegacy": gpu.pci_bus_id.removeprefix("0000").encode(),
    }


@symbol("nvmlDeviceGetMemoryInfo", subject="any")
def memory_info(gpu: SimulatedGpu, instance: MigInstance | None) -> dict[str, int]:
    total = (gpu.memory_mib if instance is None else instance.memory_mib) * MIB
    used = min(total, (_RESERVED_MIB + sum(mib for _, mib in gpu.processes)) * MIB)
    return {"total": total, "used": used, "free": total - used}


@symbol("nvmlDeviceGetMemoryInfo_v2", subject="any", raw=True)
def memory_info_v2(gpu: SimulatedGpu, instance: MigInstance | None, target: Any) -> None:  # noqa: ANN401
    if target._obj.version != (2 << 24 | ctypes.sizeof(target._obj)):
        raise Status(ARGUMENT_VERSION_MISMATCH)
    total = (gpu.memory_mib if instance is None else instance.memory_mib) * MIB
    reserved = min(total, _RESERVED_MIB * MIB)
    used = min(total - reserved, sum(mib for _, mib in gpu.processes) * MIB)
    fill(target._obj, {"total": total, "reserved": reserved, "used": used, "free": total - reserved - used})


@symbol("nvmlDeviceGetPersistenceMode")
def persistence_mode(gpu: SimulatedGpu) -> bool:
    del gpu
    return True


@symbol("nvmlDeviceGetClockInfo")
def clock_info(gpu: SimulatedGpu, which: int) -> int:
    return _clock(gpu, which, gpu.sm_mhz[0])


@symbol("nvmlDeviceGetMaxClockInfo")
def max_clock_info(gpu: SimulatedGpu, which: int) -> int:
    return _clock(gpu, which, gpu.sm_mhz[1])


def _clock(gpu: SimulatedGpu, which: int, sm_mhz: int) -> int:
    if which in {_GRAPHICS, _SM, _VIDEO}:
        return sm_mhz
    if which == _MEMORY:
        return gpu.memory_mhz
    raise Status(INVALID_ARGUMENT)


@symbol("nvmlDeviceGetPowerUsage")
def power_usage(gpu: SimulatedGpu) -> int:
    return gpu.milliwatt


@symbol("nvmlDeviceGetTotalEnergyConsumption")
def total_energy(gpu: SimulatedGpu) -> int:
    """Return the energy in mJ that the GPU uses in one hour at the current power draw."""
    return gpu.milliwatt * 3600


@symbol("nvmlDeviceGetUtilizationRates")
def utilization_rates(gpu: SimulatedGpu) -> dict[str, int]:
    """Return the utilization, which is not supported in MIG mode.

    Source: NVML API reference, nvmlDeviceGetUtilizationRates.
    """
    if gpu.mig_mode:
        raise Status(NOT_SUPPORTED)
    return {"gpu": 0, "memory": 0} if gpu.reasons & REASON_IDLE else {"gpu": 100, "memory": 40}


@symbol("nvmlDeviceGetComputeRunningProcesses_v3", raw=True)
def compute_processes(gpu: SimulatedGpu, size: Any, target: Any) -> None:  # noqa: ANN401 - C arguments
    _processes(gpu.processes, size._obj, target)


@symbol("nvmlDeviceGetGraphicsRunningProcesses_v3", raw=True)
def graphics_processes(gpu: SimulatedGpu, size: Any, target: Any) -> None:  # noqa: ANN401 - C arguments
    del gpu
    _processes((), size._obj, target)


def _processes(processes: tuple[tuple[int, int], ...], size: Any, target: Any) -> None:  # noqa: ANN401
    """Write the processes. If the array is too small, write only their number, with status INSUFFICIENT_SIZE."""
    capacity = size.value
    size.value = len(processes)
    if capacity < len(processes):
        raise Status(INSUFFICIENT_SIZE)
    for place, (pid, mib) in enumerate(processes):
        fill(
            target[place],
            {"pid": pid, "usedGpuMemory": mib * MIB, "gpuInstanceId": _WHOLE_GPU, "computeInstanceId": _WHOLE_GPU},
        )


@symbol("nvmlDeviceGetCurrPcieLinkGeneration")
def current_pcie_generation(gpu: SimulatedGpu) -> int:
    """Return the current PCIe generation. An idle link is trained down to generation 1."""
    return 1 if gpu.reasons & REASON_IDLE else gpu.pcie_link_generation


@symbol("nvmlDeviceGetMaxPcieLinkGeneration")
def link_pcie_generation(gpu: SimulatedGpu) -> int:
    return gpu.pcie_link_generation


@symbol("nvmlDeviceGetGpuMaxPcieLinkGeneration")
def gpu_pcie_generation(gpu: SimulatedGpu) -> int:
    return gpu.pcie_generation


@symbol("nvmlDeviceGetCurrPcieLinkWidth")
def current_pcie_width(gpu: SimulatedGpu) -> int:
    return gpu.pcie_link_width


@symbol("nvmlDeviceGetMaxPcieLinkWidth")
def max_pcie_width(gpu: SimulatedGpu) -> int:
    return gpu.pcie_width
