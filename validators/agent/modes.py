"""Checks of modes and limits that somebody may have set on a GPU, such as compute mode, clocks and power limit.

Only an administrator can set a limit below the default (nvidia-smi(1), --power-limit, --applications-clocks). The
same lower limit on all GPUs of a node is the owner's choice, such as the power budget of a rack. A lower limit on
only some GPUs is a fault, because jobs wait for the slowest GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from validators.agent.expectations import Expectation
from validators.agent.health import judged
from validators.agent.outcome import Outcome, not_expected
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot

# values of nvmlComputeMode_t
COMPUTE_MODES: Mapping[int, str] = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
_MILLI = 1000


def persistence(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check persistence mode. Without it, the driver initialises an idle GPU each time a client opens it."""
    del snapshot
    wanted = bool(expectation.value) if expectation else True
    return judged(
        gpu.persistence,
        expectation,
        "on" if wanted else "off",
        lambda found: "on" if found else "off",
        lambda found: found == wanted,
        "start nvidia-persistenced on the node, or enable the mode with nvidia-smi --persistence-mode",
    )


def compute_mode(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check the compute mode, which determines which processes may use the GPU."""
    del snapshot
    wanted = expectation.value if expectation else ""
    return judged(
        gpu.compute_mode,
        expectation,
        wanted,
        lambda mode: COMPUTE_MODES.get(mode, f"mode {mode}"),
        lambda mode: COMPUTE_MODES.get(mode) == wanted,
        "set the mode with nvidia-smi --compute-mode; otherwise pods that share the GPU, or all pods, are refused",
    )


def application_clocks(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the GPU's application clock is at least its default, or is the same on every GPU of the node."""
    return _limit(
        gpu.graphics_clock,
        expectation,
        [one.graphics_clock for one in snapshot.gpus],
        lambda clock: f"{clock} MHz",
        "reset the clocks with nvidia-smi --reset-applications-clocks; otherwise jobs wait for this GPU",
    )


def power_limit(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that the GPU's power limit is at least its default, or is the same on every GPU of the node."""
    reading = gpu.power_limit
    if reading.value is not None and reading.value[1] == 0:
        return not_expected(f"{reading.value[0] // _MILLI} W")
    return _limit(
        reading,
        expectation,
        [one.power_limit for one in snapshot.gpus],
        lambda limit: f"{limit // _MILLI} W",
        "raise the limit with nvidia-smi --power-limit, or find out who set it; otherwise jobs wait for this GPU",
    )


def _limit(
    reading: Reading[tuple[int, int]],
    expectation: Expectation | None,
    all_gpus: Sequence[Reading[tuple[int, int]]],
    text: Callable[[int], str],
    remedy: str,
) -> Outcome:
    """Check that a limit is at least its default, or is the same on every GPU of the node."""
    limit, default = reading.value or (0, 0)
    chosen = all(one.value is not None and one.value[0] == limit for one in all_gpus)
    on_all = f" on every GPU, below the default of {text(default)}" if chosen and limit < default else ""
    return judged(
        reading,
        expectation,
        f"{text(default)} or more, or the same limit on every GPU",
        lambda found: text(found[0]) + on_all,
        lambda found: found[0] >= found[1] or chosen,
        remedy,
    )
