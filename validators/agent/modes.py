"""Checks of modes and limits that somebody may have set on a GPU: compute mode, clocks, power limit."""

from __future__ import annotations

from collections.abc import Mapping

from validators.agent.expectations import Expectation
from validators.agent.health import judged
from validators.agent.outcome import Outcome, not_expected
from validators.agent.snapshot import GpuSnapshot, Snapshot

# nvmlComputeMode_t
COMPUTE_MODES: Mapping[int, str] = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
_MILLI = 1000


def persistence(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check persistence mode; without it every first use of a GPU initialises it."""
    del snapshot
    wanted = bool(expectation.value) if expectation else True
    return judged(
        gpu.persistence,
        expectation,
        "on" if wanted else "off",
        lambda found: "on" if found else "off",
        lambda found: found == wanted,
        "start nvidia-persistenced on the node, or set it with nvidia-smi --persistence-mode",
    )


def compute_mode(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check which processes may compute on the GPU."""
    del snapshot
    wanted = expectation.value if expectation else ""
    return judged(
        gpu.compute_mode,
        expectation,
        wanted,
        lambda mode: COMPUTE_MODES.get(mode, f"mode {mode}"),
        lambda mode: COMPUTE_MODES.get(mode) == wanted,
        "set it with nvidia-smi --compute-mode: pods that share the GPU, or any pod, would be refused",
    )


def application_clocks(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the application clock is not below its default; a higher one is a choice for speed."""
    del snapshot
    reading = gpu.graphics_clock
    default = reading.value[1] if reading.value else 0
    return judged(
        reading,
        expectation,
        f"{default} MHz or more",
        lambda clocks: f"{clocks[0]} MHz",
        lambda clocks: clocks[0] >= clocks[1],
        "reset it with nvidia-smi --reset-applications-clocks: jobs would wait for this GPU",
    )


def power_limit(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the power limit is not below the GPU's default."""
    del snapshot
    reading = gpu.power_limit
    if reading.value is not None and reading.value[1] == 0:
        return not_expected(f"{reading.value[0] // _MILLI} W")
    default = reading.value[1] if reading.value else 0
    return judged(
        reading,
        expectation,
        f"{default // _MILLI} W or more",
        lambda limits: f"{limits[0] // _MILLI} W",
        lambda limits: limits[0] >= limits[1],
        "raise it with nvidia-smi --power-limit, or see who set it: jobs would wait for this GPU",
    )
