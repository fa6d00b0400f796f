"""Builds a simulated node: the hardware of a machine type with faults, or a recorded node."""

from __future__ import annotations

import uuid
from dataclasses import replace

from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog import Catalog, MachineType
from sandbox.nvml import faults
from sandbox.nvml._hardware import (
    NO_LIBRARY,
    MigInstance,
    PciDevice,
    SimulatedGpu,
    SimulatedNode,
    cuda_version,
    healthy_gpu,
    simulated_node,
    wrong,
)
from sandbox.nvml._profile import NodeProfile
from sandbox.nvml._recording import Recording, mig_profiles, unpack


def build_node(profile: NodeProfile, catalog: Catalog) -> SimulatedNode:
    """Return the hardware of a profile with its faults.

    Raises BadInput for an unknown machine type or MIG profile, and for a fault on a GPU or link that the machine
    does not have.
    """
    machine = catalog.machine_types.get(profile.machine_type)
    if machine is None:
        known = catalog.machine_types
        raise wrong("machine_type", repr(profile.machine_type), "a machine type of the catalogue",
                     did_you_mean(profile.machine_type, known))  # fmt: skip
    if not machine.has_gpus:
        raise wrong("machine_type", repr(profile.machine_type), "a machine type with GPUs", "")
    for fault in profile.faults:
        if isinstance(fault, faults.RecordedNode):
            return _recorded_node(profile, machine, catalog, fault.recording)
    return simulated_node(profile, machine, catalog)


def _recorded_node(profile: NodeProfile, machine: MachineType, catalog: Catalog, packed: str) -> SimulatedNode:
    """Return a node that answers NVML calls as recorded, with the GPU properties that the GPU Operator needs."""
    path = "faults[0].recording"
    if len(profile.faults) > 1:
        raise wrong("faults", f"{len(profile.faults)} faults", "only recorded-node", "remove the others")
    try:
        recording = unpack(packed)
    except ValueError as error:
        raise wrong(path, str(error), "the value that `gpu-platform sandbox replay` sets") from None
    if recording.gpu_count > machine.gpu_count:
        allowed = f"at most {machine.gpu_count}, the GPUs of {machine.name}"
        raise wrong(path, f"{recording.gpu_count} GPUs", allowed, "replay it on a node of a larger machine type")
    gpu = catalog.gpu_of(machine)
    driver = str(recording.of("nvmlSystemGetDriverVersion") or profile.driver_version)
    error = recording.load_error
    return SimulatedNode(
        driver_version=driver,
        cuda_version=cuda_version(driver),
        cpus=machine.vcpu,
        gpus=tuple(
            _recorded_gpu(recording, healthy_gpu(profile, machine, gpu, index, in_rack=False))
            for index in range(recording.gpu_count)
        ),
        load_error=NO_LIBRARY if error == "" else error,
        xids=tuple(
            (line[0], (line[1], line[2], line[3]), line[4], str(line[5]) if len(line) > 5 else "")
            for line in recording.of("kernel log") or ()
        ),
        log_readable=recording.of("kernel log") is not None,
        pci_devices=_recorded_devices(recording),
        imex_channels=recording.of("IMEX channels of /proc/devices"),
        locked_memory=recording.of("locked memory of /proc/self/limits"),
        numa_files={
            address: numa_node
            for index in range(recording.gpu_count)
            if (numa_node := recording.of("numa_node of sysfs", f"GPU {index}")) is not None
            and (address := _recorded_address(recording, index))
        },
        recording=recording,
    )


def _recorded_gpu(recording: Recording, like: SimulatedGpu) -> SimulatedGpu:
    """Return a GPU with the recorded properties.

    Properties that were not recorded come from the node's machine type.
    """
    device = f"GPU {like.index}"
    memory, modes = recording.of("nvmlDeviceGetMemoryInfo", device), recording.of("nvmlDeviceGetMigMode", device)
    address = recording.of("nvmlDeviceGetPciInfo", device)
    _, problem = recording.answers.get(f"nvmlDeviceGetHandleByIndex on {device}", (None, ""))
    identity = uuid.UUID(like.uuid.removeprefix("GPU-"))
    return replace(
        like,
        product=recording.of("nvmlDeviceGetName", device) or like.product,
        uuid=recording.of("nvmlDeviceGetUUID", device) or like.uuid,
        memory_mib=memory[0] >> 20 if memory else like.memory_mib,
        bus=address[1] if address else like.bus,
        mig_mode=bool(modes[0]) if modes else None,
        instances=tuple(
            MigInstance(
                profile=profile,
                gpu_instance=number,
                slices=int(profile.partition("g.")[0]),
                memory_mib=0,
                multiprocessors=0,
                uuid=f"MIG-{uuid.uuid5(identity, f'{number}/{profile}')}",
            )
            for number, profile in mig_profiles(recording, like.index)
        ),
        lost=problem == "gpu-lost",
    )


def _recorded_devices(recording: Recording) -> tuple[PciDevice, ...] | None:
    found = recording.of("PCI devices of sysfs")
    if found is None:
        return None
    # A recording lists interfaces by kind of NIC, not by NIC, so the first NIC of each kind gets all interfaces.
    left: dict[str, dict[str, int]] = {}
    for kind, name, mtu in recording.of("MTU of sysfs") or ():
        left.setdefault(kind, {})[name] = mtu
    return tuple(PciDevice(kind, address, tuple(above), left.pop(kind, {})) for kind, address, above in found)


def _recorded_address(recording: Recording, index: int) -> str:
    address = recording.of("nvmlDeviceGetPciInfo", f"GPU {index}")
    return f"{address[0]:04x}:{address[1]:02x}:{address[2]:02x}.0" if address else ""
