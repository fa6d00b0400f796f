"""Check and plan the teams of an environment, or one team that another stack deploys on that environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.identities import CloudIdentities
from gpu_platform.planning.clouds.registry import cloud_of
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import LOWEST_WITH_NODES
from gpu_platform.planning.problems import Problems, check_unique
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.bare_pods import check_bare_pods
from gpu_platform.planning.teams.claims import check_device_classes
from gpu_platform.planning.teams.gpu_memory import check_gpu_memory
from gpu_platform.planning.teams.identity import (
    check_own_identity,
    check_pull_secrets,
    identities_of,
    plan_service_account,
)
from gpu_platform.planning.teams.network import check_network
from gpu_platform.planning.teams.routes import check_routes
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.teams.team_plans import (
    check_priorities,
    check_quotas,
    check_reserve,
    check_team,
    check_team_alone,
    plan_team,
    priority_values,
)
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import GpuUnits, Team


def check_alone(environment: Environment, catalog: Catalog, problems: Problems) -> None:
    """Record problems with priorities and teams that can be detected without the pools and the cloud."""
    check_priorities(environment.priorities, problems.at("priorities"))
    check_unique("team", [(f"teams[{i}]", team.name) for i, team in enumerate(environment.teams)], problems)
    priorities, cloud = priority_values(environment.priorities), cloud_of(environment.cluster)
    for index, team in enumerate(environment.teams):
        here = problems.at(f"teams[{index}]")
        check_team_alone(team, priorities, catalog, here)
        check_network(team, cloud, here)
        check_bare_pods(team, cloud, here)


def check(context: CompleteContext, available: Available) -> None:
    """Record problems with the teams of an environment whose pools are planned."""
    environment, problems = context.environment, context.problems
    _check_values(context, available)
    check_device_classes(environment.device_classes, available, problems.at("device_classes"))
    teams = [(f"teams[{index}]", team) for index, team in enumerate(environment.teams)]
    _check_teams(teams, teams, environment, available, problems)
    reserve = environment.queueing.reserve if environment.queueing is not None else None
    _check_quotas(teams, reserve, environment, available, problems)


def _check_values(context: CompleteContext, available: Available) -> None:
    """Record a problem for each priority at which pending pods add no nodes, or at which headroom pods preempt
    pods.
    """
    grown = [pool.name for pool in available.pools if pool.by_cluster_autoscaler]
    headroom = any(pool.headroom is not None for _, pool in context.pools)
    for name, value in context.environment.priorities.items():
        place = context.at("priorities").at(name)
        if headroom and value <= LOWEST_WITH_NODES:
            allowed = f"above {LOWEST_WITH_NODES}, the priority of headroom"
            place.add(str(value), allowed, f"write {LOWEST_WITH_NODES + 1} or more")
        elif grown and value < LOWEST_WITH_NODES:
            place.add(
                str(value),
                f"{LOWEST_WITH_NODES} or more: the Cluster Autoscaler adds no node to pool {', '.join(grown)} "
                "for pods with a lower priority, and removes nodes that run such pods",
                f"write {LOWEST_WITH_NODES} or more, or a fixed count in these pools",
            )


def _check_quotas(
    teams: Sequence[tuple[str, Team]],
    reserve: GpuUnits | None,
    environment: Environment,
    available: Available,
    problems: Problems,
) -> None:
    quotas: list[tuple[str, str, GpuUnits]] = [(f"{path}.quota", team.name, team.quota) for path, team in teams]
    if reserve is not None:
        quotas.append(("queueing.reserve", "reserve", reserve))
    queues = environment.queueing is not None
    check_quotas(quotas, available, environment.overcommit, problems, queues=queues)


def check_one(team: Team, environment: Environment, available: Available, problems: Problems) -> None:
    """Check a team with its own stack together with the teams of its environment, and record the problems."""
    taken = [one.name for one in environment.teams]
    if team.name in taken:
        problems.at("team").at("name").add(
            f"{team.name!r}",
            f"a team that the environment does not declare itself ({', '.join(taken)})",
            "remove it from the environment's teams, or rename it",
        )
    check_pull_secrets(team, problems.at("team"))
    check_own_identity(team, environment, cloud_of(environment.cluster), problems.at("team"))
    check_team_alone(team, priority_values(environment.priorities), available.catalog, problems.at("team"))
    check_network(team, cloud_of(environment.cluster), problems.at("team"))
    check_bare_pods(team, cloud_of(environment.cluster), problems.at("team"))
    others = [("(environment)", one) for one in environment.teams]
    _check_teams([("team", team)], [*others, ("team", team)], environment, available, problems)
    if environment.queueing is None:
        _check_quotas([*others, ("team", team)], None, environment, available, problems)
    else:
        reserve = environment.queueing.reserve
        check_reserve(team, reserve, environment.teams, available, problems.at("team").at("quota"))


def _check_teams(
    own: Sequence[tuple[str, Team]],
    teams: Sequence[tuple[str, Team]],
    environment: Environment,
    available: Available,
    problems: Problems,
) -> None:
    """Record problems with each team in `own`, and with all `teams` together.

    Each entry is a pair: the team's path in the stack file, and the team.
    """
    queues = environment.queueing is not None
    for path, team in own:
        check_team(team, available, problems.at(path), queues=queues)
    check_gpu_memory(teams, available, problems)
    check_routes(teams, problems)


def plan(context: CompleteContext, available: Available, kubernetes: str | None) -> Decided[tuple[TeamPlan, ...]]:
    """Return the plans of the teams of an environment that has no problems.

    `kubernetes` is the cluster's planned minor version, or None if it is unknown.
    """
    return _plan(context.environment.teams, context.stack, context.environment, available, kubernetes)


def plan_identities(context: CompleteContext) -> Decided[CloudIdentities | None]:
    """Return the cloud resources for the identities of an environment that has no problems."""
    return context.cloud.identities.plan(identities_of(context.environment))


def plan_one(
    team: Team, stack: str, environment: Environment, available: Available, kubernetes: str | None
) -> Decided[tuple[TeamPlan, ...]]:
    """Return the plan for a team with its own stack. The stack must have no problems.

    `kubernetes` is the cluster's planned minor version, or None if it is unknown.
    """
    return _plan([team], stack, environment, available, kubernetes)


def _plan(
    teams: Sequence[Team], stack: str, environment: Environment, available: Available, kubernetes: str | None
) -> Decided[tuple[TeamPlan, ...]]:
    priorities = priority_values(environment.priorities)
    cloud = cloud_of(environment.cluster)
    identities = identities_of(environment)
    queues = environment.queueing is not None
    found = [team.identity or identities.get(team.name) for team in teams]
    team_plans = [
        plan_team(
            team,
            stack,
            available,
            priorities,
            cloud,
            kubernetes,
            addons=environment.addons.model_dump(exclude_none=True),
            queues=queues,
            identified=identity is not None,
        )
        for team, identity in zip(teams, found, strict=True)
    ]
    accounts = [plan_service_account(team, identity, cloud) for team, identity in zip(teams, found, strict=True)]
    decisions: list[Decision] = []
    for team_plan in team_plans:
        decisions += team_plan.decisions
    return Decided(
        tuple(
            replace(team_plan.value, service_account=account)
            for team_plan, account in zip(team_plans, accounts, strict=True)
        ),
        tuple(decisions),
    )
