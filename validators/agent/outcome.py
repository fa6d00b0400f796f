"""Verdict of one check of the node agent. In a report, GPUs with equal verdicts are grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from validators.agent.calls import DID_NOT_RETURN, ENDED_THE_PROCESS, NOT_CALLED
from validators.agent.snapshot import NO_DRIVER_LISTED, NOT_SUPPORTED, RESET_REQUIRED, Reading

PASS: Final = "pass"  # noqa: S105 - a verdict
FAIL: Final = "fail"
NOT_APPLICABLE: Final = "not-applicable"
UNKNOWN: Final = "unknown"
NO_INSTANCES: Final = "no instances"  # observed layout of a GPU that is not partitioned

HANG_REMEDY: Final = (
    "the driver hangs: look for Xid and NVRM lines in dmesg; drain and reboot the node, "
    "and replace the GPU if it happens again"
)
CRASH_REMEDY: Final = "run nvidia-smi on the node; if nvidia-smi crashes too, reinstall the driver and reboot"

# Persistence mode counts as a process that uses the GPU, so the driver refuses to reset the GPU.
# Sources: NVIDIA/NVSentinel#1690, NVIDIA/gpu-operator#118; read 2026-11-29.
RESET: Final = (
    "drain the node and reset the GPU (nvidia-smi --persistence-mode=0, nvidia-smi --gpu-reset) or reboot"
)

REMEDIES: Final = {
    DID_NOT_RETURN: HANG_REMEDY,
    ENDED_THE_PROCESS: CRASH_REMEDY,
    NOT_CALLED: "the driver did not answer other calls: see check nvml",
    NOT_SUPPORTED: "this GPU or driver does not report the value: see nvidia-smi -q, or remove the expectation",
    NO_DRIVER_LISTED: "the kernel of this container is not the kernel with the driver: run node-check on the node",
    "gpu-lost": (
        "the GPU has fallen off the bus (Xid 79 in dmesg): drain and power-cycle the node; "
        "replace the GPU if it happens again"
    ),
    RESET_REQUIRED: f"the GPU reports that it needs a reset: {RESET}",
    "function-not-found": "the driver is too old to report the value: install a newer driver",
    "no-permission": (
        "make the GPU devices available in the container: runtime class nvidia, NVIDIA_VISIBLE_DEVICES=all"
    ),
}
_OTHER_REMEDY = "run nvidia-smi -q on the node and look for Xid and NVRM lines in dmesg"


@dataclass(frozen=True)
class Outcome:
    """Result of one check of the node agent, on one GPU or on the node.

    `severity` replaces the default severity of the check, if it is not empty.
    """

    verdict: str
    expected: str
    observed: str
    remediation: str = ""
    severity: str = ""


def not_expected(observed: str = "") -> Outcome:
    """Return the outcome of a check without an expectation. The observed value is only for information."""
    return Outcome(NOT_APPLICABLE, "", observed)


def unanswered(reading: Reading[Any], expected: str) -> Outcome:
    """Return the unknown outcome of a check whose value NVML did not report."""
    observed = f"{reading.call}: {reading.problem.replace('-', ' ')}"
    return Outcome(UNKNOWN, expected, observed, REMEDIES.get(reading.problem, _OTHER_REMEDY))


def compared(as_expected: bool, expected: str, observed: str, remediation: str) -> Outcome:
    """Return a pass or a fail. Only a fail contains the remedy."""
    return Outcome(PASS, expected, observed) if as_expected else Outcome(FAIL, expected, observed, remediation)


def merged(outcomes: Sequence[Outcome]) -> list[tuple[str | None, Outcome]]:
    """Group the outcomes of GPUs 0, 1, ... Each entry is a pair: the GPUs as a string, and their common outcome.

    The string is None if the outcome applies to all GPUs. GPUs with equal outcomes share an entry. Passed and
    not-applicable outcomes share an entry even if their values differ.
    """
    groups: dict[Outcome, list[int]] = {}
    for index, outcome in enumerate(outcomes):
        quiet = outcome.verdict in (PASS, NOT_APPLICABLE)
        groups.setdefault(Outcome(outcome.verdict, "", "") if quiet else outcome, []).append(index)
    entries: list[tuple[str | None, Outcome]] = []
    for common, indices in groups.items():
        members = [outcomes[index] for index in indices]
        values = replace(
            common,
            expected=_distinct([member.expected for member in members]),
            observed=_distinct([member.observed for member in members]),
        )
        entries.append((None if len(indices) == len(outcomes) else _devices(indices), values))
    return entries


def _distinct(texts: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(text for text in texts if text))


def _devices(indices: Sequence[int]) -> str:
    """Return the names of GPUs as a string, such as `GPU 3` or `GPUs 0-2, 4`."""
    if len(indices) == 1:
        return f"GPU {indices[0]}"
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return "GPUs " + ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
