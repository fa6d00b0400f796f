"""Expected NVML facts of a node, as far as the catalogue knows its machine type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.section import FabricNics
from gpu_platform.planning.expectations.section import Expectation, Expectations, MigLayout

FABRIC_MANAGER: Final = "fabric-manager"  # the check that its process runs
RACK: Final = "rack"  # whose fabric manager registers the GPUs
_HEALTH: Final = (
    "throttle-reasons",
    "temperature",
    "firmware",
    "recovery-action",
    "error-growth",
    "application-clocks",
    "power-limit",
)
# NVLink of these architectures goes through switches on machines with several GPUs: NVIDIA, HGX and Fabric Manager
# documentation, read 2026-11-25. Volta's GPUs are connected in pairs, not each with each.
SWITCHED: Final = frozenset({"ampere", "hopper", "blackwell"})
_HGX_GPUS: Final = 8
# The fabric manager registers the GPUs of an HGX baseboard since Hopper: NVIDIA, Fabric Manager User Guide, "GPU
# Fabric State"; read 2026-11-25.
_WITH_FABRIC_STATE: Final = frozenset({"hopper", "blackwell"})
MEMORY_TOLERANCE_PERCENT: Final = 1.5  # reserved pages and ECC shift NVML's total by about that much


@dataclass(frozen=True, slots=True)
class DeclaredNode:
    """What a stack declares for the nodes of a pool; each `..._source` names the place in the stack file.

    `driver_version` is the driver, or the first parts of its version; None expects only the GPU's first driver
    branch. `driver_rolled`: the operator or the cloud changes it, node by node. `driver_at_boot`: a node gets it
    when it boots. `driver_remedy`: what gives it to a node. `mig_layouts` has one entry per GPU, an empty one
    where MIG is off; None expects nothing about MIG. `mig_config`: the node label's value for them; "": there is
    no such label. `mig_rolled`: the platform changes that label, or replaces the node, and not the owner of the
    node. `mps`: the daemon of MPS sets the compute mode. `nics`: those of the fabric that nodes are created with.
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
    """Return the expected facts of a node of a machine type, as far as the catalogue and the stack have them."""
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
    if machine.nvlinks_per_gpu and machine.gpu_count > 1 and gpu.architecture in SWITCHED:
        expect["peer-access"] = Expectation(True, of_machine)
    if gpu.row_remapping:
        expect["row-remapping"] = Expectation(True, of_gpu)
    if machine.nvlinks_per_gpu and machine.arch == "amd64":
        # On an HGX baseboard the link is the GPU's own. A card's slot may be older or x8, which NVML does not see
        # in a VM: the A10G and T4 of EC2 use 8 lanes, and NVML's maximum is 16 (influxdata/telegraf, plugins/
        # inputs/nvidia_smi/testdata, a10g.xml and tesla-t4.xml; read 2026-11-29). A superchip's GPU is connected
        # to its CPU by NVLink-C2C.
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
        expect["nic-affinity"] = Expectation(nics.kind, declared.nics_source)
        if nics.mtu is not None:
            expect["fabric-mtu"] = Expectation({nics.kind: nics.mtu}, declared.nics_source)
    if declared.mig_layouts is not None:
        expect.update(_mig(declared.mig_layouts, declared))
    return Expectations(declared.pool, machine.name, MappingProxyType(expect))


def expected_xids(catalog: Catalog) -> Expectation:
    """Return the catalogue's table of Xid errors, in the form that the node agent judges them by."""
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
    """Return the MIG expectations; where only some GPUs have instances, the layout alone is expected."""
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
