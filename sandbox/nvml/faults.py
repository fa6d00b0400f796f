"""Faults that a simulated node can have, one typed model each; `python -m sandbox.nvml.run --faults` lists them.

A fault is a small JSON object: `{"kind": "gpu-missing", "index": 3}`. `index` counts the GPUs of the machine
from 0, as they are without any fault.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gpu_platform.base.errors import did_you_mean


def _known_call(name: str) -> str:
    import pynvml  # half of the commands of a sandbox need no names of calls

    known = [one for one in dir(pynvml) if one.startswith("nvml")]
    if re.sub(r"_v\d+$", "", name) not in known:
        allowed = "a function of NVML, such as nvmlDeviceGetTemperature"
        what = {"allowed": allowed, "fix": did_you_mean(name, known)}
        raise PydanticCustomError("gpu_platform", "{allowed}", what)
    return name


NvmlCall = Annotated[str, AfterValidator(_known_call)]
"""Name of a function of NVML."""


class _Fault(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GpuFault(_Fault):
    index: int = Field(ge=0, description="which GPU, from 0")


class GpuMissing(GpuFault):
    """The GPU is not enumerated: the next GPUs move up by one index, as after a reboot without it."""

    kind: Literal["gpu-missing"] = "gpu-missing"


class GpuLost(GpuFault):
    """The GPU fell off the bus: it is counted, and every call about it answers GPU_IS_LOST."""

    kind: Literal["gpu-lost"] = "gpu-lost"


class WrongProduct(GpuFault):
    """The GPU is another model."""

    kind: Literal["wrong-product"] = "wrong-product"
    product: str


class MemoryShort(GpuFault):
    """The GPU reports less memory than its model has."""

    kind: Literal["memory-short"] = "memory-short"
    missing_mib: int = Field(default=8192, ge=1)


class DuplicateUuid(GpuFault):
    """The GPU reports the UUID of its neighbour, GPU 0 (GPU 0 that of GPU 1)."""

    kind: Literal["duplicate-uuid"] = "duplicate-uuid"


class EccDisabled(GpuFault):
    """ECC is off, now and after the next reset."""

    kind: Literal["ecc-disabled"] = "ecc-disabled"


class EccPending(GpuFault):
    """ECC is on and goes off with the next reset."""

    kind: Literal["ecc-pending"] = "ecc-pending"


class HardwareSlowdown(GpuFault):
    """The hardware slows the clocks down, without saying why."""

    kind: Literal["hardware-slowdown"] = "hardware-slowdown"


class PowerBrake(GpuFault):
    """The power supply slows the clocks down."""

    kind: Literal["power-brake"] = "power-brake"


class Thermal(GpuFault):
    """The GPU is above its slowdown temperature and slows down."""

    kind: Literal["thermal"] = "thermal"
    degrees_above: int = Field(default=2, ge=0, description="above the slowdown threshold, °C")


class RowRemapPending(GpuFault):
    """A row waits to be remapped at the next reset."""

    kind: Literal["row-remap-pending"] = "row-remap-pending"


class RowRemapFailed(GpuFault):
    """A row could not be remapped: the bank has no spare rows left."""

    kind: Literal["row-remap-failed"] = "row-remap-failed"


class EccErrors(GpuFault):
    """There were uncorrectable ECC errors since the last reset."""

    kind: Literal["ecc-errors"] = "ecc-errors"
    location: Literal[
        "L1 cache", "L2 cache", "memory", "register file", "texture memory", "shared texture memory", "CBU", "SRAM"
    ] = "memory"
    count: int = Field(default=1, ge=1)


LOCATIONS: Final[tuple[str, ...]] = get_args(EccErrors.model_fields["location"].annotation)
"""In the order of nvmlMemoryLocation_t."""


class SramErrors(GpuFault):
    """The GPU has had more uncorrectable SRAM errors than its threshold."""

    kind: Literal["sram-errors"] = "sram-errors"


class RetiredPages(GpuFault):
    """The GPU, older than Ampere, has retired pages."""

    kind: Literal["retired-pages"] = "retired-pages"
    single_bit: int = Field(default=0, ge=0)
    double_bit: int = Field(default=1, ge=0)
    pending: bool = True


class RecoveryNeeded(GpuFault):
    """The driver asks for an action that recovers the GPU."""

    kind: Literal["recovery-needed"] = "recovery-needed"
    action: Literal[
        "gpu-reset",
        "node-reboot",
        "drain-p2p",
        "drain-and-reset",
        "recover-imex-domain",
        "bus-reset",
        "system-reboot",
    ] = "gpu-reset"


RECOVERY_ACTIONS: Final = ("none", *get_args(RecoveryNeeded.model_fields["action"].annotation))
"""In the order of nvmlDeviceGpuRecoveryAction_t."""


class XidError(GpuFault):
    """The driver wrote an Xid error to the kernel's log, or reports it to those who wait for NVML's events."""

    kind: Literal["xid"] = "xid"
    code: int = Field(default=79, ge=1)
    seconds_ago: int = Field(default=60, ge=0)
    text: str = Field(default="pid='<unknown>', name=<unknown>", description="of the line, after the code")
    seen_by: Literal["kernel-log", "event"] = "kernel-log"


class ComputeProhibited(GpuFault):
    """No process may compute on the GPU."""

    kind: Literal["compute-prohibited"] = "compute-prohibited"


class ClocksLowered(GpuFault):
    """The application clock is half of its default."""

    kind: Literal["clocks-lowered"] = "clocks-lowered"


class PowerLowered(GpuFault):
    """The power limit is half of its default."""

    kind: Literal["power-lowered"] = "power-lowered"


class OtherFirmware(GpuFault):
    """The GPU has another VBIOS than the others."""

    kind: Literal["other-firmware"] = "other-firmware"


class OtherDriver(GpuFault):
    """The GPU runs the GSP firmware of another driver than the others, as after an update that it missed."""

    kind: Literal["other-driver"] = "other-driver"
    version: str = "535.54.03"


class GrowingErrors(GpuFault):
    """A counter of errors that the hardware corrects grows."""

    kind: Literal["growing-errors"] = "growing-errors"
    counter: Literal[
        "PCIe replays", "NVLink CRC errors", "NVLink replays", "NVLink recoveries", "corrected ECC errors"
    ] = "NVLink CRC errors"
    per_minute: int = Field(default=60_000, ge=1)


class DuplicateSerial(GpuFault):
    """The GPU reports the serial number of the first GPU on another board."""

    kind: Literal["duplicate-serial"] = "duplicate-serial"


class PeerAccessLost(GpuFault):
    """The GPU cannot use the memory of another one over NVLink."""

    kind: Literal["peer-access-lost"] = "peer-access-lost"
    peer: int = Field(ge=0, description="the other GPU, from 0")


class NvlinkDegraded(GpuFault):
    """One NVLink of the GPU is inactive."""

    kind: Literal["nvlink-degraded"] = "nvlink-degraded"
    link: int = Field(default=0, ge=0)


class FabricUnregistered(GpuFault):
    """The GPU of a rack-scale machine is not registered in the NVLink fabric."""

    kind: Literal["fabric-unregistered"] = "fabric-unregistered"


class FabricDegraded(GpuFault):
    """The NVLink fabric of the GPU has less bandwidth than it should."""

    kind: Literal["fabric-degraded"] = "fabric-degraded"


class OtherClique(GpuFault):
    """The GPU of a rack-scale machine is in another clique than the others, which it cannot reach."""

    kind: Literal["other-clique"] = "other-clique"
    clique: int = Field(default=7, ge=1)


class ImexMissing(_Fault):
    """The driver of a rack-scale machine offers no IMEX channels: no memory is shared between nodes."""

    kind: Literal["imex-missing"] = "imex-missing"


class NicFault(_Fault):
    nic: int = Field(default=0, ge=0, description="which NIC of the fabric, from 0")


class NicMissing(NicFault):
    """A NIC of the fabric is not on the PCI bus."""

    kind: Literal["nic-missing"] = "nic-missing"


class NicFar(NicFault):
    """A NIC of the fabric is in a slot that is not behind the PCIe switch of its GPU."""

    kind: Literal["nic-far"] = "nic-far"


class NicMtu(NicFault):
    """The network interface of a NIC has another MTU than its network."""

    kind: Literal["nic-mtu"] = "nic-mtu"
    mtu: int = Field(default=1460, ge=68)


class PcieWidth(GpuFault):
    """The PCIe link trained to fewer lanes."""

    kind: Literal["pcie-width"] = "pcie-width"
    width: Literal[1, 2, 4, 8] = 8


class PcieGeneration(GpuFault):
    """The slot offers an older PCIe generation than the GPU has."""

    kind: Literal["pcie-generation"] = "pcie-generation"
    generation: int = Field(default=3, ge=1)


class StrayProcess(GpuFault):
    """A process holds memory on a node that should be idle."""

    kind: Literal["stray-process"] = "stray-process"
    pid: int = Field(default=4242, ge=1)
    memory_mib: int = Field(default=1024, ge=0)


class MigWrongLayout(GpuFault):
    """The GPU has these instances, whatever was asked for."""

    kind: Literal["mig-wrong-layout"] = "mig-wrong-layout"
    instances: dict[str, Annotated[int, Field(ge=0)]]


class MigPending(GpuFault):
    """A change of MIG mode waits for a reset of the GPU: the driver has applied half of it."""

    kind: Literal["mig-pending"] = "mig-pending"


class MigConfigFailed(_Fault):
    """The MIG manager fails: no GPU gets instances (the simulated MIG manager sets the node's label)."""

    kind: Literal["mig-config-failed"] = "mig-config-failed"


class MigChangeFailed(_Fault):
    """A change of MIG fails and leaves the GPUs as they are; the current layout stays valid."""

    kind: Literal["mig-change-failed"] = "mig-change-failed"


class MigChangeSlow(_Fault):
    """A change of MIG takes this long."""

    kind: Literal["mig-change-slow"] = "mig-change-slow"
    seconds: float = Field(default=30.0, ge=0)


class WrongDriver(_Fault):
    """Another driver is installed."""

    kind: Literal["wrong-driver"] = "wrong-driver"
    version: str = "470.57.02"


class NumaUnknown(_Fault):
    """The VM hides the NUMA nodes of the GPUs."""

    kind: Literal["numa-unknown"] = "numa-unknown"


class NvmlMissing(_Fault):
    """There is no NVML library: no driver is installed, or the container was not given it."""

    kind: Literal["nvml-missing"] = "nvml-missing"


class NvmlUnloadable(_Fault):
    """There is an NVML library, but the loader refuses it: a damaged file, another architecture."""

    kind: Literal["nvml-unloadable"] = "nvml-unloadable"
    error: str = "invalid ELF header"


class CallFault(_Fault):
    call: NvmlCall = "nvmlDeviceGetTemperature"
    index: int | None = Field(default=None, ge=0, description="on which GPU, from 0; by default on every one")


class NvmlHang(CallFault):
    """One NVML call never returns."""

    kind: Literal["nvml-hang"] = "nvml-hang"


class NvmlCrash(CallFault):
    """One NVML call ends the process with a segmentation fault."""

    kind: Literal["nvml-crash"] = "nvml-crash"


class NoPermission(CallFault):
    """One NVML call is refused: the container was not given the devices, or runs as somebody who may not ask."""

    kind: Literal["no-permission"] = "no-permission"
    call: NvmlCall = "nvmlInitWithFlags"


class FunctionMissing(_Fault):
    """The driver is too old to have a function."""

    kind: Literal["function-missing"] = "function-missing"
    call: NvmlCall


class SlowHostLink(GpuFault):
    """Copies between host and GPU are slow, which NVML does not show: an active check measures it."""

    kind: Literal["slow-host-link"] = "slow-host-link"
    gb_per_second: float = Field(default=5.0, gt=0)


class SlowNvlink(GpuFault):
    """Copies from another GPU and reductions in the node are slow, which an active check measures."""

    kind: Literal["slow-nvlink"] = "slow-nvlink"
    gb_per_second: float = Field(default=20.0, gt=0)


class WrongProducts(GpuFault):
    """The GPU computes wrong results without an error, which an active check finds."""

    kind: Literal["wrong-products"] = "wrong-products"
    count: int = Field(default=3, ge=1)


class SlowNetwork(_Fault):
    """Reductions between this node and others are slow, which an active check measures."""

    kind: Literal["slow-network"] = "slow-network"
    gb_per_second: float = Field(default=4.0, gt=0)


class RecordedNode(_Fault):
    """The node answers as the one of a recording; alone. `sandbox replay NODE FILE` sets it."""

    kind: Literal["recorded-node"] = "recorded-node"
    recording: str = Field(description="what `node-check --record` wrote, by zlib and base64")


Fault = (
    GpuMissing
    | GpuLost
    | WrongProduct
    | MemoryShort
    | DuplicateUuid
    | EccDisabled
    | EccPending
    | HardwareSlowdown
    | PowerBrake
    | Thermal
    | RowRemapPending
    | RowRemapFailed
    | EccErrors
    | SramErrors
    | RetiredPages
    | RecoveryNeeded
    | XidError
    | ComputeProhibited
    | ClocksLowered
    | PowerLowered
    | OtherFirmware
    | OtherDriver
    | GrowingErrors
    | DuplicateSerial
    | PeerAccessLost
    | NvlinkDegraded
    | FabricUnregistered
    | FabricDegraded
    | OtherClique
    | ImexMissing
    | NicMissing
    | NicFar
    | NicMtu
    | PcieWidth
    | PcieGeneration
    | StrayProcess
    | MigWrongLayout
    | MigPending
    | MigConfigFailed
    | MigChangeFailed
    | MigChangeSlow
    | WrongDriver
    | NumaUnknown
    | NvmlMissing
    | NvmlUnloadable
    | NvmlHang
    | NvmlCrash
    | NoPermission
    | FunctionMissing
    | SlowHostLink
    | SlowNvlink
    | WrongProducts
    | SlowNetwork
    | RecordedNode
)
AnyFault = Annotated[Fault, Field(discriminator="kind")]
# pyrefly: ignore[missing-attribute] - `get_args` loses the element type
_MODELS: tuple[type[_Fault], ...] = Fault.__args__
FAULT_KINDS: tuple[str, ...] = tuple(model.model_fields["kind"].default for model in _MODELS)


def describe_faults() -> str:
    """Return a text with all kinds of faults, their fields with defaults, and their effect."""
    lines: list[str] = []
    for kind, model in zip(FAULT_KINDS, _MODELS, strict=True):
        fields = [
            name if field.is_required() else f"{name}={field.default}"
            for name, field in model.model_fields.items()
            if name != "kind"
        ]
        lines += [f"{kind} {' '.join(fields)}".rstrip(), f"    {model.__doc__}"]
    return "\n".join(lines)
