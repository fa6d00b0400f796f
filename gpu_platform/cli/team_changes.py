"""Finds out from the cluster which teams leave a stack or return to it, for both engines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_platform.base.errors import Finding, UnknownOutcome
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.contents import namespace_contents
from gpu_platform.planning import Plan
from gpu_platform.planning.changes.departures import TeamChange, renamed


def warn_of_teams(
    plan: Plan, argument: str, outputs: Mapping[str, Any], cluster: ClusterAccess
) -> tuple[TeamChange, ...] | None:
    """Print to standard error what happens to the namespaces of teams that leave the stack or return to it.

    Returns None if this is unknown. `argument` is the stack's name in commands. `outputs` are the outputs of the
    last deployment. Raises Finding if the namespace of a team has another owner.
    """
    if plan.kind == "environment" and plan.cluster.cloud is not None and not outputs:
        return ()  # the cluster may not exist yet
    try:
        changes = tuple(_changes(cluster.client(), plan, argument, outputs))
    except UnknownOutcome as reason:
        if outputs:
            print(f"teams were not compared with the cluster: {reason}", file=sys.stderr)
        return None
    for change in changes:
        print(f"{'note' if change.fate == 'adopted' else 'warning'}: {change}", file=sys.stderr)
    return changes


def _changes(
    client: KubernetesClient, plan: Plan, argument: str, outputs: Mapping[str, Any]
) -> Iterator[TeamChange]:
    declared = {team.namespace for team in plan.teams}
    found = kept_namespaces.team_namespaces(client)
    for namespace in found:
        if namespace.name in declared:
            kept_namespaces.refuse_other_stack(namespace, plan.stack)
            if namespace.is_retained:
                holds = str(namespace_contents(client, namespace.name))
                yield TeamChange(team=namespace.name, fate="adopted", stack=argument, holds=holds)
        elif namespace.stack == plan.stack and not namespace.is_retained:
            contents = namespace_contents(client, namespace.name, is_platform=kept_namespaces.is_of_platform)
            yield TeamChange(
                team=namespace.name,
                fate="deleted" if contents.is_empty else "retained",
                stack=argument,
                holds=str(contents),
                renamed_to=renamed(outputs.get("teams"), plan.teams, namespace.name),
            )
    for name in sorted(declared - {namespace.name for namespace in found}):
        kept_namespaces.refuse_deleting(client, name)
        if client.get("v1", "Namespace", name) is not None:
            raise Finding(
                f"namespace {name} already exists but belongs to no team; stack {plan.stack!r} does not take it "
                "over. Rename the team, or delete the namespace"
            )
