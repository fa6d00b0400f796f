"""Limit servers and triggers of a team's KEDA objects, because the KEDA operator has rights that the team lacks.

The limits are in gpu_platform/catalog/scaling_triggers.py, and the rules in
gpu_platform/catalog/rules/scaling.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform.catalog.admission_rules import Value
from gpu_platform.catalog.scaling_triggers import (
    ADDRESSES,
    AUTHENTICATION,
    FOREIGN_AUTHENTICATION,
    HARMLESS_TRIGGERS,
    PROMETHEUS,
)
from gpu_platform.stack.team import Team


def servers_of(team: Team) -> tuple[str, ...]:
    """Return the servers that a team's triggers may query: the platform's Prometheus, and the declared servers."""
    services = [one.autoscaling.server for one in team.inference_services if one.autoscaling is not None]
    named = (PROMETHEUS, *(one for one in services if one is not None), *team.scaling.servers)
    return tuple(dict.fromkeys(one.rstrip("/") for one in named))


def scaling_values(team: Team) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for a team's ScaledObjects, ScaledJobs and
    TriggerAuthentications.
    """
    return {
        "free_triggers": (*HARMLESS_TRIGGERS, *team.scaling.triggers),
        "trigger_addresses": ADDRESSES,
        "trigger_types": list(ADDRESSES),
        "trigger_servers": servers_of(team),
        "own_authentication": AUTHENTICATION,
        "foreign_authentication": FOREIGN_AUTHENTICATION,
    }


def scaling_of(teams: Sequence[Team]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the servers and trigger types of all teams, for rules that apply to all teams together."""
    servers = dict.fromkeys(one for team in teams for one in servers_of(team))
    return tuple(servers), tuple(dict.fromkeys(one for team in teams for one in team.scaling.triggers))
