"""The DRA driver: the devices that it publishes for a node's GPUs as ResourceSlices. The functions are pure.

The rules follow kubernetes-sigs/dra-driver-nvidia-gpu (cmd/gpu-kubelet-plugin: deviceinfo.go, mig.go,
partitions.go, nvlib.go, driver.go), read 2026-11-21. MIG profiles and placements come from the sandbox's tables
(`sandbox/nvml/mig_tables.yaml`). PCIe root, NUMA node and copy engines are not simulated. A counter of compute
slices replaces the counter of multiprocessors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import Gpu
from sandbox.nvml import ENGINES, InstanceProfile, MigTable
from sandbox.simulator.hardware import Hardware, VisibleGpu

Device = dict[str, Any]
SliceSpec = dict[str, Any]

_ARCHITECTURES: Final = {
    "volta": "Volta",
    "turing": "Turing",
    "ampere": "Ampere",
    "ada": "Ada Lovelace",
    "hopper": "Hopper",
    "blackwell": "Blackwell",
}
_TOGGLE_MIG: Final = ("hopper", "blackwell")  # GPUs of these architectures change their MIG mode without a reset


def slice_specs(node: str, hardware: Hardware, *, dynamic_mig: bool) -> list[SliceSpec]:
    """Return the ResourceSlices of a node, in one pool with the node's name. The pool's generation is not set.

    Without partitions, one slice contains all devices. With partitions, one slice contains the counters, and each
    GPU has its own slice (Kubernetes 1.35 and newer: driver.go, generateSplitResourceSlices).
    """
    if not hardware.driver_answers:
        return []
    table = _dynamic_mig_table(hardware) if dynamic_mig else None
    if table is not None:
        contents: list[dict[str, Any]] = [
            {"sharedCounters": [_counter_set(index, table) for index in range(len(hardware.gpus))]},
            *({"devices": _partitions(index, gpu, hardware, table)} for index, gpu in enumerate(hardware.gpus)),
        ]
    else:
        devices = [device for index, gpu in enumerate(hardware.gpus) for device in _as_found(index, gpu, hardware)]
        contents = [{"devices": devices}]
    pool = {"name": node, "resourceSliceCount": len(contents)}
    return [{"driver": names.DRA_DRIVER, "nodeName": node, "pool": pool, **content} for content in contents]


def _dynamic_mig_table(hardware: Hardware) -> MigTable | None:
    """Return the MIG table of GPUs with published partitions (nvlib.go, isDynamicMIGCapable), or None.

    For an Ampere GPU with MIG off, the driver publishes whole GPUs. With MIG on, it publishes only partitions, but
    no pool has this configuration.
    """
    return hardware.mig if hardware.gpu.architecture in _TOGGLE_MIG else None


def _as_found(index: int, gpu: VisibleGpu, hardware: Hardware) -> Iterator[Device]:
    """Yield the MIG devices of a GPU in MIG mode, or the GPU itself."""
    if gpu.layout is None:
        yield {
            "name": f"gpu-{index}",
            "attributes": {**_attributes(gpu, hardware), "type": {"string": "gpu"}, "uuid": {"string": gpu.uuid}},
            "capacity": {"memory": {"value": f"{gpu.memory_mib}Mi"}},
        }
        return
    table = hardware.mig
    if table is None:
        return
    for instance in table.place(gpu.layout) or ():
        device = _mig_device(index, gpu, hardware, table, instance.profile, instance.start)
        uuid = {"uuid": {"string": f"MIG-{gpu.uuid.removeprefix('GPU-')}-{instance.start}"}}
        yield {**device, "attributes": {**device["attributes"], **uuid}}


def _partitions(index: int, gpu: VisibleGpu, hardware: Hardware, table: MigTable) -> list[Device]:
    """Return the whole GPU and every possible GPU instance as devices, each with the counters that it consumes."""
    whole = {
        "name": f"gpu-{index}",
        "attributes": {**_attributes(gpu, hardware), "type": {"string": "gpu"}, "uuid": {"string": gpu.uuid}},
        "capacity": {"memory": {"value": f"{gpu.memory_mib}Mi"}},
        "consumesCounters": _consumed(index, _all_counters(table)),
    }
    instances = [
        {
            **_mig_device(index, gpu, hardware, table, profile, start),
            "consumesCounters": _consumed(index, _counters(profile, start)),
        }
        for profile in table.profiles
        for start in profile.starts
    ]
    return [whole, *instances]


def _mig_device(
    index: int, gpu: VisibleGpu, hardware: Hardware, table: MigTable, profile: InstanceProfile, start: int
) -> Device:
    name = profile.name.replace(".", "").replace("+", "-")
    return {
        "name": f"gpu-{index}-mig-{name}-{profile.number}-{start}",
        "attributes": {
            **_attributes(gpu, hardware),
            "type": {"string": "mig"},
            "parentUUID": {"string": gpu.uuid},
            "profile": {"string": profile.name},
        },
        "capacity": {"memory": {"value": f"{table.memory_mib(profile, gpu.memory_mib)}Mi"}},
    }


def _attributes(gpu: VisibleGpu, hardware: Hardware) -> dict[str, dict[str, str]]:
    model: Gpu = hardware.gpu
    cuda = f"{hardware.cuda_version // 1000}.{hardware.cuda_version % 1000 // 10}"
    found = {
        "productName": {"string": gpu.product},
        "brand": {"string": "Tesla" if model.architecture in ("volta", "turing") else "Nvidia"},
        "architecture": {"string": _ARCHITECTURES[model.architecture]},
        "cudaComputeCapability": {"version": semantic_version(model.compute_capability)},
        "driverVersion": {"version": semantic_version(hardware.driver_version)},
        "cudaDriverVersion": {"version": semantic_version(cuda)},
    }
    if gpu.pci_bus_id:
        found["resource.kubernetes.io/pciBusID"] = {"string": gpu.pci_bus_id}
    return found


def semantic_version(version: str) -> str:
    """Return a version in the driver's format, three numbers without leading zeros: 580.95.5 for 580.95.05."""
    numbers = [int(part) for part in version.split(".")]
    return ".".join(str(number) for number in (*numbers, 0, 0)[:3])


# -- counters ---------------------------------------------------------------------------------------------


def _counter_set(index: int, table: MigTable) -> dict[str, Any]:
    return {"name": _set_name(index), "counters": _values(_all_counters(table))}


def _consumed(index: int, counters: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"counterSet": _set_name(index), "counters": _values(counters)}]


def _set_name(index: int) -> str:
    return f"gpu-{index}-counter-set"


def _all_counters(table: MigTable) -> dict[str, int]:
    return _counters(table.whole, 0)


def _counters(profile: InstanceProfile, start: int) -> dict[str, int]:
    engines = {name: count for name, count in zip(ENGINES, profile.engines, strict=True) if count}
    return {
        "compute-slices": profile.compute_slices,
        **engines,
        **{f"memory-slice-{index}": 1 for index in profile.units(start)},
    }


def _values(counters: Mapping[str, int]) -> dict[str, dict[str, str]]:
    return {name: {"value": str(value)} for name, value in counters.items()}
