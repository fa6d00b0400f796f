"""Checks of the node agent, as pure functions of a Snapshot and the expectations.

A check without an expectation is not applicable. A check whose value could not be read is unknown, never passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from validators.agent.calls import NO_ANSWER
from validators.agent.expectations import RACK, Expectation, Expectations
from validators.agent.fabric import (
    fabric_manager,
    fabric_mtu,
    fabric_nics,
    imex_domain,
    locked_memory,
    nic_affinity,
)
from validators.agent.health import (
    REPLACE,
    ecc_errors,
    error_growth,
    processes,
    recovery_action,
    retired_pages,
    sram_errors,
)
from validators.agent.heat import temperature, throttle_reasons
from validators.agent.modes import application_clocks, compute_mode, persistence, power_limit
from validators.agent.outcome import (
    FAIL,
    NO_INSTANCES,
    PASS,
    REMEDIES,
    RESET,
    UNKNOWN,
    Outcome,
    compared,
    merged,
    not_expected,
    unanswered,
)
from validators.agent.snapshot import RESET_REQUIRED, GpuSnapshot, Reading, Snapshot
from validators.agent.together import firmware, peer_access, unique
from validators.agent.xid_check import xids

NODE = "node"
NO_PERMISSION = "no-permission"
FUNCTION_NOT_FOUND = "function-not-found"
GPU_LOST = "gpu-lost"
_UNUSABLE = (GPU_LOST, RESET_REQUIRED)  # errors that make a GPU unusable for every process, worst first
_MISSING = (
    "compare lspci -d 10de: and dmesg (Xid 79, NVRM) with the expected count; drain the node, power-cycle it, and "
    "replace it if a GPU is still missing"
)
SPARE_ROWS = 512  # number of rows that a data-centre GPU can remap before it has to be replaced

_SECOND_NAME = "-again"  # suffix that `up` adds to request the same MIG config a second time

_NO_ROWS = f"{REPLACE}: it has no spare rows left"


def run_checks(snapshot: Snapshot, expectations: Expectations, mig_config: str = "") -> list[dict[str, Any]]:
    """Return the report's entries for all checks, in the order of `_NODE_CHECKS` and `_GPU_CHECKS`.

    `mig_config` is the layout that the node's label requests, or "" if it is not known.
    """
    entries = [_entry("nvml", None, _nvml(snapshot), None)]
    for check in _NODE_CHECKS:
        expectation = expectations.expect.get(check)
        outcome = _unread(check, snapshot, expectation) or _NODE_CHECKS[check](snapshot, expectation)
        entries.append(_entry(check, None, _awaited(outcome, expectation, mig_config), expectation))
    for check in _GPU_CHECKS:
        expectation = expectations.expect.get(check)
        entries += [
            _entry(
                check,
                device,
                _awaited(outcome, expectation, mig_config),
                expectation or (_OWN_STATEMENT if outcome.verdict == FAIL else None),
            )
            for device, outcome in _over_gpus(check, snapshot, expectation)
        ]
    return entries


def verdict_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return a node's verdict: `fail` if a check fails, `unknown` if a critical check is unknown, else `pass`."""
    if any(entry["verdict"] == FAIL for entry in entries):
        return FAIL
    if any(entry["verdict"] == UNKNOWN and entry["severity"] == "critical" for entry in entries):
        return UNKNOWN
    return PASS


def _entry(check: str, device: str | None, outcome: Outcome, expectation: Expectation | None) -> dict[str, Any]:
    return {
        "id": check,
        "device": device,
        "verdict": outcome.verdict,
        "expected": outcome.expected,
        "observed": outcome.observed,
        "severity": outcome.severity or _SEVERITIES.get(check, "critical"),
        "source": expectation.source if expectation else "",
        "remediation": outcome.remediation,
    }


def _awaited(outcome: Outcome, expectation: Expectation | None, mig_config: str) -> Outcome:
    """Replace `fail` with `unknown` if the platform has yet to change the node to the expected value.

    If the node changes only at boot and the platform does not reboot it, the severity becomes a warning, so
    the check does not fail the node.
    """
    if outcome.verdict != FAIL or expectation is None:
        return outcome
    wanted, asked = expectation.mig_config, mig_config.removesuffix(_SECOND_NAME)
    if wanted and asked in ("", wanted):
        return outcome
    if wanted:
        who = (
            "run `gpu-platform up`, which changes or replaces the nodes one after another"
            if expectation.rolled
            else f"drain the node and set its label nvidia.com/mig.config to {wanted}"
        )
        outcome = replace(
            outcome,
            remediation=f"the node's label requests MIG config {asked}, not {wanted}: {who}",
        )
    if expectation.at_boot:
        return replace(outcome, verdict=UNKNOWN, severity="warning")
    return replace(outcome, verdict=UNKNOWN) if expectation.rolled else outcome


def _unread(check: str, snapshot: Snapshot, expectation: Expectation | None) -> Outcome | None:
    """Return the outcome of a check if NVML could not be opened and the check needs a value from NVML, otherwise
    None.
    """
    if not snapshot.failure or check in _WITHOUT_NVML:
        return None
    if expectation is None:
        return not_expected()
    return Outcome(UNKNOWN, _expected_text(check, expectation), snapshot.failure, snapshot.remediation)


def _of_gpu_check(check: str, gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Return the outcome of a check on one GPU.

    A fault that the GPU itself reports counts even if its machine type has no expectation for the check.
    """
    outcome = _GPU_CHECKS[check](gpu, expectation, snapshot)
    if expectation is None and check in _OWN_STATEMENTS:
        own = _GPU_CHECKS[check](gpu, _OWN_STATEMENT, snapshot)
        return own if own.verdict == FAIL else outcome
    return outcome


def _over_gpus(
    check: str, snapshot: Snapshot, expectation: Expectation | None
) -> list[tuple[str | None, Outcome]]:
    if unread := _unread(check, snapshot, expectation):
        return [(None, unread)]
    if not snapshot.gpus:
        if expectation is None:
            return [(None, not_expected())]
        none = Outcome(UNKNOWN, _expected_text(check, expectation), "no GPU found", "see gpu-count")
        return [(None, none)]
    return merged([_of_gpu_check(check, gpu, expectation, snapshot) for gpu in snapshot.gpus])


def _expected_text(check: str, expectation: Expectation) -> str:
    """Return an expected value as text, for a check without an observed value."""
    value = expectation.value
    if isinstance(value, bool):
        return ("on" if value else "off") if check in _MODES else "healthy"
    return str(value)


# -- the node ---------------------------------------------------------------------------------------------


def _nvml(snapshot: Snapshot) -> Outcome:
    if snapshot.failure:
        return Outcome(UNKNOWN, "answers", snapshot.failure, snapshot.remediation)
    if snapshot.unanswered:
        return Outcome(UNKNOWN, "answers", "; ".join(snapshot.unanswered), snapshot.remediation)
    return Outcome(PASS, "answers", "answers")


def _gpu_count(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    """Count the GPUs that answer, because NVML's count includes GPUs that have fallen off the bus."""
    silent = {gpu.index: problem for gpu in snapshot.gpus if (problem := _silence(gpu))}
    observed = str(len(snapshot.gpus) - len(silent))
    if silent:
        words = ", ".join(f"GPU {index}: {problem.replace('-', ' ')}" for index, problem in silent.items())
        observed += f" ({words})"
    if expectation is None:
        unusable = [problem for problem in _UNUSABLE if problem in silent.values()]
        if not unusable:
            return not_expected(observed)
        remedy = _MISSING if GPU_LOST in unusable else REMEDIES[unusable[0]]
        return Outcome(FAIL, "every GPU that the driver counts answers", observed, remedy)
    expected = expectation.value
    if not snapshot.gpu_count.ok:
        return unanswered(snapshot.gpu_count, str(expected))
    undecided = {NO_PERMISSION, FUNCTION_NOT_FOUND, *NO_ANSWER}
    if silent and len(snapshot.gpus) == expected and undecided.issuperset(silent.values()):
        return Outcome(UNKNOWN, str(expected), observed, REMEDIES[next(iter(silent.values()))])
    to_reset = len(snapshot.gpus) == expected and set(silent.values()) == {RESET_REQUIRED}
    remedy = (
        REMEDIES[RESET_REQUIRED]
        if to_reset
        else _MISSING
        if len(snapshot.gpus) - len(silent) < expected
        else "the node has more GPUs than its machine type: correct machine_type in the stack file"
    )
    return compared(not silent and len(snapshot.gpus) == expected, str(expected), observed, remedy)


def _silence(gpu: GpuSnapshot) -> str:
    """Return why a GPU does not answer, or ""."""
    if not gpu.handle.ok:
        return gpu.handle.problem
    return next((problem for problem in _UNUSABLE if problem in gpu.problems), "")


def _gpu_uuid(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    del expectation  # UUIDs must be unique, even without an expectation
    return unique(snapshot, "uuid")


def _gpu_serial(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    del expectation  # serial numbers must be unique, if the GPUs have them
    return unique(snapshot, "serial")


def _driver_version(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    driver = snapshot.driver_version
    if expectation is None:
        return not_expected(driver.value or "")
    if driver.value is None:
        return unanswered(driver, expectation.value)
    parts = expectation.value.split(".")  # "580" matches every driver of that branch
    return compared(
        driver.value.split(".")[: len(parts)] == parts,
        expectation.value,
        driver.value,
        expectation.remedy or "install the driver, or correct the expected version",
    )


def _driver_minimum(snapshot: Snapshot, expectation: Expectation | None) -> Outcome:
    driver = snapshot.driver_version
    if expectation is None:
        return not_expected(driver.value or "")
    expected = f"{expectation.value} or newer"
    if driver.value is None:
        return unanswered(driver, expected)
    found = re.findall(r"\d+", driver.value)
    lowest = expectation.value.split(".")
    as_expected = [int(part) for part in found] >= [int(part) for part in lowest]
    return compared(as_expected, expected, driver.value, "install a driver of a branch that supports this GPU")


# -- each GPU ---------------------------------------------------------------------------------------------


def _product(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    if expectation is None:
        return not_expected(gpu.name.value or "")
    if gpu.name.value is None:
        return unanswered(gpu.name, expectation.value)
    # drivers before branch 470 report names without the vendor
    same = gpu.name.value.removeprefix("NVIDIA ") == expectation.value.removeprefix("NVIDIA ")
    remedy = "the node does not have the machine type of its pool: correct machine_type, or replace the node"
    return compared(same, expectation.value, gpu.name.value, remedy)


def _memory(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    found = gpu.memory_mib.value
    if expectation is None:
        return not_expected("" if found is None else f"{found} MiB")
    tolerance = expectation.tolerance_percent
    expected = f"{expectation.value} MiB" + (f" ±{tolerance:g} %" if tolerance else "")
    if found is None:
        return unanswered(gpu.memory_mib, expected)
    as_expected = abs(found - expectation.value) <= expectation.value * tolerance / 100
    remedy = (
        "check ECC, MIG and retired pages (nvidia-smi -q); drain the node and replace the GPU if memory is missing"
    )
    return compared(as_expected, expected, f"{found} MiB", remedy)


def _ecc(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    remedy = f"set ECC mode with nvidia-smi --ecc-config, then {RESET}"
    return _mode(gpu.ecc, expectation, remedy)


def _mig_mode(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    remedy = (
        "see the MIG manager's log on this node (label nvidia.com/mig.config.state); a pending mode needs a reset"
    )
    return _mode(gpu.mig_mode, expectation, remedy)


def _mode(reading: Reading[tuple[bool, bool]], expectation: Expectation | None, remedy: str) -> Outcome:
    """Check a mode that changes only with a reset. Both the current and the pending mode must be as expected."""
    if reading.value is None:
        if expectation is None:
            return not_expected("" if reading.supported else "not supported")
        expected = "on" if expectation.value else "off"
        if not reading.supported and not expectation.value:
            return Outcome(PASS, expected, "not supported")
        return unanswered(reading, expected)
    current, pending = ("on" if mode else "off" for mode in reading.value)
    observed = current if current == pending else f"{current}, {pending} after the next reset"
    if expectation is None:
        return not_expected(observed)
    expected = "on" if expectation.value else "off"
    return compared(current == pending == expected, expected, observed, remedy)


def _mig_instances(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    found = gpu.mig_instances.value
    if expectation is None:
        return not_expected("" if found is None else _layout(found))
    layout = _of_gpu(expectation.value, gpu, snapshot)
    if layout is None:
        return _shifted(len(expectation.value), snapshot)
    expected = _layout(layout)
    if found is None:
        if not gpu.mig_instances.supported and expected == _layout({}):
            return Outcome(PASS, expected, "not supported")
        return unanswered(gpu.mig_instances, expected)
    remedy = (
        "see the MIG manager's log on this node (label nvidia.com/mig.config.state); "
        "instances change only on an idle GPU: drain the node and set nvidia.com/mig.config again"
    )
    return compared(_layout(found) == expected, expected, _layout(found), remedy)


def _of_gpu(
    value: dict[str, dict[str, int]] | list[dict[str, int]], gpu: GpuSnapshot, snapshot: Snapshot
) -> Mapping[str, int] | None:
    """Return the expected layout of a GPU.

    Return None if the GPUs have different expected layouts and a missing GPU has shifted the indices.
    """
    if isinstance(value, dict):
        return value["all"]
    if len(value) == len(snapshot.gpus):
        return value[gpu.index]
    return value[0] if value and all(layout == value[0] for layout in value) else None


def _shifted(count: int, snapshot: Snapshot) -> Outcome:
    observed = f"{len(snapshot.gpus)} GPUs: the indices have shifted"
    return Outcome(UNKNOWN, f"for {count} GPUs", observed, "see gpu-count")


def _layout(instances: Mapping[str, int]) -> str:
    parts = [f"{count} x {profile}" for profile, count in sorted(instances.items()) if count]
    return ", ".join(parts) or NO_INSTANCES


def _row_remapping(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    reading = gpu.remapped_rows
    expected = f"none pending, none failed, at most {SPARE_ROWS} uncorrectable"
    if reading.value is None:
        if not reading.supported and gpu.mig_instances.value:
            # While GPU instances exist, NVML reports spare rows of memory banks, but no remapped rows.
            # A bank without spare rows has not failed yet. NVIDIA replaces a GPU when a remapping has failed.
            # Source: NVIDIA, GPU Memory Error Management, RMA Policy; read 2026-11-29.
            banks = gpu.banks_without_rows.value
            worn = f"; memory banks without spare rows: {banks}" if banks else ""
            return not_expected(f"not reported while there are GPU instances; see xid and recovery-action{worn}")
        if expectation is None:
            return not_expected("" if reading.supported else "not supported")
        return unanswered(reading, expected)
    correctable, uncorrectable, pending, failed = reading.value
    parts = [f"{correctable} correctable, {uncorrectable} uncorrectable"]
    parts += ["one pending"] if pending else []
    parts += ["one failed"] if failed else []
    observed = ", ".join(parts)
    if expectation is None:
        return not_expected(observed)
    worn = failed or uncorrectable > SPARE_ROWS
    remedy = _NO_ROWS if worn else f"{RESET}, to remap the row"
    return compared(not pending and not worn, expected, observed, remedy)


def _nvlink_count(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    links = gpu.nvlinks.value
    if links is None:
        if expectation is None:
            return not_expected("" if gpu.nvlinks.supported else "no NVLink")
        if not gpu.nvlinks.supported and expectation.value == 0:
            return Outcome(PASS, "0", "no NVLink")
        return unanswered(gpu.nvlinks, str(expectation.value))
    active = sum(links)
    observed = f"{active} of {len(links)} active"
    if expectation is None:
        return not_expected(observed)
    if gpu.mig_mode.value and gpu.mig_mode.value[0]:
        # MIG instances have no NVLink, and on an A100 the links go down (NVIDIA, Fabric Manager User Guide).
        return not_expected(f"{observed}; MIG mode does not use NVLink")
    if active != expectation.value and gpu.mig_mode.supported and not gpu.mig_mode.ok:
        return Outcome(UNKNOWN, str(expectation.value), f"{observed}; MIG mode unknown", "see check mig-mode")
    if 0 < active < expectation.value:
        observed += f"; inactive: {', '.join(str(link) for link, up in enumerate(links) if not up)}"
    remedy = (
        "see nvidia-smi nvlink --status, the fabric manager (systemctl status nvidia-fabricmanager) and SXid "
        "lines in dmesg; reset the GPU, and drain and replace the node if the link stays inactive"
    )
    return compared(active == expectation.value, str(expectation.value), observed, remedy)


def _fabric_state(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    expected = "registered in the NVLink fabric, and healthy"
    if gpu.fabric.value is None:
        if expectation is None:
            return not_expected("" if gpu.fabric.supported else "no NVLink between nodes")
        return unanswered(gpu.fabric, expected)
    state, status = gpu.fabric.value
    observed = _FABRIC_STATES.get(state, f"state {state}") + (f", status {status}" if status else "")
    summary, mask = gpu.fabric_health.value or (0, 0)
    if summary in _FABRIC_UNHEALTHY:
        observed += f", {_FABRIC_UNHEALTHY[summary]} (mask {mask:#x})"
    if expectation is None:
        return not_expected(observed)
    healthy = (state, status) == (_FABRIC_COMPLETED, 0) and summary not in _FABRIC_UNHEALTHY
    manager = _OF_RACK if expectation.value == RACK else _OF_MACHINE
    remedy = (
        f"see nvidia-smi -q (Fabric): {manager} must register the GPU; reset the GPU, and drain and replace the "
        "node if it stays unregistered"
    )
    return compared(healthy, expected, observed, remedy)


def _pcie_width(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    del snapshot
    remedy = "reseat or replace the GPU: its PCIe link uses fewer lanes than expected (lspci -vv, LnkSta)"
    return _number(gpu.pcie_width, expectation, "x", remedy)


def _pcie_generation(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the PCIe link supports at least the expected generation. Newer machines may support newer
    generations.
    """
    del snapshot
    remedy = "the slot or its BIOS setting limits the link to an older PCIe generation: see lspci -vv (LnkCap)"
    return _number(gpu.pcie_generation, expectation, "generation ", remedy, more=" or newer")


def _number(
    reading: Reading[int], expectation: Expectation | None, unit: str, remedy: str, *, more: str = ""
) -> Outcome:
    """Compare a number with the expected number.

    If `more` is not empty, larger numbers also pass, and the report shows `more` after the expected number.
    """
    observed = "" if reading.value is None else f"{unit}{reading.value}"
    if expectation is None:
        return not_expected(observed)
    expected = f"{unit}{expectation.value}{more}"
    if reading.value is None:
        return unanswered(reading, expected)
    as_expected = reading.value == expectation.value or (bool(more) and reading.value > expectation.value)
    return compared(as_expected, expected, observed, remedy)


def _numa_node(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    found = gpu.numa_node.value
    if expectation is None:
        return not_expected("" if found is None else "unknown" if found < 0 else f"node {found}")
    if len(expectation.value) != len(snapshot.gpus):
        return _shifted(len(expectation.value), snapshot)
    expected = f"node {expectation.value[gpu.index]}"
    if found is None:
        return unanswered(gpu.numa_node, expected)
    if found < 0:
        remedy = "normal on a virtual machine, which hides the NUMA node; on bare metal, check the BIOS"
        return Outcome(UNKNOWN, expected, "unknown (-1)", remedy)
    remedy = (
        "check lscpu and the BIOS (sub-NUMA clustering, nodes per socket): pods may use CPUs far from their GPU"
    )
    return compared(f"node {found}" == expected, expected, f"node {found}", remedy)


_NODE_CHECKS: Mapping[str, Callable[[Snapshot, Expectation | None], Outcome]] = {
    "gpu-count": _gpu_count,
    "gpu-uuid": _gpu_uuid,
    "gpu-serial": _gpu_serial,
    "firmware": firmware,
    "peer-access": peer_access,
    "xid": xids,
    "fabric-nics": fabric_nics,
    "fabric-mtu": fabric_mtu,
    "locked-memory": locked_memory,
    "fabric-manager": fabric_manager,
    "imex-domain": imex_domain,
    "driver-version": _driver_version,
    "driver-minimum": _driver_minimum,
}
_GPU_CHECKS: Mapping[str, Callable[[GpuSnapshot, Expectation | None, Snapshot], Outcome]] = {
    "gpu-product": _product,
    "gpu-memory": _memory,
    "ecc": _ecc,
    "mig-mode": _mig_mode,
    "mig-instances": _mig_instances,
    "row-remapping": _row_remapping,
    "nvlink-count": _nvlink_count,
    "fabric-state": _fabric_state,
    "pcie-width": _pcie_width,
    "pcie-generation": _pcie_generation,
    "numa-nodes": _numa_node,
    "throttle-reasons": throttle_reasons,
    "temperature": temperature,
    "ecc-errors": ecc_errors,
    "error-growth": error_growth,
    "sram-errors": sram_errors,
    "retired-pages": retired_pages,
    "recovery-action": recovery_action,
    "persistence": persistence,
    "compute-mode": compute_mode,
    "application-clocks": application_clocks,
    "power-limit": power_limit,
    "processes": processes,
    "nic-affinity": nic_affinity,
}
_WITHOUT_NVML = ("xid", "fabric-manager", "fabric-nics", "fabric-mtu", "locked-memory")
_MODES = ("ecc", "mig-mode")
# A GPU with one of these faults must not be used, even if its machine type has no expectation for the check.
_OWN_STATEMENTS = (
    "fabric-state",
    "row-remapping",
    "ecc-errors",
    "sram-errors",
    "retired-pages",
    "recovery-action",
)
_OWN_STATEMENT = Expectation(True, "always: what the GPU reports about itself")
_OF_RACK = "the fabric manager of the rack, on its NVLink switches,"
_OF_MACHINE = (
    "the fabric manager of the machine (systemctl status nvidia-fabricmanager, or the log of the driver's pod)"
)
_FABRIC_COMPLETED = 3
_FABRIC_UNHEALTHY = {2: "unhealthy", 3: "limited capacity"}  # values of NVML_GPU_FABRIC_HEALTH_SUMMARY_*
_FABRIC_STATES: Mapping[int, str] = {1: "registration not started", 2: "registration in progress", 3: "registered"}
# Checks of values that NVML may not report on a virtual machine or with an old driver.
# All other checks are critical.
_SEVERITIES: Mapping[str, str] = {
    "gpu-uuid": "warning",
    "gpu-serial": "warning",
    "firmware": "warning",
    "xid": "warning",
    "fabric-nics": "warning",
    "fabric-mtu": "info",
    "locked-memory": "warning",
    "fabric-manager": "warning",
    "imex-domain": "warning",
    "nic-affinity": "info",
    "error-growth": "warning",
    "ecc-errors": "warning",
    "sram-errors": "warning",
    "retired-pages": "warning",
    "recovery-action": "warning",
    "persistence": "info",
    "compute-mode": "warning",
    "application-clocks": "info",
    "power-limit": "info",
    "processes": "info",
    "fabric-state": "warning",
    "pcie-width": "warning",
    "pcie-generation": "warning",
    "temperature": "warning",
    "numa-nodes": "info",
}
