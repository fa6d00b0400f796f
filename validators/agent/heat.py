"""Checks whether a GPU is slowed down, based on its clock event reasons and its temperature.

Both values change from second to second while jobs run, so one bad sample is not a fault. A slowdown fails the
check only if at least half of the agent's recent passes have detected it. A single run of the agent has only one
sample.
"""

from __future__ import annotations

from validators.agent.expectations import Expectation
from validators.agent.outcome import Outcome, compared, not_expected, unanswered
from validators.agent.snapshot import GpuSnapshot, Snapshot

PASSES = "passes"
_HEAT = "heat"
_BAD_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def slowed_by(gpu: GpuSnapshot) -> list[str]:
    """Return the slowdown reasons of a GPU in this pass."""
    mask = gpu.throttle_reasons.value or 0
    reasons = [words for bit, words in _BAD_REASONS.items() if mask & bit]
    return [*reasons, *([_HEAT] if _is_hot(gpu) else [])]


def throttle_reasons(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Check that fewer than half of the agent's recent passes have detected a hardware or thermal slowdown.

    If there was only one pass, this pass must not have detected a slowdown.
    """
    del snapshot
    mask = gpu.throttle_reasons.value
    now = ", ".join(words for bit, words in _BAD_REASONS.items() if (mask or 0) & bit)
    lasting = [words for words in _BAD_REASONS.values() if _lasts(gpu, words)]
    observed = "" if mask is None else ", ".join(lasting) or _for_a_moment(now) or "none"
    if expectation is None:
        return not_expected(observed)
    expected = "no hardware, thermal or power slowdown"
    if mask is None:
        return unanswered(gpu.throttle_reasons, expected)
    remedy = (
        "check cooling and power of the node (nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER); "
        "drain it if the slowdown persists"
    )
    return compared(not lasting, expected, observed, remedy)


def temperature(gpu: GpuSnapshot, expectation: Expectation | None, snapshot: Snapshot) -> Outcome:
    """Compare the temperature with the GPU's slowdown threshold, which newer GPUs report as a margin."""
    del snapshot
    now, threshold = gpu.temperature, gpu.slowdown_threshold
    margin, lowest = gpu.temperature_margin, gpu.slowdown_margin
    if expectation is None:
        return not_expected("" if now.value is None else f"{now.value} °C")
    if now.value is not None and threshold.value is not None:
        expected, observed = f"below {threshold.value} °C", f"{now.value} °C"
    elif margin.value is not None and lowest.value is not None:
        expected, observed = f"more than {lowest.value} °C to the limit", f"{margin.value} °C to the limit"
    else:
        return unanswered(threshold if now.ok else now, "below the GPU's slowdown threshold")
    lasts = _lasts(gpu, _HEAT)
    remedy = "check fans, air flow and inlet temperature; drain the node if it stays too hot"
    return compared(
        not lasts, expected, _for_a_moment(observed) if _is_hot(gpu) and not lasts else observed, remedy
    )


def _is_hot(gpu: GpuSnapshot) -> bool:
    """Return whether the temperature has reached the GPU's slowdown threshold."""
    if gpu.temperature.value is not None and gpu.slowdown_threshold.value is not None:
        return gpu.temperature.value >= gpu.slowdown_threshold.value
    margin, lowest = gpu.temperature_margin.value, gpu.slowdown_margin.value
    return margin is not None and lowest is not None and margin <= lowest


def _lasts(gpu: GpuSnapshot, what: str) -> bool:
    passes = gpu.slowed.value
    return what in slowed_by(gpu) if passes is None else 2 * passes.get(what, 0) >= passes[PASSES]


def _for_a_moment(words: str) -> str:
    return f"{words}, in fewer than half of the last passes" if words else ""
