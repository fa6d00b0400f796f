"""Check and plan the queues of an environment, or the queue of a team with its own stack.

Source: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2 and pkg/scheduler/flavorassigner; read 2026-11-23.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.planning.clouds.closed_ports import name_closed_ports
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.queues.checks import (
    check_gpus,
    check_limits,
    check_queueing,
    check_requested_nodes,
    check_starts,
    check_sums_by_pool,
    check_teams,
)
from gpu_platform.planning.queues.kueue import PROVISIONING_RETRY, plan_kueue
from gpu_platform.planning.queues.limits import ceiling, cohort_quotas, cpu_flavor, flavor_quotas
from gpu_platform.planning.queues.reasons import queue_decisions, queueing_decisions
from gpu_platform.planning.queues.requests import check_requests
from gpu_platform.planning.queues.section import (
    CHART,
    FlavorPlan,
    ProvisioningPlan,
    QueuesPlan,
    SelectedClass,
    TeamQueuePlan,
    TopologyPlan,
)
from gpu_platform.planning.queues.shares import divide_pools, offers_of, queue_settings
from gpu_platform.planning.queues.starts import DividedPools, starts
from gpu_platform.planning.queues.topology import is_topology_aware
from gpu_platform.planning.queues.waiting import check_startup, waiting_decisions
from gpu_platform.planning.queues.work import declared_work
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.teams.team_plans import plan_priority_classes
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.team import GpuUnits, Team

DEFAULT_QUEUE: Final = "default"
"""Name of the LocalQueue that Kueue uses for workloads that name no queue."""


def check(context: CompleteContext, available: Available) -> None:
    """Record problems with the queues of an environment. The teams must have no other problems."""
    environment = context.environment
    teams = [(f"teams[{index}]", team) for index, team in enumerate(environment.teams)]
    check_queueing(environment, context.cloud, available, context.problems)
    check_teams(environment.queueing, teams, available, context.problems)
    if environment.queueing is None and teams:
        check_requested_nodes(available.pools, context.problems)
    if environment.queueing is not None:
        quotas: list[tuple[str, GpuUnits]] = [(f"{path}.quota", team.quota) for path, team in teams]
        quotas.append(("queueing.reserve", environment.queueing.reserve))
        check_sums_by_pool(quotas, offers_of(available), context.problems)
        for path, team in teams:
            here = context.problems.at(path)
            check_startup(team, environment.teams, environment.queueing, available.pools, here)
            check_requests(team, available, here)
        if not context.problems.found:
            _check_starts(teams, environment, (), available, context.problems)


def check_one(team: Team, environment: Environment, available: Available, problems: Problems) -> None:
    """Record problems with the queue of a team with its own stack."""
    check_teams(environment.queueing, [("team", team)], available, problems)
    if environment.queueing is None:
        check_requested_nodes(available.pools, problems, team_stack=True)
    if environment.queueing is not None:
        check_startup(team, environment.teams, environment.queueing, available.pools, problems.at("team"))
        check_requests(team, available, problems.at("team"))
    if environment.queueing is not None and not problems.found:
        _check_starts([("team", team)], environment, (team,), available, problems)


def _check_starts(
    teams: Sequence[tuple[str, Team]],
    environment: Environment,
    own_stack: Sequence[Team],
    available: Available,
    problems: Problems,
) -> None:
    """Record a problem for quotas that count a GPU twice, for limits by pool that are too high, and for declared
    workloads that cannot start even if other teams lend all the quota that they can.
    """
    divided = _divide(environment, own_stack, available)
    shares = divided.division.teams
    check_gpus({path: shares[team.name].nominal for path, team in teams}, divided.offers, problems)
    for path, team in teams:
        check_limits(team, shares[team.name], divided.offers, Problems(path, problems.found))
        check_starts(starts(team, divided), Problems(path, problems.found))


def _divide(environment: Environment, own_stack: Sequence[Team], available: Available) -> DividedPools:
    """Divide the pools' resources among the teams, taking into account their declared workloads."""
    offers = offers_of(available)
    work = {one.name: declared_work(one, available) for one in (*environment.teams, *own_stack)}
    return DividedPools(
        teams=environment.teams,
        pools=available.pools,
        offers=offers,
        work=work,
        division=divide_pools(environment, own_stack, available, offers, work),
    )


def plan(
    context: CompleteContext, available: Available, team_plans: Sequence[TeamPlan]
) -> Decided[QueuesPlan | None]:
    """Return the queues of an environment that has no problems, or None if it has no `queueing`."""
    environment = context.environment
    queueing = environment.queueing
    if queueing is None:
        return Decided(None)
    cloud, pools = context.cloud, available.pools
    aware = is_topology_aware(queueing, pools, cloud)
    flavors = _flavors(cloud, pools, aware=aware)
    divided = _divide(environment, (), available)
    teams = _plan_teams(environment.teams, environment, team_plans, cloud, available, divided)
    planned = QueuesPlan(
        kueue=plan_kueue(queueing, cloud, available, context.catalog),
        topologies=_topologies(cloud, pools) if aware else (),
        flavors=flavors,
        cohorts=cohort_quotas(
            divided.division, divided.offers, pools, {one.pool: one.name for one in flavors if one.pool}
        ),
        priority_classes=plan_priority_classes(environment.priorities),
        provisioning=_provisioning(cloud, pools),
        teams=teams,
    )
    return Decided(
        planned,
        (
            *name_closed_ports("queueing", {"Kueue": context.catalog.charts[CHART].api_ports}, cloud),
            *queueing_decisions(context.stack, queueing, planned, pools, cloud),
            *waiting_decisions(pools, environment.teams, queueing),
            *queue_decisions(environment.teams, teams, divided),
        ),
    )


def plan_one(
    team: Team, environment: Environment, cloud: Cloud, available: Available, team_plans: Sequence[TeamPlan]
) -> Decided[tuple[TeamQueuePlan, ...]]:
    """Return the queue of a team with its own stack. Its quota is taken from the capacity that is not assigned to
    the environment's teams.
    """
    if environment.queueing is None:
        return Decided(())
    divided = _divide(environment, (team,), available)
    teams = _plan_teams((team,), environment, team_plans, cloud, available, divided)
    used = [pool for pool in available.pools if any(one.pool == pool.name for one in team.inference_services)]
    waiting = waiting_decisions(used, [*environment.teams, team], environment.queueing)
    return Decided(teams, (*waiting, *queue_decisions([team], teams, divided)))


def team_queues(queues: QueuesPlan | Sequence[TeamQueuePlan] | None) -> Sequence[TeamQueuePlan]:
    """Return the team queues from the plan for an environment, or from the plan for a team's own stack."""
    return queues.teams if isinstance(queues, QueuesPlan) else queues or ()


def queue_of(namespace: str, queues: Sequence[TeamQueuePlan]) -> TeamQueuePlan | None:
    """Return the queue of a namespace, or None if it has no queue."""
    return next((queue for queue in queues if queue.namespace == namespace), None)


def _plan_teams(
    teams: Sequence[Team],
    environment: Environment,
    team_plans: Sequence[TeamPlan],
    cloud: Cloud,
    available: Available,
    divided: DividedPools,
) -> tuple[TeamQueuePlan, ...]:
    assert environment.queueing is not None  # noqa: S101 - both callers have checked it
    queueing = environment.queueing
    planned = _flavors(cloud, available.pools, aware=is_topology_aware(queueing, available.pools, cloud))
    flavors = {flavor.pool: flavor.name for flavor in planned}
    checks = {
        pool.name: _check_name(pool) for pool in available.pools if cloud.pools.provisioning(pool) is not None
    }
    by_name = {team_plan.namespace: team_plan for team_plan in team_plans}
    classes = tuple(
        SelectedClass(label=label, name=value, pools=one.pools)
        for one in environment.compute_classes
        for label, value in cloud.classes.labels(one.name).items()
    )
    found = (_plan_team(queueing, team, divided, flavors, checks, by_name[team.name]) for team in teams)
    return tuple(replace(one, classes=classes) for one in found)


def _plan_team(
    queueing: Queueing,
    team: Team,
    divided: DividedPools,
    names_of_flavors: Mapping[str | None, str],
    checks: Mapping[str, str],
    team_plan: TeamPlan,
) -> TeamQueuePlan:
    settings, offers, pools = queue_settings(team), divided.offers, divided.pools
    shares = divided.division.teams[team.name]
    flavors = flavor_quotas(team.quota, team.priority, shares, offers, pools, names_of_flavors, checks)
    required, defaults = queueing.without_queue == "refuse", team_plan.pod_defaults
    return TeamQueuePlan(
        namespace=team.name,
        local_queue=team.name if required else DEFAULT_QUEUE,
        cohort=settings.cohort,
        weight=f"{settings.weight:g}",
        within_queue="LowerPriority" if queueing.preemption.within_team == "lower-priority" else "Never",
        reclaim=_RECLAIM[queueing.preemption.reclaim],
        flavors=flavors,
        ceiling=ceiling(team.quota, flavors, offers),
        priorities=team_plan.priorities,
        required=required,
        default_priority=defaults.priority_class if defaults is not None else None,
        cpu_limit=f"{defaults.cpu_limit_millicores}m" if defaults is not None else "",
        default_limit=team_plan.default_limit,
        tainted=all(
            any(taint.key == names.GPU_TAINT_KEY and taint.effect == "NoSchedule" for taint in pool.all_taints)
            for pool in pools
            if pool.has_gpus
        ),
        accounts=team_plan.accounts,
    )


_RECLAIM: Final[Mapping[str, Literal["Any", "LowerPriority", "Never"]]] = {
    "any": "Any",
    "lower-priority": "LowerPriority",
    "never": "Never",
}


def _topologies(cloud: Cloud, pools: Sequence[PoolPlan]) -> tuple[TopologyPlan, ...]:
    levels = dict.fromkeys([(names.HOSTNAME_LABEL,), *(cloud.pools.topology_levels(pool) for pool in pools)])
    return tuple(TopologyPlan(name=_topology_name(found), levels=found) for found in levels)


def _topology_name(levels: tuple[str, ...]) -> str:
    """Return the name of a topology. A topology with other levels needs another name, because levels are immutable
    and a topology is not deleted while flavors refer to it.
    """
    return "nodes" if len(levels) == 1 else f"network-{_digest(levels)}"


def _flavors(cloud: Cloud, pools: Sequence[PoolPlan], *, aware: bool) -> tuple[FlavorPlan, ...]:
    without = FlavorPlan(
        name=cpu_flavor(aware=aware),
        pool=None,
        node_labels=names.OS_LABELS if aware else {},  # Kueue requires a label on a flavor with a topology
        topology=_topology_name((names.HOSTNAME_LABEL,)) if aware else None,
    )
    return (
        without,
        *(
            FlavorPlan(
                name=_flavor_name(pool, levels) if aware else pool.name,
                pool=pool.name,
                node_labels=pool.node_selector,
                taints=pool.all_taints,
                topology=_topology_name(levels) if aware else None,
            )
            for pool in pools
            for levels in (cloud.pools.topology_levels(pool),)
        ),
    )


def _flavor_name(pool: PoolPlan, levels: tuple[str, ...]) -> str:
    """Return the name of a flavor with a topology. It depends on the labels, tolerations and topology, because
    these are immutable.
    """
    taints = [str(one) for one in pool.all_taints]
    content = [sorted(pool.node_selector.items()), taints, levels, _topology_name(levels)]
    return f"{pool.name}-{_digest(content)}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:6]


def _check_name(pool: PoolPlan) -> str:
    return f"nodes-of-{pool.name}"


def _provisioning(cloud: Cloud, pools: Sequence[PoolPlan]) -> tuple[ProvisioningPlan, ...]:
    found: list[ProvisioningPlan] = []
    for pool in pools:
        request = cloud.pools.provisioning(pool)
        if request is not None:
            found.append(
                ProvisioningPlan(
                    name=_check_name(pool),
                    pool=pool.name,
                    request=request,
                    managed_resources=tuple(offer.name for offer in pool.resources),
                    retry=PROVISIONING_RETRY,
                )
            )
    return tuple(found)
