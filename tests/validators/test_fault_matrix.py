"""Every fault on every GPU model, where it makes sense, is found by its check; `-s` prints the matrix."""

from __future__ import annotations

import pytest
from agent_tables import DRIVER, findings, of_machine, simulated

from gpu_platform.catalog import load_catalog
from gpu_platform.errors import BadInput
from sandbox.nvml import FAULT_KINDS

# By kind: further fields of the fault, and the checks of which one must fail (or be unknown).
FOUND_BY = {
    "gpu-missing": ({}, {"gpu-count"}),
    "gpu-lost": ({}, {"gpu-count"}),
    "wrong-product": ({"product": "NVIDIA X"}, {"gpu-product"}),
    "memory-short": ({}, {"gpu-memory"}),
    "duplicate-uuid": ({}, {"gpu-uuid"}),
    "duplicate-serial": ({}, {"gpu-serial"}),
    "ecc-disabled": ({}, {"ecc"}),
    "ecc-pending": ({}, {"ecc"}),
    "ecc-errors": ({}, {"ecc-errors"}),
    "sram-errors": ({}, {"sram-errors"}),
    "retired-pages": ({}, {"retired-pages"}),
    "recovery-needed": ({}, {"recovery-action"}),
    "xid": ({}, {"xid"}),
    "hardware-slowdown": ({}, {"throttle-reasons"}),
    "power-brake": ({}, {"throttle-reasons"}),
    "thermal": ({}, {"temperature"}),
    "row-remap-pending": ({}, {"row-remapping"}),
    "row-remap-failed": ({}, {"row-remapping"}),
    "nvlink-degraded": ({}, {"nvlink-count"}),
    "peer-access-lost": ({"peer": 1}, {"peer-access"}),
    "fabric-unregistered": ({}, {"fabric-state"}),
    "pcie-width": ({"width": 4}, {"pcie-width"}),
    "pcie-generation": ({"generation": 2}, {"pcie-generation"}),
    "compute-prohibited": ({}, {"compute-mode"}),
    "clocks-lowered": ({}, {"application-clocks"}),
    "power-lowered": ({}, {"power-limit"}),
    "other-firmware": ({}, {"firmware"}),
}
# One GPU alone has no other to compare with.
ALONE = {"duplicate-uuid", "duplicate-serial", "other-firmware", "peer-access-lost"}
NOT_OF_A_GPU = {
    "stray-process",  # only with the expectation of an idle node
    "mig-wrong-layout",
    "mig-config-failed",
    "mig-change-failed",
    "mig-change-slow",
    "wrong-driver",
    "numa-unknown",
    "nvml-missing",
    "nvml-unloadable",
    "nvml-hang",
    "nvml-crash",
    "function-missing",
    "recorded-node",  # tests/validators/test_recording.py
    # Found by active checks: tests/e2e/test_burn_in.py
    "slow-host-link",
    "slow-nvlink",
    "wrong-products",
    "slow-network",
}


def machines():
    """Return for each GPU model its machine type with the most GPUs."""
    catalog = load_catalog()
    found = {}
    for name, machine in sorted(catalog.machine_types.items()):
        if machine.gpu is not None and machine.gpu_count > found.get(machine.gpu, ("", 0))[1]:
            found[machine.gpu] = (name, machine.gpu_count)
    return [name for name, _ in found.values()]


def applies(kind, machine, gpu):
    """Whether a fault is one that the machine can have, so that a check of it is expected."""
    switched = machine.nvlinks_per_gpu and gpu.architecture in {"ampere", "hopper", "blackwell"}
    return {
        "ecc-disabled": gpu.ecc,
        "ecc-pending": gpu.ecc,
        "ecc-errors": gpu.ecc,
        "sram-errors": gpu.ecc and gpu.row_remapping,
        "retired-pages": gpu.ecc and not gpu.row_remapping,
        "row-remap-pending": gpu.row_remapping,
        "row-remap-failed": gpu.row_remapping,
        "nvlink-degraded": machine.nvlinks_per_gpu > 0,
        "peer-access-lost": switched,
        "fabric-unregistered": switched and gpu.architecture != "ampere",
        "pcie-width": not machine.nvlinks_per_gpu or machine.arch == "amd64",
        "pcie-generation": machine.nvlinks_per_gpu and machine.arch == "amd64",
    }.get(kind, True) and not (kind in ALONE and machine.gpu_count == 1)


def test_every_kind_of_fault_is_in_the_matrix_or_has_a_test_of_its_own():
    assert set(FAULT_KINDS) == set(FOUND_BY) | NOT_OF_A_GPU


@pytest.mark.parametrize("machine_type", machines())
def test_every_fault_of_a_gpu_is_found_by_its_check(machine_type):
    catalog = load_catalog()
    machine = catalog.machine_types[machine_type]
    gpu = catalog.gpu_of(machine)
    driver = f"{gpu.minimum_driver_branch}.10.01" if gpu.minimum_driver_branch > 580 else DRIVER
    expected = of_machine(machine_type)
    row, missed = [], []
    for kind, (fields, checks) in FOUND_BY.items():
        if not applies(kind, machine, gpu):
            row.append(f"{kind} -")
            continue
        try:
            snapshot = simulated(machine_type, {"kind": kind, "index": 0, **fields}, driver_version=driver)
        except BadInput as error:
            missed.append(f"{kind}: {error}")
            continue
        found = {entry[0] for entry in findings(snapshot, expected)}
        row.append(f"{kind} {'+' if checks <= found else 'MISSED'}")
        if not checks <= found:
            missed.append(kind)
    print(f"\n{machine_type}: {', '.join(row)}")
    assert not missed
