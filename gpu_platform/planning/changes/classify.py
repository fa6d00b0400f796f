"""Classify every planned change by its effect on nodes, GPUs, running pods, data and access, before it happens.

Facts about the last deployment come from its stack outputs (`cluster`, `pools`, `software`, `teams`). The running
pods are read from the cluster. Both engines show the result, and `preview --fail-on` makes CI reject changes with
certain effects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.changes.cluster_impacts import impacts_of_cluster, objects_of_volumes
from gpu_platform.planning.changes.deployed import mapping_of, teams_of
from gpu_platform.planning.changes.durations import of_object
from gpu_platform.planning.changes.effects import Effect
from gpu_platform.planning.changes.impact import Impact, MigNodeChange, ObjectChange, Part, Phase
from gpu_platform.planning.changes.live_types import DataObject, LiveState
from gpu_platform.planning.changes.node_impacts import (
    impact_of_pool,
    impacts_of_left_zones,
    impacts_of_mig,
    impacts_of_resized,
    impacts_of_software,
    impacts_of_unused_sizes,
)
from gpu_platform.planning.changes.objects import CAPACITY_KINDS
from gpu_platform.planning.changes.pools import PoolChange
from gpu_platform.planning.changes.team_impacts import impacts_of_teams, leaving_teams
from gpu_platform.planning.plan import Plan


def classify(
    outputs: Mapping[str, Any],
    plan: Plan,
    catalog: Catalog,
    *,
    live: LiveState | None,
    pools: Sequence[PoolChange] = (),
    mig: Sequence[MigNodeChange] = (),
    objects: Sequence[ObjectChange] = (),
) -> tuple[Impact, ...]:
    """Return the planned changes to a deployed stack, worst first. The result is empty if the stack has no
    outputs.

    `outputs` are the stack outputs of the last deployment. `live` is None if the cluster was not read. `mig` lists
    the live nodes whose MIG layout changes. `objects` are the changes that the engine reports.
    """
    if not outputs:
        return ()
    found: list[Impact] = []
    if plan.kind == "environment":
        facts = mapping_of(outputs.get("pools"))
        found += [impact_of_pool(one, plan, live, mapping_of(facts.get(one.pool)), catalog) for one in pools]
        found += impacts_of_resized(facts, plan, live, {one.pool for one in pools})
        found += impacts_of_unused_sizes(facts, plan, pools)
        found += impacts_of_left_zones(facts, plan, pools)
        found += impacts_of_mig(mig, plan, live)
        found += impacts_of_cluster(outputs.get("cluster"), plan)
        found += impacts_of_software(outputs.get("software"), plan, live, _covered(pools, mig))
    found += impacts_of_teams(teams_of(outputs), plan, live)
    volumes = objects_of_volumes(outputs)  # `impacts_of_cluster` already reports these objects
    others = [one for one in objects if (one.kind, one.namespace, one.name) not in volumes]
    found += _of_objects(others, plan, live, leaving=leaving_teams(outputs, plan))
    return tuple(sorted(found, key=lambda impact: (-impact.effect.rank, impact.subject)))


def _covered(pools: Sequence[PoolChange], mig: Sequence[MigNodeChange]) -> tuple[set[str], set[str]]:
    """Return the pools that are replaced, removed or changed by a rolling update, and the pools with live nodes
    whose MIG layout changes.
    """
    return {change.pool for change in pools if change.effect != "shrunk"}, {change.pool for change in mig}


_RESULTS = {"update": "changed", "replace": "deleted and created again", "delete": "deleted"}


def _of_objects(
    changes: Iterable[ObjectChange], plan: Plan, live: LiveState | None, *, leaving: set[str]
) -> Iterator[Impact]:
    """Yield the impact of each object change whose effect is worse than `in-place`. Leave out changes that the
    impact of a pool or team already covers.
    """
    for change in changes:
        if change.effect is Effect.IN_PLACE or change.kind in CAPACITY_KINDS:
            continue
        of_leaving = change.kind == "Namespace" and change.name in leaving
        if of_leaving and live is not None and not live.data.get(change.name):
            continue  # the engines delete a team's namespace only if members created nothing in it
        if change.effect is Effect.CUTS_ACCESS:
            continue  # the impact on the team includes the lost access
        pods = None
        if live is not None:
            pods = tuple(pod.deleted() for pod in live.pods_in(change.namespace) if _is_of(pod.owner, change))
        data: tuple[DataObject, ...] = ()
        if live is not None and change.kind == "Namespace":
            data = live.data.get(change.name, ())
        place = f"{change.namespace}/" if change.namespace else ""
        subject = f"{change.kind.split('.')[0]} {place}{change.name}"
        deleted = change.action == "delete"
        yield Impact(
            subject=subject,
            effect=change.effect,
            field=", ".join(field.path for field in change.fields[:3]),
            old="deployed",
            new=_RESULTS[change.action],
            pods=pods,
            data=data,
            duration=of_object(change.kind, change.namespace, change.name, plan, deleted=deleted),
            parts=(Part(_phase(change, plan), subject, _RESULTS[change.action]),),
            because="",
        )


def _is_of(owner: str, change: ObjectChange) -> bool:
    """Return whether the changed object is the controller of a pod, or has created this controller.

    A JobSet creates the Jobs `<name>-node-<number>`, also for a TrainJob. A LeaderWorkerSet creates the
    StatefulSets `<name>` and `<name>-<number>`.
    """
    kind, name = change.kind.split(".")[0], re.escape(change.name)
    if kind in ("JobSet", "TrainJob"):
        return re.fullmatch(rf"Job {name}-node-\d+", owner) is not None
    if kind == "LeaderWorkerSet":
        return re.fullmatch(rf"StatefulSet {name}(-\d+)?", owner) is not None
    return owner == f"{kind} {change.name}"


def _phase(change: ObjectChange, plan: Plan) -> Phase:
    """Return the phase in which both engines change an object.

    Team objects change after node validation, and deletions come last.
    """
    if change.action == "delete":
        return Phase.DELETION
    if change.namespace in {team.namespace for team in plan.teams}:
        return Phase.TEAMS
    return Phase.VALIDATION if change.namespace == names.VALIDATION_NAMESPACE else Phase.NODES
