"""The right check finds every fault on every profile that can have the fault. `-s` prints the matrix.

A profile is the set of properties that the agent distinguishes: GPU model, NVLinks, NUMA nodes, rack, one GPU or
several. The machine type with the fewest GPUs represents its profile. `make test` omits a profile that differs
from another profile only in the GPU model and the number of NVLinks, because both can have the same faults.
`make test` tries a fault once for each GPU architecture, processor architecture and presence of NVLinks, on the
smallest suitable node.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_tables import DRIVER, findings, of_machine

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.section import FabricNics
from sandbox.nvml import FAULT_KINDS, NodeProfile, install, mig_table
from tests.support.size import THOROUGH
from validators.agent.calls import Journal
from validators.agent.checks import run_checks
from validators.agent.expectations import Expectation
from validators.agent.history import Remembering
from validators.agent.nvml import read_nvml
from validators.agent.xid_check import XidTable

KIND, MTU = "gvnic", 8244


@dataclass(frozen=True)
class Found:
    """The check that finds a fault, its severity and verdict, and a part of its remedy."""

    check: str
    severity: str
    remedy: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = "fail"


FOUND_BY = {
    "gpu-missing": Found("gpu-count", "critical", "replace it if a GPU is still missing"),
    "gpu-lost": Found("gpu-count", "critical", "power-cycle"),
    "wrong-product": Found("gpu-product", "critical", "correct machine_type", {"product": "NVIDIA X"}),
    "memory-short": Found("gpu-memory", "critical", "replace the GPU"),
    "duplicate-uuid": Found("gpu-uuid", "warning", "reboot the node"),
    "duplicate-serial": Found("gpu-serial", "warning", "reboot the node"),
    "ecc-disabled": Found("ecc", "critical", "reset the GPU"),
    "ecc-pending": Found("ecc", "critical", "reset the GPU"),
    "ecc-errors": Found("ecc-errors", "warning", "reset the GPU"),
    "sram-errors": Found("sram-errors", "warning", "have the GPU replaced"),
    "retired-pages": Found("retired-pages", "warning", "reset the GPU"),
    "recovery-needed": Found("recovery-action", "warning", "reset the GPU"),
    "xid": Found("xid", "warning", "power-cycle"),
    "hardware-slowdown": Found("throttle-reasons", "critical", "cooling and power"),
    "power-brake": Found("throttle-reasons", "critical", "cooling and power"),
    "thermal": Found("temperature", "warning", "air flow"),
    "row-remap-pending": Found("row-remapping", "critical", "reset the GPU"),
    "row-remap-failed": Found("row-remapping", "critical", "have the GPU replaced"),
    "nvlink-degraded": Found("nvlink-count", "critical", "replace the node if the link stays inactive"),
    "peer-access-lost": Found("peer-access", "critical", "fabric manager", {"peer": 1}),
    "fabric-unregistered": Found("fabric-state", "warning", "reset the GPU"),
    "fabric-degraded": Found("fabric-state", "warning", "reset the GPU"),
    "other-clique": Found("imex-domain", "warning", "replace the node if only this node differs"),
    "imex-missing": Found("imex-domain", "warning", "reboot the node"),
    "pcie-width": Found("pcie-width", "warning", "replace the GPU", {"width": 4}),
    "pcie-generation": Found("pcie-generation", "warning", "BIOS", {"generation": 2}),
    "compute-prohibited": Found("compute-mode", "warning", "nvidia-smi"),
    "clocks-lowered": Found("application-clocks", "info", "nvidia-smi"),
    "power-lowered": Found("power-limit", "info", "nvidia-smi"),
    "other-firmware": Found("firmware", "warning", "replace the node"),
    "other-driver": Found("firmware", "warning", "replace the node"),
    "growing-errors": Found("error-growth", "warning", ""),
    "stray-process": Found("processes", "info", "end the process"),
    "mig-wrong-layout": Found("mig-mode", "critical", "MIG manager"),
    "mig-pending": Found("mig-mode", "critical", "MIG manager"),
    "mig-config-failed": Found("mig-instances", "critical", "MIG manager"),
    "nic-missing": Found("fabric-nics", "warning", "replace the node"),
    "nic-far": Found("nic-affinity", "info", "replace the node"),
    "locked-memory": Found("locked-memory", "warning", "LimitMEMLOCK=infinity"),
    "nic-mtu": Found("fabric-mtu", "info", "replace the node"),
    "wrong-driver": Found("driver-version", "critical", "install the driver"),
    "numa-unknown": Found("numa-nodes", "info", "normal on a virtual machine", verdict="unknown"),
    "nvml-missing": Found("nvml", "critical", "install the NVIDIA driver", verdict="unknown"),
    "nvml-unloadable": Found("nvml", "critical", "reinstall the driver", verdict="unknown"),
    "no-permission": Found("nvml", "critical", "NVIDIA_VISIBLE_DEVICES", verdict="unknown"),
    "function-missing": Found("ecc", "critical", "newer driver", {"call": "nvmlDeviceGetEccMode"}, "unknown"),
}
# These faults are found only by comparing GPUs, and therefore not on a node with a single GPU.
ALONE = {
    "duplicate-uuid",
    "duplicate-serial",
    "other-firmware",
    "other-driver",
    "peer-access-lost",
    "other-clique",
    "clocks-lowered",
    "power-lowered",
}
ELSEWHERE = {
    "nvml-hang",  # tests/validators/test_unanswered_calls.py tries each call
    "nvml-crash",
    "mig-change-failed",  # faults of the MIG manager: tests/e2e/test_mig_change.py
    "mig-change-slow",
    "recorded-node",  # tests/validators/test_recording.py
    "slow-host-link",  # faults that active checks find: tests/e2e/test_burn_in.py
    "slow-nvlink",
    "wrong-products",
    "slow-network",
}
COUNTERS = {
    "PCIe replays": "reseat or replace the GPU",
    "NVLink CRC errors": "reset all GPUs",
    "NVLink replays": "reset all GPUs",
    "NVLink recoveries": "reset all GPUs",
    "corrected ECC errors": "have the GPU replaced",
}


def profiles() -> Iterator[tuple[str, frozenset[str], bool]]:
    """For each profile, yield its machine type with the fewest GPUs, the faults to try, and whether the profile is
    optional.
    """
    catalog = load_catalog()
    found, traits = {}, set()
    for name, machine in sorted(catalog.machine_types.items()):
        if machine.gpu is None:
            continue
        several, racked = machine.gpu_count > 1, catalog.nvlink_domain(machine) is not None
        known = machine.numa_nodes is not None
        key = (machine.gpu, machine.nvlinks_per_gpu, known, machine.arch, racked, several)
        if key not in found or machine.gpu_count < found[key][1]:
            found[key] = (name, machine.gpu_count)
    tried = set()
    for name, _ in sorted(found.values(), key=lambda one: one[1]):
        one = traits_of(catalog.machine_types[name], catalog)
        architecture, arch, _, has_nvlinks, faults = one
        new = {(architecture, arch, has_nvlinks, kind) for kind in faults} - tried
        kinds = frozenset(FOUND_BY if THOROUGH else (kind for *_, kind in new))
        yield name, kinds, one in traits
        if one not in traits:
            tried |= new
        traits.add(one)


def traits_of(machine, catalog):
    """Return the properties of a machine that determine which faults it can have and how they are found."""
    gpu = catalog.gpu_of(machine)
    faults = tuple(kind for kind in FOUND_BY if applies(kind, machine, gpu, catalog))
    return gpu.architecture, machine.arch, machine.numa_nodes is not None, machine.nvlinks_per_gpu > 0, faults


def applies(kind, machine, gpu, catalog):
    """Return whether a machine can have a fault of the given kind. If so, a check must find this fault."""
    switched = machine.nvlinks_per_gpu and gpu.architecture in {"ampere", "hopper", "blackwell"}
    racked = catalog.nvlink_domain(machine) is not None
    registered = racked or (switched and gpu.architecture != "ampere" and machine.gpu_count >= 8)
    # Bridges connect cards in slots, which may be older than the GPUs.
    on_baseboard = machine.nvlinks_per_gpu and not machine.nvlink_pairs and machine.arch == "amd64"
    return bool(
        {
            "ecc-disabled": gpu.ecc,
            "ecc-pending": gpu.ecc,
            "ecc-errors": gpu.ecc,
            "function-missing": gpu.ecc,
            "sram-errors": gpu.ecc and gpu.row_remapping,
            "retired-pages": gpu.ecc and not gpu.row_remapping,
            "row-remap-pending": gpu.row_remapping,
            "row-remap-failed": gpu.row_remapping,
            "nvlink-degraded": machine.nvlinks_per_gpu > 0,
            "peer-access-lost": switched,
            "fabric-unregistered": registered,
            "fabric-degraded": registered,
            "other-clique": racked,
            "imex-missing": racked,
            "pcie-width": on_baseboard,
            "pcie-generation": on_baseboard,
            "mig-wrong-layout": gpu.mig,
            "mig-pending": gpu.mig,
            "mig-config-failed": gpu.mig,
            "numa-unknown": machine.numa_nodes is not None,
            "nic-far": machine.gpu_count > 1,
        }.get(kind, True)
    ) and not (kind in ALONE and machine.gpu_count == 1)


@dataclass
class Machine:
    """A machine type with its simulated nodes and its expectations."""

    name: str

    def __post_init__(self):
        self.catalog = load_catalog()
        self.machine = self.catalog.machine_types[self.name]
        self.gpu = self.catalog.gpu_of(self.machine)
        branch = self.gpu.minimum_driver_branch
        self.driver = f"{branch}.10.01" if branch > 580 else DRIVER
        self.whole = self.expectations([{}] * self.machine.gpu_count)
        table = mig_table(self.gpu.product) if self.gpu.mig else None
        self.layout = None if table is None else {table.profiles[0].name: 1}
        layouts = [self.layout] * self.machine.gpu_count
        self.sliced = self.whole if self.layout is None else self.expectations(layouts)

    def expectations(self, layouts):
        nics = FabricNics(kind=KIND, count=self.machine.gpu_count, mtu=MTU)
        held = of_machine(
            self.name,
            driver_version=self.driver,
            nics=nics,
            mig_layouts=layouts if self.gpu.mig else None,
            mig_source="stack",
        )
        own = {
            "processes": Expectation(True, "an idle node"),
            "locked-memory": Expectation(True, "a node with RDMA"),
        }
        return dataclasses.replace(held, expect={**held.expect, **own})

    def profile(self, *faults, layout=None):
        layouts = (layout,) * self.machine.gpu_count if layout is not None else ()
        given = {"machine_type": self.name, "driver_version": self.driver, "faults": faults, "mig_layout": layouts}
        nics = {"kind": KIND, "count": self.machine.gpu_count, "mtu": MTU}
        return NodeProfile.model_validate_json(json.dumps({**given, "nics": nics}))

    def entries(self, *faults, layout=None):
        """Return the report's entries for a node with faults. If counters grow, the entries are from the second
        pass.
        """
        with install(self.profile(*faults, layout=layout)):
            table = XidTable.of(self.whole.expect["xid"])
            reader = Remembering(InProcess(), table, clock=iter((0.0, 60.0)).__next__)
            if any("counter" in fault for fault in faults):
                reader.read(1)
            return run_checks(reader.read(1), self.whole if layout is None else self.sliced)

    def fault(self, kind, found):
        one = {"kind": kind, **found.fields}
        if "index" in FIELDS[kind] and kind != "no-permission":
            one["index"] = 0
        if kind == "mig-wrong-layout":
            one["instances"] = self.layout
        return one


class InProcess:
    """A fake NVML reader that reads the simulated NVML in this process."""

    journal = Journal()

    def read(self, deadline_seconds):
        return read_nvml(Journal(), lambda _: None)


def _fields():
    from sandbox.nvml import faults

    models = faults.Fault.__args__  # pyrefly: ignore[missing-attribute]
    return {model.model_fields["kind"].default: set(model.model_fields) for model in models}


FIELDS = _fields()


def test_every_kind_of_fault_is_in_the_matrix_or_has_a_test_of_its_own():
    assert set(FAULT_KINDS) == set(FOUND_BY) | ELSEWHERE


def test_every_fault_is_tried_on_every_architecture_that_can_have_it():
    catalog = load_catalog()
    possible, tried = set(), set()
    for machine in catalog.machine_types.values():
        if machine.gpu is not None:
            architecture, arch, _, has_nvlinks, faults = traits_of(machine, catalog)
            possible |= {(architecture, arch, has_nvlinks, kind) for kind in faults}
    for name, kinds, is_thorough in profiles():
        architecture, arch, _, has_nvlinks, faults = traits_of(catalog.machine_types[name], catalog)
        tried |= {(architecture, arch, has_nvlinks, kind) for kind in faults if kind in kinds and not is_thorough}
    assert tried == possible
    assert {kind for *_, kind in tried} == set(FOUND_BY)


@pytest.mark.parametrize(
    ("machine_type", "kinds"),
    [
        pytest.param(name, kinds, marks=[pytest.mark.thorough] if is_thorough else [], id=name)
        for name, kinds, is_thorough in profiles()
    ],
)
def test_every_fault_is_found_with_severity_and_remedy_and_a_healthy_node_passes(machine_type, kinds):
    one = Machine(machine_type)
    row, missed = [], []
    for layout in [None] if one.layout is None else [None, one.layout]:
        bad = [entry for entry in one.entries(layout=layout) if entry["verdict"] in ("fail", "unknown")]
        missed += [f"healthy: {entry['id']} {entry['observed']}" for entry in bad]
    for kind, found in FOUND_BY.items():
        if kind not in kinds or not applies(kind, one.machine, one.gpu, one.catalog):
            row.append(f"{kind} -")
            continue
        layout = one.layout if kind == "mig-config-failed" else None
        faults: list[dict[str, Any]] = [one.fault(kind, found)]
        if kind == "growing-errors":
            lacks = {"NVLink": not one.machine.nvlinks_per_gpu, "corrected": not one.gpu.ecc}
            # The rates are high enough to be noticed within milliseconds. NVML's replay counter has only 32 bits.
            rates = {name: 10**7 if name.startswith("PCIe") else 10**10 for name in COUNTERS}
            faults = [
                {**faults[0], "counter": name, "per_minute": rate}
                for name, rate in rates.items()
                if not lacks.get(name.split()[0])
            ]
        for fault in faults:
            remedy = COUNTERS[fault["counter"]] if "counter" in fault else found.remedy
            entries = [entry for entry in one.entries(fault, layout=layout) if entry["id"] == found.check]
            right = any(
                (entry["verdict"], entry["severity"]) == (found.verdict, found.severity)
                and remedy in entry["remediation"]
                for entry in entries
            )
            row.append(f"{kind} {'+' if right else 'MISSED'}")
            if not right:
                missed.append(f"{fault}: {entries}")
    print(f"\n{machine_type}: {', '.join(row)}")
    assert not missed


@pytest.mark.parametrize(
    "machine_type", sorted(name for name, one in load_catalog().machine_types.items() if one.has_gpus)
)
def test_every_healthy_machine_type_passes_without_a_false_alarm(machine_type):
    one = Machine(machine_type)
    with install(one.profile()):
        assert findings(read_nvml(Journal(), lambda _: None), one.whole) == []
