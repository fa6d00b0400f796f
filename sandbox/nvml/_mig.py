"""Functions of the simulated NVML for MIG mode and MIG devices."""

from __future__ import annotations

from sandbox.nvml._hardware import MigInstance, SimulatedGpu
from sandbox.nvml._symbols import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    Status,
    gpu_handle,
    mig_handle,
    symbol,
)

_MOST_INSTANCES = 7


@symbol("nvmlDeviceGetMigMode")
def mig_mode(gpu: SimulatedGpu) -> tuple[bool, bool]:
    if gpu.mig_mode is None:
        raise Status(NOT_SUPPORTED)
    return gpu.mig_mode, gpu.mig_mode != gpu.mig_changes


@symbol("nvmlDeviceGetMaxMigDeviceCount")
def max_mig_device_count(gpu: SimulatedGpu) -> int:
    return _MOST_INSTANCES if gpu.mig_mode else 0


@symbol("nvmlDeviceIsMigDeviceHandle", subject="any")
def is_mig_device(gpu: SimulatedGpu, instance: MigInstance | None) -> bool:
    del gpu
    return instance is not None


@symbol("nvmlDeviceGetMigDeviceHandleByIndex")
def mig_device_by_index(gpu: SimulatedGpu, place: int) -> int:
    if not gpu.mig_mode:
        raise Status(NOT_SUPPORTED)
    if not 0 <= place < _MOST_INSTANCES:
        raise Status(INVALID_ARGUMENT)
    if place >= len(gpu.instances):
        raise Status(NOT_FOUND)
    return mig_handle(gpu.index, place)


@symbol("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", subject="mig")
def parent_of_mig_device(gpu: SimulatedGpu, instance: MigInstance) -> int:
    del instance
    return gpu_handle(gpu.index)


@symbol("nvmlDeviceGetGpuInstanceId", subject="mig")
def gpu_instance_id(gpu: SimulatedGpu, instance: MigInstance) -> int:
    del gpu
    return instance.gpu_instance


@symbol("nvmlDeviceGetComputeInstanceId", subject="mig")
def compute_instance_id(gpu: SimulatedGpu, instance: MigInstance) -> int:
    del gpu, instance
    return 0


@symbol("nvmlDeviceGetAttributes_v2", subject="mig")
def attributes(gpu: SimulatedGpu, instance: MigInstance) -> dict[str, int]:
    del gpu
    return {
        "multiprocessorCount": instance.multiprocessors,
        "sharedCopyEngineCount": instance.slices,
        "gpuInstanceSliceCount": instance.slices,
        "computeInstanceSliceCount": instance.slices,
        "memorySizeMB": instance.memory_mib,
    }
