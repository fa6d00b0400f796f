"""Shows the impact of all changes in `preview` and `up`, before any change is made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_platform.base.errors import BadInput, Finding, Problem, UnknownOutcome
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.rollout.plan import Rollout
from gpu_platform.live.client import Refused
from gpu_platform.live.live_objects import ObjectsOnce
from gpu_platform.live.live_state import read_live
from gpu_platform.planning import Plan
from gpu_platform.planning.changes import PoolChange, classify, leaving_teams
from gpu_platform.planning.changes.deployed import NOT_DEPLOYED
from gpu_platform.planning.changes.effects import Effect, worst
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, ObjectChange, short
from gpu_platform.planning.changes.live_types import DataObject, LiveState, RunningPod
from gpu_platform.planning.changes.objects import ChangedField
from gpu_platform.planning.changes.order import Step, has_an_order, order_of, step_of, without_objects

_BLOCKED = "blocked"  # value of --fail-on for a change that cannot proceed until somebody removes an obstacle
_MAX_LISTED = 4
_MAX_NODES = 8
_STYLES = {
    Effect.DELETES_DATA: "bold red",
    Effect.REPLACES: "red",
    Effect.CUTS_ACCESS: "red",
    Effect.REMOVES_CAPACITY: "yellow",
    Effect.ROLLS_NODES: "yellow",
    Effect.RESTARTS_PODS: "cyan",
}


@dataclass(frozen=True, slots=True)
class Impacts:
    """Impact of all changes, with the worst change first. `known` is true if pods and data were read from the
    cluster.

    `order` contains the steps in which `up` makes the changes, first to last.
    """

    found: tuple[Impact, ...] = ()
    known: bool = True
    order: tuple[Step, ...] = ()

    @property
    def effect(self) -> Effect:
        """Worst effect of all changes."""
        return worst(impact.effect for impact in self.found)

    def to_json(self) -> dict[str, Any]:
        """Return the impact for a JSON report."""
        return {
            "effect": self.effect.value,
            "cluster_read": self.known,
            "order": [step.to_json() for step in self.order],
            "changes": [{**impact.to_json(), "step": step_of(impact, self.order)} for impact in self.found],
        }


def find_impacts(
    plan: Plan,
    outputs: Mapping[str, Any],
    objects: ObjectsOnce,
    pools: Sequence[PoolChange] | None,
    rollout: Rollout | None,
    changes: Mapping[str, Any] | None,
) -> Impacts:
    """Return the impact of the changes to a deployed stack, or no impact for a stack that is not deployed.

    `changes` is the engine's document of changes, or None if objects were not compared.
    """
    if not outputs:
        return Impacts()
    live = _read(plan, outputs, objects)
    found = classify(
        outputs,
        plan,
        load_catalog(),
        live=live,
        pools=pools or (),
        mig=_mig(rollout),
        objects=_objects(changes),
    )
    return Impacts(found, known=live is not None, order=order_of(found, plan, outputs))


def _read(plan: Plan, outputs: Mapping[str, Any], objects: ObjectsOnce) -> LiveState | None:
    try:
        return read_live(objects.cluster.client(), plan, leaving_teams(outputs, plan), objects.read())
    except (UnknownOutcome, Refused) as reason:
        print(f"running pods and data are unknown, because the cluster was not read: {reason}", file=sys.stderr)
        return None


def _mig(rollout: Rollout | None) -> list[MigNodeChange]:
    return [
        MigNodeChange(
            node=change.node,
            pool=pool.pool,
            old=change.old,
            new=change.new,
            # Nodes that are out of service for other reasons also count towards `max_unavailable`.
            at_a_time=max(1, pool.rules.max_unavailable - len(pool.elsewhere)),
            failed=change.failed,
            remark=change.remark(pool.rules),
        )
        for pool in (rollout.drained if rollout is not None else ())
        for change in pool.changes
        if change.drains
    ]


def _objects(changes: Mapping[str, Any] | None) -> list[ObjectChange]:
    return [
        ObjectChange(
            action=change["action"],
            kind=change["kind"],
            namespace=change["namespace"],
            name=change["name"],
            fields=tuple(ChangedField(field["path"], field["old"], field["new"]) for field in change["fields"]),
        )
        for change in (changes or {}).get("changes", ())
        if change["action"] != "retain"  # the object stays unchanged, and another row of the table covers its team
    ]


# -- printing ------------------------------------------------------------------------------------------------


def show_impacts(out: Console, impacts: Impacts) -> None:
    """Print a table of changes with old and new value, effect, nodes, GPUs and pods. Print the details below the
    table.
    """
    if not impacts.found:
        return
    table = Table(title="Impact", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("what", "from", "to"):
        table.add_column(heading, overflow="fold")
    table.add_column("effect", no_wrap=True)
    for heading in ("nodes", "GPUs", "pods"):
        table.add_column(heading, justify="right", no_wrap=True)
    for impact in impacts.found:
        table.add_row(
            Text(impact.subject),
            Text(impact.old or NOT_DEPLOYED),
            Text(impact.new or NOT_DEPLOYED),
            Text(impact.effect.value, style=_STYLES.get(impact.effect, "")),
            _count(impact.nodes),
            _count(impact.gpus),
            "?" if impact.pods is None else _count(len(impact.stopping) or None),
        )
    out.print(table, soft_wrap=False)
    for impact in impacts.found:
        for line in details(impact):
            indent = len(line) - len(line.lstrip())
            out.print(Padding(Text(line.lstrip()), (0, 0, 0, indent)), soft_wrap=False)
    for line in order_lines(impacts.order):
        out.print(Padding(Text(line.lstrip()), (0, 0, 0, len(line) - len(line.lstrip()))), soft_wrap=False)


def order_lines(steps: Sequence[Step]) -> list[str]:
    """Return the steps as a numbered list, or an empty list if they concern at most one pool."""
    if not has_an_order(steps):
        return []
    texts: dict[int, list[str]] = {}
    for step in without_objects(steps):
        texts.setdefault(step.number, []).append(str(step))
    return ["order", *(f"  {number}. {'; '.join(parts)}" for number, parts in enumerate(texts.values(), start=1))]


def details(impact: Impact) -> list[str]:
    """Return the lines below the table: reason, pods by team and owner, disruption budgets, data, order and
    duration.
    """
    lines: list[str] = []
    if impact.because:
        lines.append(f"  {impact.field}: {impact.because}" if impact.field else f"  {impact.because}")
    if impact.node_names:
        lines.append(f"  nodes: {_first_nodes(impact.node_names)}")
    if impact.order:
        lines.append(f"  order: {impact.order}")
    if impact.duration is not None:
        lines.append(f"  duration: {impact.duration}")
    if impact.stopping:
        lines.append(f"  stops: {pods_text(impact.stopping)}")
    lines += [f"  {'never evicted' if block.forever else 'not evicted now'}: {block}" for block in impact.blocks]
    if impact.data:
        verb = "deletes" if impact.effect is Effect.DELETES_DATA else "stays"
        lines.append(f"  {verb}: {_listed(impact.data)}")
    return [f"{impact.subject} ({impact.effect.value})", *lines] if lines else []


def pods_text(pods: Iterable[RunningPod]) -> str:
    """Return pods by team and owner, such as `vision: Deployment web (3 pods, 6 x nvidia.com/gpu)`."""
    owners: dict[tuple[str, str], list[RunningPod]] = {}
    for pod in pods:
        owners.setdefault((pod.namespace, pod.owner), []).append(pod)
    return "; ".join(
        f"{namespace}: {owner} ({_pods(held)})" for (namespace, owner), held in sorted(owners.items())
    )


def _pods(held: Sequence[RunningPod]) -> str:
    units: Counter[str] = Counter()
    for pod in held:
        units.update(pod.units)
    return ", ".join(
        [counted(len(held), "pod"), *(f"{count} x {short(name)}" for name, count in sorted(units.items()))]
    )


def _listed(data: Sequence[DataObject]) -> str:
    named = ", ".join(str(item) for item in data[:_MAX_LISTED])
    rest = len(data) - _MAX_LISTED
    return named + (f" and {rest} more" if rest > 0 else "")


def _first_nodes(nodes: Sequence[str]) -> str:
    """Return the names of the first nodes, and of all nodes that have a remark."""
    shown = [node for index, node in enumerate(nodes) if index < _MAX_NODES or " " in node]
    rest = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


# -- CI gate ------------------------------------------------------------------------------------------------


def parse_effects(text: str) -> frozenset[str]:
    """Parse a comma-separated list that may contain effects and `blocked`. Raises BadInput for any other word."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = [*(effect.value for effect in Effect if effect is not Effect.IN_PLACE), _BLOCKED]
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise BadInput(
            "--fail-on",
            [
                Problem(
                    "--fail-on",
                    repr(text) if not unknown else ", ".join(unknown),
                    "a comma-separated list of " + ", ".join(known),
                    "for example, write --fail-on deletes-data,replaces",
                )
            ],
        )
    return frozenset(words)


def refuse(impacts: Impacts, refused: frozenset[str]) -> None:
    """Raise Finding if a change has one of the refused effects, or if it is blocked and `refused` contains
    `blocked`.
    """
    found = [f"{impact.subject} {impact.effect.value}" for impact in impacts.found if impact.effect in refused]
    if _BLOCKED in refused:
        found += [f"{impact.subject} {_BLOCKED}" for impact in impacts.found if impact.blocked]
    if found:
        raise Finding(f"--fail-on {','.join(sorted(refused))}: {'; '.join(found)}")


def refuse_impossible(stack: str, impacts: Impacts) -> None:
    """Raise BadInput, before anything is changed, if the platform cannot make one of the changes."""
    problems = [impact.refusal for impact in impacts.found if impact.refusal is not None]
    if problems:
        raise BadInput(stack, problems)
