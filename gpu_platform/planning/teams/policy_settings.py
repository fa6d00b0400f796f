"""Derive the settings of the policy pack's rules from the rights that the stack file grants to teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.catalog.pod_limits import BARE_POD, INLINE_CSI_DRIVERS, LONGEST_GRACE_SECONDS
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.teams.bare_pods import admits_bare_pods
from gpu_platform.planning.teams.routes import routes_of
from gpu_platform.planning.teams.team_plans import longest_grace
from gpu_platform.stack.team import Team


def policy_settings(teams: Sequence[Team], cloud: Cloud) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of each rule that applies to all teams together. A setting permits everything that the
    stack file allows for at least one of the teams.
    """
    hosts, annotations = routes_of(teams)
    drivers = dict.fromkeys(one for team in teams for one in team.inline_csi_drivers)
    found: dict[str, Mapping[str, Any]] = {}
    if hosts:
        found["route-host"] = {"hosts": sorted(hosts)}
    if annotations:
        found["route-annotation"] = {"annotations": sorted(annotations)}
    if drivers:
        found["volume-source"] = {"drivers": [*INLINE_CSI_DRIVERS, *sorted(drivers)]}
    grace = max(map(longest_grace, teams), default=LONGEST_GRACE_SECONDS)
    if grace > LONGEST_GRACE_SECONDS:
        found["node-keeping"] = {"longestGraceSeconds": grace}
    if controlled := [team.name for team in teams if not admits_bare_pods(team, cloud)]:
        found[BARE_POD] = {"namespaces": sorted(controlled)}
    return found
