"""Builds the state behind the simulated NVML from the catalogue's machine type and GPU, MIG tables and faults."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, Gpu, MachineType
from sandbox.nvml import faults
from sandbox.nvml._mig_tables import mig_table
from sandbox.nvml._profile import Nics, NodeProfile
from sandbox.nvml._recording import Recording

_TWO_ON_A_BOARD: Final = ("gb200", "gb300")  # source: NVIDIA/k8s-test-infra#727 (nvidia-smi); read 2026-11-29
_UUIDS: Final = uuid.UUID("8f3a1c52-6d0e-4a67-9b7c-2f5d1e904c11")  # fixed, so that a node keeps its UUIDs
_HGX_GPUS: Final = 8
_FIRST_BUS: Final = 0x10
_FIRST_NIC_BUS: Final = 0x80
_SWITCH: Final = "0000:00:01.0"
_POWER_LIMIT: Final = 400_000  # in mW; any value works, because checks compare it only with the default limit
LINK_SLOTS: Final = {2: 6, 3: 12, 4: 18, 5: 18}  # number of used and unused NVLinks, by NVLink version

NO_LIBRARY: Final = "cannot open shared object file: No such file or directory"  # message of the dynamic loader

# Clock event reasons, as in nvml.h
REASON_IDLE: Final = 0x1
REASON_HARDWARE_SLOWDOWN: Final = 0x8
REASON_HARDWARE_THERMAL: Final = 0x40
REASON_POWER_BRAKE: Final = 0x80

# States of the NVLink fabric between nodes, as in nvml.h
FABRIC_NOT_SUPPORTED: Final = 0
FABRIC_IN_PROGRESS: Final = 2
FABRIC_COMPLETED: Final = 3


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One GPU instance, with one compute instance of the same size."""

    profile: str
    gpu_instance: int
    slices: int
    memory_mib: int
    multiprocessors: int
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpu:
    """One simulated GPU. A field is None if the GPU lacks the feature and NVML answers NOT_SUPPORTED."""

    index: int
    """NVML index of the GPU."""
    uuid: str
    serial: str
    product: str
    memory_mib: int
    bus: int
    ecc: tuple[bool, bool] | None
    """Whether ECC is on now, and whether it is on after the next reset."""
    mig_mode: bool | None
    """Current MIG mode. If `mig_changes` is set, a change is pending."""
    instances: tuple[MigInstance, ...]
    links: tuple[bool, ...]
    nvlink_version: int
    pcie_generation: int
    pcie_link_generation: int
    pcie_width: int
    pcie_link_width: int
    celsius: int
    slowdown_celsius: int
    shutdown_celsius: int
    reasons: int
    remapped_rows: tuple[int, int, bool, bool] | None
    """Numbers of rows remapped for correctable and for uncorrectable errors, whether a remapping is pending, and
    whether a remapping has failed.
    """
    numa_node: int | None
    fabric_state: int
    """nvmlGpuFabricState_t for the NVLink fabric between nodes: 0 not supported, 2 in progress, 3 completed."""
    fabric_cluster: str
    """UUID of the NVLink fabric's cluster, as 32 hexadecimal digits."""
    sm_mhz: tuple[int, int]
    memory_mhz: int
    milliwatt: int
    fabric_clique: int = 0
    fabric_degraded: bool = False
    application_mhz: int | None = None
    """Application clock of the SMs in MHz, or None for the default."""
    milliwatt_limit: tuple[int, int] = (0, 0)
    """Power limit and default power limit in mW."""
    compute_mode: int = 0
    vbios: str = "92.00.45.00.03"
    ecc_errors: Mapping[int, int] = field(default_factory=dict[int, int])
    """Uncorrectable errors since the last reset, by nvmlMemoryLocation_t."""
    sram_exceeded: bool = False
    retired_pages: tuple[int, int, bool] = (0, 0, False)
    """Numbers of pages retired for single-bit and for double-bit errors, and whether a retirement is pending.

    Only for GPUs without `remapped_rows`.
    """
    recovery_action: int = 0
    severed: frozenset[int] = frozenset()
    """PCI bus numbers of the GPUs that this GPU cannot reach over NVLink."""
    processes: tuple[tuple[int, int], ...] = ()
    """Processes, each as a pair of PID and memory in MiB."""
    xids: tuple[tuple[int, int, str], ...] = ()
    """Xid errors in the kernel log, each as a tuple of code, age in seconds and text."""
    events: tuple[int, ...] = ()
    """Codes of the Xid errors that the driver reports to processes waiting for NVML events."""
    mig_changes: bool = False
    gsp_firmware: str | None = None
    """Version of the GSP firmware, or None for the driver's version."""
    growth: Mapping[str, int] = field(default_factory=dict[str, int])
    """Growth per minute of each growing error counter. The keys are counter names from `GrowingErrors`."""
    lost: bool = False

    def grown(self, counter: str) -> int:
        """Return the value of an error counter. It grows at a constant rate from the boot of this machine."""
        return int(time.monotonic() * self.growth.get(counter, 0) / 60)

    @property
    def pci_bus_id(self) -> str:
        """PCI address in NVML's format."""
        return f"00000000:{self.bus:02X}:00.0"


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A GPU or NIC in sysfs: its kind, such as "gpu" or "efa", its address, and the bridges above it.

    `interfaces` maps the names of its network interfaces to their MTU.
    """

    kind: str
    address: str
    bridges: tuple[str, ...]
    interfaces: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """An NVML function that never returns normally, on all GPUs or only on the GPU with the given NVML index."""

    call: str
    gpu: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A simulated node with its hardware, the content of its kernel log and /proc files, and its simulated faults.
    `gpus` is in NVML's order.
    """

    driver_version: str
    cuda_version: int
    cpus: int
    gpus: tuple[SimulatedGpu, ...]
    load_error: str | None = None
    """Why the library cannot be loaded, or None if it can."""
    hangs: BrokenCall | None = None
    crashes: BrokenCall | None = None
    refused: BrokenCall | None = None
    missing_functions: frozenset[str] = field(default_factory=frozenset[str])
    xids: tuple[tuple[int, tuple[int, int, int], int, str], ...] = ()
    """Xid errors in the kernel log, each as a tuple of code, PCI address, age in seconds and text. Code 0 means
    that the driver was loaded.
    """
    events: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    """Pairs of GPU and Xid code that the driver still has to report to processes waiting for NVML events."""
    log_readable: bool = True
    """Whether the node agent may read the kernel log."""
    pci_devices: tuple[PciDevice, ...] | None = None
    """GPUs and NICs in sysfs. None if sysfs has no PCI devices."""
    numa_files: Mapping[str, int] = field(default_factory=dict[str, int])
    """NUMA nodes in sysfs, by PCI address."""
    imex_channels: bool | None = False
    """Whether /proc/devices lists IMEX channels. None if the file is not readable."""
    locked_memory: int | None = -1
    """Bytes that a process may lock, or -1 if the number is unlimited. None if /proc/self/limits is not
    readable.
    """
    recording: Recording | None = None
    """Recording that answers NVML calls in place of the GPUs."""


def simulated_node(profile: NodeProfile, machine: MachineType, catalog: Catalog) -> SimulatedNode:
    """Return the hardware of a machine type with the faults of a profile.

    Raises BadInput for an unknown MIG profile, and for a fault on a GPU or link that the machine does not have.
    """
    gpu = catalog.gpu_of(machine)
    gpus: list[SimulatedGpu | None] = [
        healthy_gpu(profile, machine, gpu, index, in_rack=catalog.nvlink_domain(machine) is not None)
        for index in range(machine.gpu_count)
    ]
    node = SimulatedNode(
        driver_version=profile.driver_version,
        cuda_version=cuda_version(profile.driver_version),
        cpus=machine.vcpu,
        gpus=(),
        imex_channels=catalog.nvlink_domain(machine) is not None,
        pci_devices=pci_devices(profile.nics, machine.gpu_count) if profile.nics is not None else None,
    )
    for place, fault in enumerate(profile.faults):
        path = f"faults[{place}]"
        if isinstance(fault, faults.GpuFault):
            if fault.index >= len(gpus):
                raise wrong(f"{path}.index", str(fault.index), _indices(machine, len(gpus)))
            state = gpus[fault.index]
            if state is not None:
                gpus[fault.index] = _gpu_with(state, fault, gpus, gpu, path)
        else:
            if isinstance(fault, faults.CallFault) and fault.index is not None and fault.index >= len(gpus):
                raise wrong(f"{path}.index", str(fault.index), _indices(machine, len(gpus)))
            node = _node_with(node, fault, path)
            gpus = [_every_gpu_with(state, fault, gpu.model, path) for state in gpus]
    present = [state for state in gpus if state is not None]
    return replace(
        node,
        gpus=tuple(replace(state, index=index) for index, state in enumerate(present)),
        xids=tuple((code, (0, state.bus, 0), age, text) for state in present for code, age, text in state.xids),
        events=deque((index, code) for index, state in enumerate(present) for code in state.events),
    )


def _indices(machine: MachineType, gpus: int) -> str:
    """Return the allowed GPU indices of a fault, with the machine type and its number of GPUs."""
    return f"{'0' if gpus == 1 else f'0 to {gpus - 1}'}: {machine.name} has {counted(gpus, 'GPU')}"


def _serial(profile: NodeProfile, gpu: Gpu, index: int) -> str:
    """Return the serial number of the GPU's board. GB200 and GB300 have two GPUs on a board."""
    board = index // 2 * 2 if gpu.model in _TWO_ON_A_BOARD else index
    return str(uuid.uuid5(_UUIDS, f"{profile.node}/{board}").int % 10**13).zfill(13)


def healthy_gpu(
    profile: NodeProfile, machine: MachineType, gpu: Gpu, index: int, *, in_rack: bool
) -> SimulatedGpu:
    extras = _extras(gpu)
    layout = profile.mig_layout[index] if index < len(profile.mig_layout) else None
    table = mig_table(gpu.product)
    if layout is not None and table is None:
        raise wrong(f"mig_layout[{index}]", repr(layout), f"null: {gpu.model} has no MIG")
    version: int = extras["nvlink_version"]
    slots = max(LINK_SLOTS.get(version, 0), machine.nvlinks_per_gpu) if machine.nvlinks_per_gpu else 0
    identity = uuid.uuid5(_UUIDS, f"{profile.node}/{index}")
    return SimulatedGpu(
        index=index,
        uuid=f"GPU-{identity}",
        serial=_serial(profile, gpu, index),
        product=gpu.product,
        memory_mib=gpu.memory_mib,
        bus=_FIRST_BUS + index,
        ecc=(True, True) if gpu.ecc else None,
        mig_mode=None if table is None else layout is not None,
        instances=_instances(layout or {}, gpu, identity, f"mig_layout[{index}]"),
        # MIG mode disables the NVLinks of an A100: Fabric Manager User Guide, "Interoperability With MIG".
        links=tuple(link < machine.nvlinks_per_gpu and layout is None for link in range(slots)),
        nvlink_version=version,
        pcie_generation=gpu.pcie_generation,
        pcie_link_generation=gpu.pcie_generation,
        pcie_width=gpu.pcie_width,
        pcie_link_width=extras.get("pcie_link_width", gpu.pcie_width),
        celsius=extras["idle_celsius"] + index % 3,
        slowdown_celsius=gpu.slowdown_celsius or extras["slowdown_celsius"],
        shutdown_celsius=extras["shutdown_celsius"],
        reasons=REASON_IDLE,
        remapped_rows=(0, 0, False, False) if gpu.row_remapping else None,
        numa_node=machine.numa_nodes[index] if machine.numa_nodes else None,
        fabric_state=FABRIC_COMPLETED if in_rack or _has_fabric(machine, gpu) else FABRIC_NOT_SUPPORTED,
        fabric_cluster=uuid.uuid5(_UUIDS, machine.name).hex if in_rack else "0" * 32,
        sm_mhz=tuple(extras["sm_mhz"]),
        memory_mhz=extras["memory_mhz"],
        milliwatt=extras["idle_watt"] * 1000,
        milliwatt_limit=(_POWER_LIMIT, _POWER_LIMIT),
    )


def _has_fabric(machine: MachineType, gpu: Gpu) -> bool:
    """Return whether a fabric manager registers the GPUs, as on HGX baseboards since Hopper."""
    switched = gpu.architecture in {"hopper", "blackwell"} and machine.nvlinks_per_gpu > 0
    return switched and machine.gpu_count >= _HGX_GPUS


def _instances(layout: Mapping[str, int], gpu: Gpu, identity: uuid.UUID, path: str) -> tuple[MigInstance, ...]:
    """Return the MIG instances of a layout, in order. Raises BadInput for an unknown profile."""
    found: list[MigInstance] = []
    table = mig_table(gpu.product)
    for name, count in layout.items():
        profile = table.profile(name) if table else None
        if table is None or profile is None:
            known = [each.name for each in table.profiles] if table else []
            allowed = ", ".join(known) or f"none, because {gpu.model} does not support MIG"
            raise wrong(f"{path}.{name}", repr(name), allowed, did_you_mean(name, known))
        for _ in range(count):
            number = len(found) + 1
            found.append(
                MigInstance(
                    profile=name,
                    gpu_instance=number,
                    slices=profile.compute_slices,
                    memory_mib=table.memory_mib(profile, gpu.memory_mib),
                    multiprocessors=profile.compute_slices * int(_extras(gpu)["sms_per_slice"]),
                    uuid=f"MIG-{uuid.uuid5(identity, f'{number}/{name}')}",
                )
            )
    return tuple(found)


def _gpu_with(
    state: SimulatedGpu, fault: faults.GpuFault, gpus: Sequence[SimulatedGpu | None], gpu: Gpu, path: str
) -> SimulatedGpu | None:
    """Return one GPU with one fault, or None if the fault removes the GPU."""
    match fault:
        case faults.GpuMissing():
            return None
        case faults.GpuLost():
            return replace(state, lost=True)
        case faults.WrongProduct():
            return replace(state, product=fault.product)
        case faults.MemoryShort():
            return replace(state, memory_mib=max(0, state.memory_mib - fault.missing_mib))
        case faults.DuplicateUuid():
            others = [other for other in gpus if other is not None and other is not state]
            return replace(state, uuid=others[0].uuid) if others else state
        case faults.EccDisabled():
            return replace(state, ecc=(False, False))
        case faults.EccPending():
            return replace(state, ecc=(True, False))
        case faults.HardwareSlowdown():
            return replace(state, reasons=state.reasons | REASON_HARDWARE_SLOWDOWN)
        case faults.PowerBrake():
            return replace(state, reasons=state.reasons | REASON_HARDWARE_SLOWDOWN | REASON_POWER_BRAKE)
        case faults.Thermal():
            hot = state.reasons | REASON_HARDWARE_SLOWDOWN | REASON_HARDWARE_THERMAL
            return replace(state, celsius=state.slowdown_celsius + fault.degrees_above, reasons=hot)
        case faults.RowRemapPending():
            return replace(state, remapped_rows=(0, 1, True, False), recovery_action=1)
        case faults.RowRemapFailed():
            return replace(state, remapped_rows=(0, 8, False, True))
        case faults.EccErrors():
            return replace(state, ecc_errors={faults.LOCATIONS.index(fault.location): fault.count})
        case faults.SramErrors():
            return replace(state, sram_exceeded=True)
        case faults.RetiredPages():
            if state.remapped_rows is not None:
                raise wrong(path, fault.kind, f"none on {gpu.model}, which remaps rows instead")
            return replace(state, retired_pages=(fault.single_bit, fault.double_bit, fault.pending))
        case faults.RecoveryNeeded():
            return replace(state, recovery_action=faults.RECOVERY_ACTIONS.index(fault.action))
        case faults.XidError():
            if fault.seen_by == "event":
                return replace(state, events=(*state.events, fault.code))
            return replace(state, xids=(*state.xids, (fault.code, fault.seconds_ago, f", {fault.text}")))
        case faults.ComputeProhibited():
            return replace(state, compute_mode=2)
        case faults.ClocksLowered():
            return replace(state, application_mhz=state.sm_mhz[1] // 2)
        case faults.PowerLowered():
            return replace(state, milliwatt_limit=(state.milliwatt_limit[1] // 2, state.milliwatt_limit[1]))
        case faults.OtherFirmware():
            return replace(state, vbios="92.00.19.00.01")
        case faults.OtherDriver():
            return replace(state, gsp_firmware=fault.version)
        case faults.GrowingErrors():
            if fault.counter.startswith("NVLink") and not state.links:
                raise wrong(f"{path}.counter", fault.counter, f"another counter: no NVLink on {gpu.model}")
            if "ECC" in fault.counter and state.ecc is None:
                raise wrong(f"{path}.counter", fault.counter, f"another counter: no ECC on {gpu.model}")
            return replace(state, growth={**state.growth, fault.counter: fault.per_minute})
        case faults.DuplicateSerial():
            others = [other.serial for other in gpus if other is not None and other.serial != state.serial]
            return replace(state, serial=others[0]) if others else state
        case faults.PeerAccessLost():
            other = gpus[fault.peer] if fault.peer < len(gpus) and fault.peer != fault.index else None
            if other is None or not state.links:
                raise wrong(f"{path}.peer", str(fault.peer), f"another GPU with NVLink, 0 to {len(gpus) - 1}")
            return replace(state, severed=state.severed | {other.bus})
        case faults.NvlinkDegraded():
            if fault.link >= len(state.links):
                allowed = (
                    f"0 to {len(state.links) - 1}" if state.links else f"none, because {gpu.model} has no NVLink"
                )
                raise wrong(f"{path}.link", str(fault.link), allowed)
            links = tuple(up and link != fault.link for link, up in enumerate(state.links))
            return replace(state, links=links)
        case faults.FabricUnregistered():
            if state.fabric_state == FABRIC_NOT_SUPPORTED:
                raise wrong(path, fault.kind, f"none on {gpu.model} in this machine: no NVLink to other nodes")
            return replace(state, fabric_state=FABRIC_IN_PROGRESS)
        case faults.FabricDegraded():
            if state.fabric_state == FABRIC_NOT_SUPPORTED:
                raise wrong(path, fault.kind, f"none on {gpu.model} in this machine: no fabric manager")
            return replace(state, fabric_degraded=True)
        case faults.OtherClique():
            if not state.fabric_cluster.strip("0"):
                raise wrong(path, fault.kind, f"none on {gpu.model} in this machine: no NVLink to other nodes")
            return replace(state, fabric_clique=fault.clique)
        case faults.PcieWidth():
            return replace(state, pcie_link_width=fault.width)
        case faults.PcieGeneration():
            return replace(state, pcie_link_generation=fault.generation)
        case faults.StrayProcess():
            return replace(state, processes=(*state.processes, (fault.pid, fault.memory_mib)))
        case faults.MigWrongLayout():
            identity = uuid.UUID(state.uuid.removeprefix("GPU-"))
            instances = _instances(fault.instances, gpu, identity, f"{path}.instances")
            return replace(state, mig_mode=True, instances=instances)
        case faults.MigPending():
            if state.mig_mode is None:
                raise wrong(path, fault.kind, f"none on {gpu.model}: it has no MIG")
            return replace(state, mig_changes=True)
        case faults.SlowHostLink() | faults.SlowNvlink() | faults.WrongProducts():
            return state  # these faults change only the results of active checks, not the values in NVML
        case _:
            raise AssertionError(f"no effect for {fault!r}")


def _node_with(node: SimulatedNode, fault: faults.Fault, path: str) -> SimulatedNode:
    match fault:
        case faults.WrongDriver():
            return replace(node, driver_version=fault.version, cuda_version=cuda_version(fault.version))
        case faults.NvmlMissing():
            return replace(node, load_error=NO_LIBRARY)
        case faults.NvmlUnloadable():
            return replace(node, load_error=fault.error)
        case faults.NvmlHang():
            return replace(node, hangs=BrokenCall(fault.call, fault.index))
        case faults.NvmlCrash():
            return replace(node, crashes=BrokenCall(fault.call, fault.index))
        case faults.NoPermission():
            return replace(node, refused=BrokenCall(fault.call, fault.index))
        case faults.ImexMissing():
            if not node.imex_channels:
                raise wrong(path, fault.kind, "none on this machine: no NVLink to other nodes")
            return replace(node, imex_channels=False)
        case faults.LockedMemory():
            return replace(node, locked_memory=fault.limit)
        case faults.NicMissing() | faults.NicFar() | faults.NicMtu():
            return replace(node, pci_devices=_devices_with(node.pci_devices, fault, path))
        case faults.FunctionMissing():
            return replace(node, missing_functions=node.missing_functions | {fault.call})
        case _:
            return node


def pci_devices(nics: Nics, gpus: int) -> tuple[PciDevice, ...]:
    """Return the GPUs and NICs in sysfs. Each GPU shares a PCIe switch with the NICs next to it."""
    found = [
        PciDevice("gpu", f"0000:{_FIRST_BUS + index:02x}:00.0", (f"pci0000:{index:02x}", _SWITCH))
        for index in range(gpus)
    ]
    for number in range(nics.count):
        near = found[number * gpus // nics.count]
        interfaces = {f"eth{number + 1}": nics.mtu} if nics.mtu else {}
        found.append(PciDevice(nics.kind, f"0000:{_FIRST_NIC_BUS + number:02x}:00.0", near.bridges, interfaces))
    return tuple(found)


def _devices_with(
    devices: tuple[PciDevice, ...] | None, fault: faults.NicFault, path: str
) -> tuple[PciDevice, ...]:
    """Return the PCI devices with one NIC fault applied."""
    nics = [one for one in devices or () if one.kind != "gpu"]
    if devices is None or fault.nic >= len(nics):
        raise wrong(
            f"{path}.nic",
            str(fault.nic),
            f"0 to {len(nics) - 1}: its NICs" if nics else "none, because the machine has no NICs",
        )
    nic = nics[fault.nic]
    match fault:
        case faults.NicMtu():
            if not nic.interfaces:
                raise wrong(path, fault.kind, f"none of {nic.kind}: it has no network interface")
            changed = [replace(nic, interfaces=dict.fromkeys(nic.interfaces, fault.mtu))]
        case faults.NicFar():
            changed = [replace(nic, bridges=("pci0000:ff",))]
        case _:
            changed = list[PciDevice]()
    return tuple(new for one in devices for new in (changed if one is nic else [one]))


def _every_gpu_with(state: SimulatedGpu | None, fault: faults.Fault, model: str, path: str) -> SimulatedGpu | None:
    of_mig = isinstance(fault, faults.MigConfigFailed | faults.MigChangeFailed | faults.MigChangeSlow)
    if of_mig and state is not None and state.mig_mode is None:
        raise wrong(path, fault.kind, f"none on {model}: it has no MIG")
    match fault:
        case faults.NumaUnknown() if state is not None:
            return replace(state, numa_node=None)
        case faults.MigConfigFailed() if state is not None:
            return replace(state, instances=())
        case _:
            return state


def wrong(path: str, found: str, allowed: str, fix: str = "") -> BadInput:
    """Return the error for one mistake in a node profile."""
    return BadInput("simulated node", [Problem(path, found, allowed, fix)])


@cache
def _facts() -> Mapping[str, Any]:
    text = (resources.files("sandbox.nvml") / "hardware.yaml").read_text("utf-8")
    return yaml.load(text, Loader=yaml.CSafeLoader)


def _extras(gpu: Gpu) -> Mapping[str, Any]:
    facts = _facts()
    return {**facts["architectures"][gpu.architecture], **facts["gpus"].get(gpu.model, {})}


def cuda_version(driver_version: str) -> int:
    """Return the CUDA version of a driver in NVML's encoding, or 0 for a driver older than all known branches."""
    branch = driver_version.partition(".")[0]
    versions: Mapping[int, int] = _facts()["cuda_by_driver_branch"]
    known = [first for first in versions if branch.isdecimal() and first <= int(branch)]
    return versions[max(known)] if known else 0
