"""Sort the steps of all changes in the order in which `up` executes them. The order is the same with either
engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_platform.base.quantity import duration_text
from gpu_platform.planning.changes.deployed import mapping_of
from gpu_platform.planning.changes.impact import Impact, Part, Phase
from gpu_platform.planning.plan import Plan

_POOL = "pool "
_KINDS = ("pool", "nodes", "cluster", "operator", "team")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an `up` run, and the subjects that it changes. Steps with the same number happen at the same
    time.
    """

    number: int
    subjects: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        """Return the step as text, such as `pools infer, train: created`."""
        subjects = ", ".join(self.subjects)
        if len(self.subjects) > 1 and all(one.startswith(_POOL) for one in self.subjects):
            subjects = f"pools {', '.join(one.removeprefix(_POOL) for one in self.subjects)}"
        return f"{subjects}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Return the step for a JSON report."""
        return {"step": self.number, "subjects": list(self.subjects), "text": self.text}


def order_of(impacts: Sequence[Impact], plan: Plan, outputs: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the steps of an `up` run in order. The result is empty if nothing changes.

    `outputs` are the stack outputs of the last deployment.
    """
    if not impacts:
        return ()
    parts = [part for impact in impacts for part in impact.parts]
    known = {part.subject for part in parts if part.phase is Phase.NODES}
    parts += [part for part in _created(plan, outputs) if part.subject not in known]
    if any(part.phase in (Phase.LAYOUTS, Phase.NODES) for part in parts):
        parts += _validation(plan)
    grouped: dict[tuple[Phase, str], list[str]] = {}
    for part in sorted(parts, key=lambda part: part.phase):
        subjects = grouped.setdefault((part.phase, part.text), [])
        if part.subject not in subjects:
            subjects.append(part.subject)
    numbers = {phase: number for number, phase in enumerate(sorted({phase for phase, _ in grouped}), start=1)}
    return tuple(Step(numbers[phase], tuple(subjects), text) for (phase, text), subjects in grouped.items())


def step_of(impact: Impact, steps: Sequence[Step]) -> int | None:
    """Return the number of the step in which a change begins, or None if no step contains the change."""
    texts = {(part.subject, part.text) for part in impact.parts}
    found = (step.number for step in steps for subject in step.subjects if (subject, step.text) in texts)
    return min(found, default=None)


def has_an_order(steps: Sequence[Step]) -> bool:
    """Return whether the steps affect several pools. The order of the steps of a single pool is not reported."""
    return len({subject for step in steps for subject in step.subjects if subject.startswith(_POOL)}) > 1


def without_objects(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps for pools, nodes, the cluster, the operator and teams. Leave out individual objects."""
    found = (
        Step(step.number, tuple(one for one in step.subjects if one.partition(" ")[0] in _KINDS), step.text)
        for step in steps
    )
    return tuple(step for step in found if step.subjects)


def _created(plan: Plan, outputs: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the first step of each pool that is new since the last deployment. Yield nothing if the outputs of
    that deployment list no pools.
    """
    if plan.kind != "environment" or "pools" not in outputs:
        return
    before = mapping_of(outputs["pools"])
    for pool in plan.pools:
        if pool.name not in before:
            created = pool.nodes.ownership in ("created", "cloud")
            yield Part(Phase.NODES, f"{_POOL}{pool.name}", "created" if created else "the nodes get their labels")


def _validation(plan: Plan) -> Iterator[Part]:
    if plan.kind == "environment" and plan.pools:
        gate = plan.validation
        limit = f"for at most {duration_text(gate.timeout_seconds)}" if gate.gate else "`up` does not wait for it"
        yield Part(Phase.VALIDATION, "nodes", f"validated, {limit}")
