"""The GPUs of a node as reported by its driver. Operands have no other information about the hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_platform.catalog import Gpu, MachineType
from sandbox.nvml import MigTable, SimulatedNode, mig_table

MigLayout = Mapping[str, int]
"""GPU instances of one GPU: the count of each MIG profile."""

GpuLayouts = tuple[MigLayout | None, ...]
"""One entry per GPU, in index order. An entry is None if MIG mode is off."""


@dataclass(frozen=True, slots=True)
class VisibleGpu:
    """One GPU that NVML counts. `layout` is None if MIG mode is off. If `lost` is set, every call for the GPU
    fails.

    `numa_node` is None if the machine does not report it.
    """

    product: str
    memory_mib: int
    layout: MigLayout | None = None
    lost: bool = False
    uuid: str = field(default="", compare=False)
    pci_bus_id: str = field(default="", compare=False)
    """PCI address in the kernel's format: 0000:65:00.0."""
    numa_node: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware of one node as reported by its driver. `cuda_version` has NVML's encoding: 12020 is 12.2.

    `fabric` is the UUID of the NVLink fabric that connects the node with other nodes, or None if there is no such
    fabric.
    """

    machine: MachineType
    gpu: Gpu
    driver_version: str
    cuda_version: int
    gpus: tuple[VisibleGpu, ...]
    driver_answers: bool = True
    fabric: str | None = None

    @property
    def mig(self) -> MigTable | None:
        """MIG table of the GPU model, or None for a model without MIG."""
        return mig_table(self.gpu.product)

    @property
    def layouts(self) -> GpuLayouts:
        """MIG layout of every GPU."""
        return tuple(gpu.layout for gpu in self.gpus)


def observe(machine: MachineType, gpu: Gpu, node: SimulatedNode, fabric: str | None = None) -> Hardware:
    """Return the hardware that a simulated node's driver reports, including faults.

    `fabric` is the UUID of the NVLink fabric in the node's rack.
    """
    return Hardware(
        machine=machine,
        gpu=gpu,
        driver_version=node.driver_version,
        cuda_version=node.cuda_version,
        gpus=tuple(
            VisibleGpu(
                product=shown.product,
                memory_mib=shown.memory_mib,
                layout=Counter(instance.profile for instance in shown.instances) if shown.mig_mode else None,
                lost=shown.lost,
                uuid=shown.uuid,
                pci_bus_id=shown.pci_bus_id.removeprefix("0000").lower(),
                numa_node=shown.numa_node,
            )
            for shown in node.gpus
        ),
        driver_answers=node.load_error is None,
        fabric=fabric,
    )


def mig_instances(gpus: Iterable[VisibleGpu]) -> dict[str, int]:
    """Return the number of MIG instances of each profile on all of `gpus` together."""
    total: dict[str, int] = {}
    for gpu in gpus:
        for profile, count in (gpu.layout or {}).items():
            total[profile] = total.get(profile, 0) + count
    return {profile: count for profile, count in total.items() if count}


def without_mig(gpus: Iterable[VisibleGpu]) -> tuple[VisibleGpu, ...]:
    """Return the GPUs that are not in MIG mode."""
    return tuple(gpu for gpu in gpus if gpu.layout is None)
