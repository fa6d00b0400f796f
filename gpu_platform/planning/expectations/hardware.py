"""The NVML facts that are expected of a node, from the catalogue's entry for its machine type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.section import FabricNics
from gpu_platform.planning.expectations.section import Expectation, Expectations, MigLayout

FABRIC_MANAGER: Final = "fabric-manager"  # id of the check for a running fabric manager
RACK: Final = "rack"  # expected value if the rack's fabric manager registers the GPUs
_HEALTH: Final = (
    "throttle-reasons",
    "temperature",
    "firmware",
    "recovery-action",
    "error-growth",
    "application-clocks",
    "power-limit",
)
# If a machine has several GPUs of these architectures, NVLink switches connect the GPUs.
# NVLink connects Volta GPUs pair by pair, without switches.
# Source: NVIDIA, HGX and Fabric Manager documentation, read 2026-11-25.
SWITCHED: Final = frozenset({"ampere", "hopper", "blackwell"})
_HGX_GPUS: Final = 8
_WITH_RDMA: Final = ("efa", "mlx5", "infiniband")  # kinds of NICs for which programs must register (pin) memory
# Since Hopper, the fabric manager registers the GPUs of an HGX baseboard.
# Source: NVIDIA, Fabric Manager User Guide, "GPU Fabric State"; read 2026-11-25.
_WITH_FABRIC_STATE: Final = frozenset({"hopper", "blackwell"})
# Reserved pages and ECC change the total memory that NVML reports by about this percentage.
MEMORY_TOLERANCE_PERCENT: Final = 1.5


@dataclass(frozen=True, slots=True)
class DeclaredNode:
    """The settings that a stack declares for the nodes of a pool.

    Each `..._source` names a path in the stack file. `driver_version` is the driver version, or a prefix of it. If
    it is None, only the GPU's minimum driver branch is expected. `driver_rolled` means that the operator or the
    cloud changes the driver node by node. `driver_at_boot` means that a node receives the driver when it boots.
    `driver_remedy` describes how a node gets the expected driver. `mig_layouts` has one entry per GPU, which is
    empty if MIG is off. If `mig_layouts` is None, nothing is expected about MIG. `mig_config` is the value of the
    node label for these layouts, or "" if there is no such label. `mig_rolled` means that the platform, and not
    the node's owner, changes that label or replaces the node. `mps` means that the MPS daemon sets the compute
    mode. `nics` are the fabric NICs that nodes are created with.
    """

    pool: str = ""
    driver_version: str | None = None
    driver_source: str = ""
    driver_rolled: bool = False
    driver_at_boot: bool = False
    driver_remedy: str = ""
    mig_layouts: Sequence[MigLayout] | None = None
    mig_source: str = ""
    mig_config: str = ""
    mig_rolled: bool = False
    mps: bool = False
    nics: FabricNics | None = None
    nics_source: str = ""


_NOTHING_DECLARED: Final = DeclaredNode()


def expectations_for_machine(
    machine: MachineType, catalog: Catalog, declared: DeclaredNode = _NOTHING_DECLARED
) -> Expectations:
    """Return the expected facts of a node of a machine type, as far as the catalogue and the stack define them."""
    gpu = catalog.gpu_of(machine)
    of_machine = f"machine type {machine.name} ({machine.source})"
    of_gpu = f"GPU {gpu.model} of machine type {machine.name} ({gpu.source})"
    always = "always: a healthy GPU"
    expect: dict[str, Expectation] = {
        "gpu-count": Expectation(machine.gpu_count, of_machine),
        "gpu-product": Expectation(gpu.product, of_gpu),
        "gpu-memory": Expectation(gpu.memory_mib, of_gpu, MEMORY_TOLERANCE_PERCENT),
        "driver-minimum": Expectation(str(gpu.minimum_driver_branch), of_gpu),
        "nvlink-count": Expectation(machine.nvlinks_per_gpu, of_machine),
        "xid": expected_xids(catalog),
        **{check: Expectation(True, always) for check in _HEALTH},
    }
    if not declared.mps:
        expect["compute-mode"] = Expectation("default", always)
    if gpu.ecc:
        expect["ecc"] = Expectation(True, of_gpu)
        expect["ecc-errors"] = expect["sram-errors"] = Expectation(True, always)
    if gpu.ecc and not gpu.row_remapping:
        expect["retired-pages"] = Expectation(True, of_gpu)
    if machine.all_linked and machine.gpu_count > 1 and gpu.architecture in SWITCHED:
        expect["peer-access"] = Expectation(True, of_machine)
    if gpu.row_remapping:
        expect["row-remapping"] = Expectation(True, of_gpu)
    if machine.nvlinks_per_gpu and not machine.nvlink_pairs and machine.arch == "amd64":
        # On an HGX baseboard, the GPU itself determines the PCIe link.
        # The slot of a GPU card, also of a card with an NVLink bridge, may be older or have only 8 lanes.
        # In a VM, NVML does not report the properties of the slot.
        # On EC2, the A10G and T4 use 8 lanes, but NVML reports a maximum of 16.
        # Source: influxdata/telegraf, plugins/inputs/nvidia_smi/testdata, a10g.xml, tesla-t4.xml; 2026-11-29.
        # The GPU of a superchip is connected to its CPU by NVLink-C2C.
        expect["pcie-width"] = Expectation(gpu.pcie_width, of_gpu)
        expect["pcie-generation"] = Expectation(gpu.pcie_generation, of_gpu)
    baseboard = machine.nvlinks_per_gpu > 0 and machine.gpu_count >= _HGX_GPUS
    if catalog.nvlink_domain(machine) is not None:
        expect["fabric-state"] = Expectation(RACK, of_machine)
        expect["imex-domain"] = Expectation(True, of_machine)
    elif baseboard and gpu.architecture in SWITCHED:
        expect[FABRIC_MANAGER] = Expectation(True, of_machine)
        if gpu.architecture in _WITH_FABRIC_STATE:
            expect["fabric-state"] = Expectation(True, of_machine)
    if machine.numa_nodes is not None:
        expect["numa-nodes"] = Expectation(list(machine.numa_nodes), of_machine)
    if declared.driver_version is not None:
        expect["driver-version"] = Expectation(
            declared.driver_version,
            declared.driver_source,
            rolled=declared.driver_rolled,
            at_boot=declared.driver_at_boot,
            remedy=declared.driver_remedy,
        )
    if (nics := declared.nics) is not None:
        expect["fabric-nics"] = Expectation({nics.kind: nics.count}, declared.nics_source)
        neighbours = {gpu: list(near) for gpu, near in nics.neighbours.items()}
        expect["nic-affinity"] = Expectation(neighbours or nics.kind, declared.nics_source)
        if nics.kind in _WITH_RDMA:
            expect["locked-memory"] = Expectation(True, declared.nics_source)
        if nics.mtu is not None:
            expect["fabric-mtu"] = Expectation({nics.kind: nics.mtu}, declared.nics_source)
    if declared.mig_layouts is not None:
        expect.update(_mig(declared.mig_layouts, declared))
    return Expectations(declared.pool, machine.name, MappingProxyType(expect))


def expected_xids(catalog: Catalog) -> Expectation:
    """Return the catalogue's table of Xid errors in the form that the node agent uses to classify them."""
    classes = [
        {
            "name": one.name,
            "codes": one.codes,
            "remedy": one.remedy,
            "ends": one.ends,
            "processes": one.processes or 0,
            "meanings": dict(one.meanings),
        }
        for one in catalog.xid_classes.values()
    ]
    texts = [
        {"codes": one.codes, "text": one.text, "class": one.xid_class, "ends_faults": one.ends_faults}
        for one in catalog.xid_texts.values()
    ]
    source = next(iter(catalog.xid_classes.values())).source
    return Expectation({"classes": classes, "texts": texts}, f"always: a healthy GPU ({source})")


def _mig(layouts: Sequence[MigLayout], declared: DeclaredNode) -> dict[str, Expectation]:
    """Return the expected MIG mode and MIG instances.

    If only some GPUs have instances, only the instances are checked, and not the MIG mode.
    """
    sliced = [bool(layout) for layout in layouts]
    expect: dict[str, Expectation] = {}
    if len(set(sliced)) == 1:
        expect["mig-mode"] = _layout(sliced[0], declared)
    if any(sliced):
        expect["mig-instances"] = _layout([dict(layout) for layout in layouts], declared)
    return expect


def _layout(value: object, declared: DeclaredNode) -> Expectation:
    rolled = declared.mig_rolled and bool(declared.mig_config)
    return Expectation(value, declared.mig_source, rolled=rolled, mig_config=declared.mig_config)
