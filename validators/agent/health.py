"""Health checks of each GPU: errors, recovery actions that the driver requests, and processes.

These checks look for faults, not for values that every GPU has. A value that a GPU or driver does not report is
therefore not applicable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from validators.agent.expectations import Expectation
from validators.agent.outcome import RESET, Outcome, compared, not_expected, unanswered
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot

REPLACE = "drain the node and have the GPU replaced"
# limits in DCGM: DCGM_LIMIT_MAX_RETIRED_PAGES, _SOFT_LIMIT in dcgm_structs.h; read 2026-11-25
MOST_RETIRED_PAGES = 63
MOST_DOUBLE_BIT_PAGES = 15
# Maximum growth per minute of error counters on healthy hardware.
# Source: DCGM, dcgm_gpu_hardware_limits.h; read 2026-11-25.
# DCGM_LIMIT_MAX_PCIREPLAY_RATE is 8 a minute, and DCGM_LIMIT_MAX_NVLINK_CRC_ERROR is 100 a second.
# DCGM_LIMIT_MAX_NVLINK_ERROR is 1 replay or recovery, and DCGM_LIMIT_MAX_SBE_RATE is 10, a preliminary limit.
MOST_GROWTH: Mapping[str, float] = {
    "PCIe replays": 8,
    "NVLink CRC errors": 6000,
    "NVLink replays": 0,
    "NVLink recoveries": 0,
    "corrected ECC errors": 10,
}
SHORTEST_SECONDS = 60  # minimum period of a growth rate in seconds, because a short burst is not a rate
_SLOW_GROWTH = "; ".join(
    f"at most {most:g} {name} a minute" if most else f"no {name}" for name, most in MOST_GROWTH.items()
)
_GROWTH_REMEDIES = {
    "NVLink": "reset all GPUs of the drained node; replace the node if the counters grow again (see nvlink-count)",
    "PCIe": "reseat or replace the GPU: its PCIe link repeats transfers (lspci -vv, AER lines in dmesg)",
    "corrected": f"{REPLACE} if the counter keeps growing: its memory wears out (see row-remapping)",
}
_NOT_THERE = ("not-supported", "function-not-found", "not-read")

# Requested action of each nvmlDeviceGpuRecoveryAction_t, and its remedy.
# Source: NVIDIA, GPU Memory Error Management, "Error Recovery and Response Flags"; read 2026-11-25.
RECOVERY_ACTIONS: Mapping[int, tuple[str, str]] = {
    1: ("reset the GPU", RESET),
    2: ("reboot the node", "drain and reboot the node"),
    3: ("drain P2P", "stop the processes that use peer access to this GPU, then reset it"),
    4: ("drain P2P and reset the GPU", "stop the processes that use peer access to this GPU, then reset it"),
    5: ("recover the IMEX domain", "stop the jobs that span the nodes of the rack, and restart IMEX on them"),
    6: ("reset the PCIe bus", "drain and reboot the node"),
    7: ("reboot the system", "drain and reboot the node"),
}


RESETTING_ACTIONS = (1, 2, 4, 6, 7)
"""Recovery actions that reset the GPU. Draining P2P (3) and recovering the IMEX domain (5) do not."""


def _absent(reading: Reading[Any]) -> bool:
    return reading.problem in _NOT_THERE


def judged(
    reading: Reading[Any],
    expectation: Expectation | None,
    expected: str,
    observed: Callable[[Any], str],
    sound: Callable[[Any], bool],
    remedy: str,
) -> Outcome:
    """Check a value, if the GPU and driver report it. Otherwise the check is not applicable."""
    if reading.value is None:
        if expectation is None or _absent(reading):
            return not_expected("not reported" if _absent(reading) else "")
        return unanswered(reading, expected)
    text = observed(reading.value)
    if expectation is None:
        return not_expected(text)
    return compared(sound(reading.value), expected, text, remedy)


def ecc_errors(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the GPU has had no uncorrectable ECC error since its last reset."""
    del snapshot

    def observed(found: Mapping[str, int]) -> str:
        return ", ".join(f"{count} in {name}" for name, count in found.items()) or "none"

    remedy = f"{RESET}; replace the GPU if errors come back (Xid 48, 94, 95 in dmesg)"
    return judged(gpu.ecc_errors, expectation, "none uncorrectable", observed, lambda found: not found, remedy)


def sram_errors(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check the flag with which a GPU reports too many uncorrectable SRAM errors.

    NVIDIA's replacement policy uses this flag.
    """
    del snapshot
    return judged(
        gpu.sram_exceeded,
        expectation,
        "below the GPU's threshold",
        lambda exceeded: "above the GPU's threshold" if exceeded else "below the GPU's threshold",
        lambda exceeded: not exceeded,
        f"{REPLACE}: its SRAM has had too many uncorrectable errors",
    )


def retired_pages(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check the retired pages of a GPU older than Ampere."""
    del snapshot
    reading = gpu.retired_pages
    worn = reading.value is not None and not _few(reading.value)
    return judged(
        reading,
        expectation,
        f"none pending, at most {MOST_RETIRED_PAGES}, {MOST_DOUBLE_BIT_PAGES} of them for double-bit errors",
        lambda pages: f"{pages[0]} single-bit, {pages[1]} double-bit" + (", one pending" if pages[2] else ""),
        lambda pages: _few(pages) and not pages[2],
        f"{REPLACE}: it has retired too many pages" if worn else f"{RESET}, to retire the page",
    )


def _few(pages: tuple[int, int, bool]) -> bool:
    return pages[0] + pages[1] <= MOST_RETIRED_PAGES and pages[1] <= MOST_DOUBLE_BIT_PAGES


def recovery_action(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the driver requests no recovery action.

    With MIG enabled, the driver reports recovery actions, although it does not report row remapping.
    """
    del snapshot
    text, remedy = RECOVERY_ACTIONS.get(gpu.recovery_action.value or 0, ("an unknown action", RESET))
    return judged(
        gpu.recovery_action,
        expectation,
        "none",
        lambda action: text if action else "none",
        lambda action: not action,
        remedy,
    )


def error_growth(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that counters of corrected errors grow no faster from pass to pass than on healthy hardware."""
    del snapshot
    growth = gpu.growth

    def fast(found: Mapping[str, int]) -> list[str]:
        seconds = max(found["seconds"], SHORTEST_SECONDS)
        return [name for name, most in MOST_GROWTH.items() if found.get(name, 0) > most * seconds / 60]

    def observed(found: Mapping[str, int]) -> str:
        grown = [f"{found[name]} {name} in {found['seconds']} s" for name in MOST_GROWTH if found.get(name)]
        return ", ".join(grown) or "none"

    names = fast(growth.value) if growth.value is not None else []
    remedies = [
        remedy for start, remedy in _GROWTH_REMEDIES.items() if any(one.startswith(start) for one in names)
    ]
    return judged(growth, expectation, _SLOW_GROWTH, observed, lambda found: not fast(found), "; ".join(remedies))


def processes(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that no process uses the GPU of a node that is expected to be idle."""
    del snapshot

    def observed(found: list[tuple[int, int]]) -> str:
        return ", ".join(f"PID {pid} with {mib} MiB" for pid, mib in found) or "none"

    remedy = (
        "end the process, or the pod that it belongs to (on the node: crictl ps, /proc/PID/cgroup); reset the GPU "
        "if its memory stays in use"
    )
    return judged(gpu.processes, expectation, "none on an idle node", observed, lambda found: not found, remedy)
