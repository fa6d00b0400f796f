"""Faults that a simulated node can have, each with a typed model. `python -m sandbox.nvml.run --faults` lists
them.

A fault is a small JSON object: `{"kind": "gpu-missing", "index": 3}`. `index` counts from 0 and refers to the GPUs
that the machine has without any faults.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gpu_platform.base.errors import did_you_mean


def _known_call(name: str) -> str:
    import pynvml  # imported late, because half of the sandbox's commands need no NVML function names

    known = [one for one in dir(pynvml) if one.startswith("nvml")]
    if re.sub(r"_v\d+$", "", name) not in known:
        allowed = "an NVML function, such as nvmlDeviceGetTemperature"
        what = {"allowed": allowed, "fix": did_you_mean(name, known)}
        raise PydanticCustomError("gpu_platform", "{allowed}", what)
    return name


NvmlCall = Annotated[str, AfterValidator(_known_call)]
"""Name of an NVML function."""


class _Fault(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GpuFault(_Fault):
    index: int = Field(ge=0, description="index of the GPU, from 0")


class GpuMissing(GpuFault):
    """The GPU is not enumerated. The indices of the following GPUs decrease by one, as after a reboot without the
    GPU.
    """

    kind: Literal["gpu-missing"] = "gpu-missing"


class GpuLost(GpuFault):
    """The GPU fell off the bus: NVML still counts it, but every call on it returns GPU_IS_LOST."""

    kind: Literal["gpu-lost"] = "gpu-lost"


class WrongProduct(GpuFault):
    """The GPU reports the product name of a different model."""

    kind: Literal["wrong-product"] = "wrong-product"
    product: str


class MemoryShort(GpuFault):
    """The GPU reports less memory than its model has."""

    kind: Literal["memory-short"] = "memory-short"
    missing_mib: int = Field(default=8192, ge=1)


class DuplicateUuid(GpuFault):
    """The GPU reports the UUID of GPU 0, or the UUID of GPU 1 if it is GPU 0 itself."""

    kind: Literal["duplicate-uuid"] = "duplicate-uuid"


class EccDisabled(GpuFault):
    """ECC is off, now and after the next reset."""

    kind: Literal["ecc-disabled"] = "ecc-disabled"


class EccPending(GpuFault):
    """ECC is on, and will be off after the next reset."""

    kind: Literal["ecc-pending"] = "ecc-pending"


class HardwareSlowdown(GpuFault):
    """The hardware slows the clocks down without reporting a reason."""

    kind: Literal["hardware-slowdown"] = "hardware-slowdown"


class PowerBrake(GpuFault):
    """The power supply makes the GPU lower its clocks."""

    kind: Literal["power-brake"] = "power-brake"


class Thermal(GpuFault):
    """The GPU is above its slowdown temperature and runs slower."""

    kind: Literal["thermal"] = "thermal"
    degrees_above: int = Field(default=2, ge=0, description="above the slowdown threshold, °C")


class RowRemapPending(GpuFault):
    """A row will be remapped at the next reset."""

    kind: Literal["row-remap-pending"] = "row-remap-pending"


class RowRemapFailed(GpuFault):
    """A row could not be remapped, because the bank has no spare rows left."""

    kind: Literal["row-remap-failed"] = "row-remap-failed"


class EccErrors(GpuFault):
    """Uncorrectable ECC errors have occurred since the last reset."""

    kind: Literal["ecc-errors"] = "ecc-errors"
    location: Literal[
        "L1 cache", "L2 cache", "memory", "register file", "texture memory", "shared texture memory", "CBU", "SRAM"
    ] = "memory"
    count: int = Field(default=1, ge=1)


LOCATIONS: Final[tuple[str, ...]] = get_args(EccErrors.model_fields["location"].annotation)
"""Memory locations in the order of nvmlMemoryLocation_t."""


class SramErrors(GpuFault):
    """The GPU has exceeded its threshold of uncorrectable SRAM errors."""

    kind: Literal["sram-errors"] = "sram-errors"


class RetiredPages(GpuFault):
    """The GPU, which is older than Ampere, has retired pages."""

    kind: Literal["retired-pages"] = "retired-pages"
    single_bit: int = Field(default=0, ge=0)
    double_bit: int = Field(default=1, ge=0)
    pending: bool = True


class RecoveryNeeded(GpuFault):
    """The driver requests an action to recover the GPU."""

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
"""Recovery actions in the order of nvmlDeviceGpuRecoveryAction_t."""


class XidError(GpuFault):
    """The driver wrote an Xid error to the kernel log, or reported it as an NVML event."""

    kind: Literal["xid"] = "xid"
    code: int = Field(default=79, ge=1)
    seconds_ago: int = Field(default=60, ge=0)
    text: str = Field(default="pid='<unknown>', name=<unknown>", description="text of the log line after the code")
    seen_by: Literal["kernel-log", "event"] = "kernel-log"


class ComputeProhibited(GpuFault):
    """Processes are not allowed to compute on the GPU."""

    kind: Literal["compute-prohibited"] = "compute-prohibited"


class ClocksLowered(GpuFault):
    """The application clock is half the default."""

    kind: Literal["clocks-lowered"] = "clocks-lowered"


class PowerLowered(GpuFault):
    """The power limit is half the default."""

    kind: Literal["power-lowered"] = "power-lowered"


class OtherFirmware(GpuFault):
    """The GPU has a different VBIOS from the other GPUs."""

    kind: Literal["other-firmware"] = "other-firmware"


class OtherDriver(GpuFault):
    """The GPU runs the GSP firmware of a different driver than the other GPUs, as after a missed update."""

    kind: Literal["other-driver"] = "other-driver"
    version: str = "535.54.03"


class GrowingErrors(GpuFault):
    """A counter of errors that the hardware corrects keeps growing."""

    kind: Literal["growing-errors"] = "growing-errors"
    counter: Literal[
        "PCIe replays", "NVLink CRC errors", "NVLink replays", "NVLink recoveries", "corrected ECC errors"
    ] = "NVLink CRC errors"
    per_minute: int = Field(default=60_000, ge=1)


class DuplicateSerial(GpuFault):
    """The GPU reports the serial number of the first GPU on another board."""

    kind: Literal["duplicate-serial"] = "duplicate-serial"


class PeerAccessLost(GpuFault):
    """The GPU cannot access the memory of another GPU over NVLink."""

    kind: Literal["peer-access-lost"] = "peer-access-lost"
    peer: int = Field(ge=0, description="index of the other GPU, from 0")


class NvlinkDegraded(GpuFault):
    """One NVLink of the GPU is inactive."""

    kind: Literal["nvlink-degraded"] = "nvlink-degraded"
    link: int = Field(default=0, ge=0)


class FabricUnregistered(GpuFault):
    """The GPU of a rack-scale machine is not registered in the NVLink fabric."""

    kind: Literal["fabric-unregistered"] = "fabric-unregistered"


class FabricDegraded(GpuFault):
    """The NVLink fabric of the GPU has less bandwidth than expected."""

    kind: Literal["fabric-degraded"] = "fabric-degraded"


class OtherClique(GpuFault):
    """The GPU of a rack-scale machine is in a different clique from the other GPUs and cannot reach them."""

    kind: Literal["other-clique"] = "other-clique"
    clique: int = Field(default=7, ge=1)


class ImexMissing(_Fault):
    """The driver of a rack-scale machine offers no IMEX channels, so nodes cannot share GPU memory."""

    kind: Literal["imex-missing"] = "imex-missing"


class NicFault(_Fault):
    nic: int = Field(default=0, ge=0, description="index of the fabric NIC, from 0")


class NicMissing(NicFault):
    """A fabric NIC is not on the PCI bus."""

    kind: Literal["nic-missing"] = "nic-missing"


class NicFar(NicFault):
    """A fabric NIC is in a slot that is not behind the PCIe switch of its GPU."""

    kind: Literal["nic-far"] = "nic-far"


class NicMtu(NicFault):
    """The network interface of a NIC has a different MTU from its network."""

    kind: Literal["nic-mtu"] = "nic-mtu"
    mtu: int = Field(default=1460, ge=68)


class LockedMemory(_Fault):
    """The container runtime has systemd's default limit of locked memory, and containers inherit it."""

    kind: Literal["locked-memory"] = "locked-memory"
    limit: int = Field(default=8 * 2**20, ge=0, description="limit in bytes")


class PcieWidth(GpuFault):
    """The PCIe link was trained to fewer lanes."""

    kind: Literal["pcie-width"] = "pcie-width"
    width: Literal[1, 2, 4, 8] = 8


class PcieGeneration(GpuFault):
    """The slot supports only an older PCIe generation than the GPU."""

    kind: Literal["pcie-generation"] = "pcie-generation"
    generation: int = Field(default=3, ge=1)


class StrayProcess(GpuFault):
    """A process uses GPU memory on a node that should be idle."""

    kind: Literal["stray-process"] = "stray-process"
    pid: int = Field(default=4242, ge=1)
    memory_mib: int = Field(default=1024, ge=0)


class MigWrongLayout(GpuFault):
    """The GPU has the given instances, whatever layout was requested."""

    kind: Literal["mig-wrong-layout"] = "mig-wrong-layout"
    instances: dict[str, Annotated[int, Field(ge=0)]]


class MigPending(GpuFault):
    """A change to the MIG mode is waiting for a GPU reset, and the driver has applied only half of it."""

    kind: Literal["mig-pending"] = "mig-pending"


class MigConfigFailed(_Fault):
    """The MIG manager creates no instances and sets the label `nvidia.com/mig.config.state` to `failed`."""

    kind: Literal["mig-config-failed"] = "mig-config-failed"


class MigChangeFailed(_Fault):
    """A MIG change fails and does not affect the GPUs. The current layout remains valid."""

    kind: Literal["mig-change-failed"] = "mig-change-failed"


class MigChangeSlow(_Fault):
    """A MIG change takes the given number of seconds."""

    kind: Literal["mig-change-slow"] = "mig-change-slow"
    seconds: float = Field(default=30.0, ge=0)


class WrongDriver(_Fault):
    """The node has a driver with a different version than expected."""

    kind: Literal["wrong-driver"] = "wrong-driver"
    version: str = "470.57.02"


class NumaUnknown(_Fault):
    """The VM hides the NUMA nodes of the GPUs."""

    kind: Literal["numa-unknown"] = "numa-unknown"


class NvmlMissing(_Fault):
    """There is no NVML library, because there is no driver or the container does not mount the library."""

    kind: Literal["nvml-missing"] = "nvml-missing"


class NvmlUnloadable(_Fault):
    """The dynamic loader rejects the NVML library, as it does if the file is damaged or has the wrong
    architecture.
    """

    kind: Literal["nvml-unloadable"] = "nvml-unloadable"
    error: str = "invalid ELF header"


class CallFault(_Fault):
    call: NvmlCall = "nvmlDeviceGetTemperature"
    index: int | None = Field(default=None, ge=0, description="index of the GPU, from 0; by default every GPU")


class NvmlHang(CallFault):
    """One NVML call never returns."""

    kind: Literal["nvml-hang"] = "nvml-hang"


class NvmlCrash(CallFault):
    """One NVML call ends the process with a segmentation fault."""

    kind: Literal["nvml-crash"] = "nvml-crash"


class NoPermission(CallFault):
    """One NVML call is refused, because the container lacks the devices or its user lacks the permission."""

    kind: Literal["no-permission"] = "no-permission"
    call: NvmlCall = "nvmlInitWithFlags"


class FunctionMissing(_Fault):
    """The driver is too old to have this function."""

    kind: Literal["function-missing"] = "function-missing"
    call: NvmlCall


class SlowHostLink(GpuFault):
    """Copies between host and GPU are slow. NVML does not show this, but an active check measures it."""

    kind: Literal["slow-host-link"] = "slow-host-link"
    gb_per_second: float = Field(default=5.0, gt=0)


class SlowNvlink(GpuFault):
    """Copies from another GPU and reductions within the node are slow. An active check measures this."""

    kind: Literal["slow-nvlink"] = "slow-nvlink"
    gb_per_second: float = Field(default=20.0, gt=0)


class WrongProducts(GpuFault):
    """The GPU computes wrong results without reporting an error. An active check detects this."""

    kind: Literal["wrong-products"] = "wrong-products"
    count: int = Field(default=3, ge=1)


class SlowNetwork(_Fault):
    """Reductions between this node and other nodes are slow. An active check measures this."""

    kind: Literal["slow-network"] = "slow-network"
    gb_per_second: float = Field(default=4.0, gt=0)


class RecordedNode(_Fault):
    """The node answers like a recorded node. No other fault is allowed with this one. `sandbox replay NODE FILE`
    sets it.
    """

    kind: Literal["recorded-node"] = "recorded-node"
    recording: str = Field(description="output of `node-check --record`, compressed with zlib, in base64")


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
    | LockedMemory
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
    """Return a list of all kinds of faults, with their fields, defaults and effects, as text."""
    lines: list[str] = []
    for kind, model in zip(FAULT_KINDS, _MODELS, strict=True):
        fields = [
            name if field.is_required() else f"{name}={field.default}"
            for name, field in model.model_fields.items()
            if name != "kind"
        ]
        lines += [f"{kind} {' '.join(fields)}".rstrip(), f"    {model.__doc__}"]
    return "\n".join(lines)
