"""Decide whether a team's pods may run without a controller, because not every cluster isolates such pods."""

from __future__ import annotations

from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.declared_fields import check_declared_field
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.team import Team


def check_bare_pods(team: Team, cloud: Cloud, problems: Problems) -> None:
    """Record a problem if `allow_bare_pods` is set on a cluster that always admits pods without a controller.

    `problems` points to the team.
    """
    check_declared_field(team, "allow_bare_pods", cloud.cluster.provider, problems)


def admits_bare_pods(team: Team, cloud: Cloud) -> bool:
    """Return whether pods of the team may run without a controller."""
    return team.allow_bare_pods or cloud.network.isolates_bare_pods


def bare_pod_decisions(team: Team, cloud: Cloud) -> tuple[Decision, ...]:
    """Return the decision to admit or refuse pods without a controller. The result is empty if network policies
    apply to such pods.
    """
    if cloud.network.isolates_bare_pods:
        return ()
    if team.allow_bare_pods:
        chosen, why = (
            "admitted",
            "allow_bare_pods is set; AWS does not guarantee that network policies apply to such pods, "
            "so they may reach other teams and every address unless another network plugin enforces the policies",
        )
    else:
        chosen, why = (
            "refused",
            "AWS guarantees network policies of the VPC CNI only for pods with a controller; "
            "to admit other pods, set allow_bare_pods for the team",
        )
    return (Decision(subject=f"team {team.name}", what="pods without a controller", chosen=chosen, why=why),)
