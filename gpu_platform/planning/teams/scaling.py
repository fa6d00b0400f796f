"""Admission rules of a team's KEDA objects, whose operator has rights that the team lacks.

What is limited: gpu_platform/catalog/scaling_triggers.py. The ids are those of the policy pack.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog.scaling_triggers import (
    ADDRESSES,
    AUTHENTICATION,
    FOREIGN_AUTHENTICATION,
    HARMLESS_TRIGGERS,
    PROMETHEUS,
)
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import texts
from gpu_platform.stack.team import Team

_TRIGGERS = "dyn(object.spec).?triggers.orValue([])"


def servers_of(team: Team) -> tuple[str, ...]:
    """Return the servers that triggers of a team may ask: the platform's Prometheus, those of the stack file."""
    services = [one.autoscaling.server for one in team.inference_services if one.autoscaling is not None]
    named = (PROMETHEUS, *(one for one in services if one is not None), *team.scaling.servers)
    return tuple(dict.fromkeys(one.rstrip("/") for one in named))


def scaling_rules(team: Team) -> tuple[PodRule, ...]:
    """Return the rules of a team's ScaledObjects, ScaledJobs and TriggerAuthentications."""
    servers = servers_of(team)
    free = (*HARMLESS_TRIGGERS, *team.scaling.triggers)
    asked = " || ".join(
        f"(one.type == '{kind}' && {texts(servers)}.exists(server, "
        f"one.?metadata.?{field}.orValue('') == server || "
        f"one.?metadata.?{field}.orValue('').startsWith(server + '/')))"
        for kind, field in ADDRESSES.items()
    )
    return (
        PodRule(
            id="keda-trigger-server",
            expression=f"{_TRIGGERS}.all(one, one.type in {texts(free)} || {asked})",
            message="KEDA asks the server of a trigger past the network policies of the team: use "
            f"{', '.join(free)}, or {' or '.join(ADDRESSES)} of {', '.join(servers)}; an administrator adds "
            "others in teams[].scaling of the stack file",
        ),
        PodRule(
            id="keda-trigger-identity",
            expression=f"object.kind == 'TriggerAuthentication' ? "
            f"dyn(object.spec).all(key, key in {texts(AUTHENTICATION)}) : {_TRIGGERS}.all(one, "
            f"one.?authenticationRef.?kind.orValue('') != '{FOREIGN_AUTHENTICATION}')",
            message="a trigger has credentials of the team alone, never those of KEDA or of the cluster: use a "
            f"TriggerAuthentication with {', '.join(AUTHENTICATION)}",
        ),
    )


def scaling_of(teams: Sequence[Team]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the servers and trigger types of any team, for rules that are not specific to a team."""
    servers = dict.fromkeys(one for team in teams for one in servers_of(team))
    return tuple(servers), tuple(dict.fromkeys(one for team in teams for one in team.scaling.triggers))
