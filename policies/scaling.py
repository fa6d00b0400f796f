"""Rules about scaling by GPU metrics.

Source: KEDA docs, Prometheus scaler (ignoreNullValues), read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import ObjectSubject, Stack

_GPU_METRICS = ("DCGM_", "nvidia", "gpu")


@dataclass(frozen=True, slots=True, eq=False)
class ScaledObject(ObjectSubject):
    """One ScaledObject or ScaledJob of KEDA."""


def scaled_objects(stack: Stack) -> tuple[ScaledObject, ...]:
    """Return every ScaledObject and ScaledJob."""
    return tuple(ScaledObject(one) for one in stack.of_kind("keda.sh/ScaledObject", "keda.sh/ScaledJob"))


def _scales_down_blindly(_: Stack, scaled: ScaledObject, __: Settings) -> Iterator[Breach]:
    for trigger in scaled.resource.inputs.get("spec", "triggers").items():
        if trigger.get("type").text() != "prometheus":
            continue
        metadata = trigger.get("metadata")
        query = metadata.get("query").text() or ""
        ignores = metadata.get("ignoreNullValues")
        if not any(part.casefold() in query.casefold() for part in _GPU_METRICS):
            continue
        if not ignores.present or ignores.truth() or ignores.text() == "true":
            yield Breach(
                at=ignores,
                found="ignoreNullValues "
                + ("true" if ignores.present else "true (the default)")
                + " on a GPU metric",
                allowed='"false": a metric that is missing is an error',
                fix='write ignoreNullValues: "false", and a fallback with the replicas to keep',
            )


keda_null_scaledown = Rule(
    id="keda-null-scaledown",
    severity=Severity.HIGH,
    description="A missing GPU metric is an error, not zero: an outage of the exporter would scale down.",
    subjects=lambda stack: stack.view(scaled_objects),
    check=_scales_down_blindly,
    settings=Settings,
)

RULES = (keda_null_scaledown,)
