"""Plans an environment or the stack of a team by calling the planning packages in order.

Each package has a function `plan`, which returns its section of the Plan. A package that can refuse a stack file
also has a function `check`, which records problems. Both functions receive the context, or their section of the
stack file, and the sections of the Plan that they need from earlier packages. A package imports only packages that
come before it in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog import Catalog
from gpu_platform.planning import (
    addons,
    burn_in,
    charts,
    cleanup,
    cluster,
    compute_classes,
    cost,
    dra,
    guide,
    headroom,
    maintenance,
    monitoring,
    object_names,
    objects,
    operator,
    policy,
    pools,
    queues,
    sharing,
    storage,
    teams,
    validation,
    workloads,
)
from gpu_platform.planning.addons.section import AddonsPlan
from gpu_platform.planning.clouds.registry import cloud_of
from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.context import CompleteContext, Context
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.operator.section import OperatorPlan
from gpu_platform.planning.plan import EnvironmentPlan, TeamStackPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems, check_unique
from gpu_platform.planning.queues.section import CHART as KUEUE_CHART
from gpu_platform.planning.queues.section import QueuesPlan
from gpu_platform.stack.cluster import Cluster, Operator
from gpu_platform.stack.environment import Environment, TeamStack
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Sharing


def check_parts(
    declared: Sequence[tuple[int, Pool]],
    cluster: Cluster | None,
    operator: Operator | None,
    catalog: Catalog,
    sharing: Mapping[str, Sharing] | None = None,
) -> list[Problem]:
    """Return problems with the pools, the cluster and the operator, both within each section and between the
    sections.

    A section is omitted if it could not be parsed, so that one run still reports mistakes of several kinds. Each
    entry of `declared` is a pair: the pool's index in the file, and the pool. `sharing` contains the environment's
    sharing configurations by name.
    """
    context = Context(
        catalog=catalog,
        cloud=cloud_of(cluster) if cluster is not None else None,
        operator=operator,
        pools=tuple(declared),
        sharing=sharing or {},
    )
    _check(context)
    return list(dict.fromkeys(context.problems.found))


def _check(context: Context) -> None:
    """Record problems with the pools, the cluster and the operator that can be found before any of them is
    planned.
    """
    resolved_pools = sharing.plan(context)
    cluster.check(context, resolved_pools)
    operator.check(context, resolved_pools)
    check_unique("pool", [(resolved.path, resolved.pool.name) for resolved in resolved_pools], context.problems)
    fix = "remove one of the two; a node can be listed only once, in one pool"
    check_unique("node", _declared_nodes(context), context.problems, field="", fix=fix)
    dra.check(context, resolved_pools)
    pools.check(context, resolved_pools)


def _declared_nodes(context: Context) -> list[tuple[str, str]]:
    """Return the nodes that pools list by name. Each entry is a pair: the node's path in the file, and its
    name.
    """
    return [
        (f"pools[{index}].nodes.names[{place}]", node)
        for index, pool in context.pools
        if pool.nodes is not None
        for place, node in enumerate(pool.nodes.names or ())
    ]


def plan_environment(spec: Environment, stack: str, catalog: Catalog) -> EnvironmentPlan:
    """Return the plan for an environment, or raise a BadInput that lists every problem with the stack."""
    teams_alone = _check_teams_alone(spec, spec.cluster, catalog)
    if found := _check_all_but_teams(spec, spec.cluster, spec.operator, catalog):
        # Quotas and workloads cannot be checked if pools are invalid.
        raise BadInput(stack, [*found, *teams_alone])
    changes, catalog = maintenance.plan(spec.changes), objects.mirrored(catalog, spec.images)
    context = CompleteContext(
        catalog=catalog,
        cloud=cloud_of(
            spec.cluster,
            changes.window,
            storage=spec.storage,
            members=[member for team in spec.teams for member in team.everybody],
            identities=tuple(teams.identities_of(spec)),
            teams=[team.name for team in spec.teams],
            pools=spec.pools,
        ),
        operator=spec.operator,
        pools=tuple(enumerate(spec.pools)),
        sharing=spec.sharing,
        problems=Problems(found=teams_alone),
        stack=stack,
        environment=spec,
    )
    resolved_pools = sharing.plan(context)
    planned = pools.plan(context, resolved_pools)
    available = teams.available_resources(planned.value, spec.device_classes, catalog)
    compute_classes.check_offers(context, planned.value)
    teams.check(context, available)
    queues.check(context, available)
    workloads.check(context, available)
    object_names.check(spec, available, context.problems)
    addons.check(spec.addons, context.cloud, context.problems)
    charts.check(context, planned.value)
    validation.check(context)
    validation.check_replaced(context, planned.value)
    burn_in.check(context, planned.value)
    monitoring.check(context)
    cleanup.check(context)
    headroom.check(context, planned.value)
    cost.check(spec.budget, planned.value, context.problems)
    if context.problems.found:
        raise BadInput(stack, context.problems.found)
    connected = cluster.plan(context, planned.value)
    stored = storage.plan(context, planned.value, connected.value.kubernetes)
    classes = dra.plan(context)
    metrics = monitoring.metrics_config_map(context)
    installed = operator.plan(context, resolved_pools, planned.value, metrics)
    team_plans = teams.plan(context, available, connected.value.kubernetes)
    identities = teams.plan_identities(context)
    queued = queues.plan(context, available, team_plans.value)
    run = workloads.plan(context, available, queued.value, stored.value)
    guides = guide.plan(context, available, team_plans.value, queued.value, stored.value, run.value)
    added = addons.plan(context, connected.value, planned.value)
    releases = _releases(connected.value, installed.value, added.value, queued.value)
    set_charts = charts.plan(context, releases, planned.value)
    sized = cluster.plan_controllers(
        context,
        connected.value,
        planned.value,
        charts.controllers(context, releases, planned.value, set_charts.value),
    )
    cluster.check_documents(context, sized.value, planned.value, stored.value, identities.value)
    if context.problems.found:
        raise BadInput(stack, context.problems.found)
    common = objects.plan(context, [team_plan.namespace for team_plan in team_plans.value])
    monitored = monitoring.plan(context, planned.value)
    gate = validation.plan(
        context,
        planned.value,
        pod_monitor=monitored.value is not None and monitored.value.service_monitor,
        pod_monitoring=monitored.value is not None and monitored.value.pod_monitoring,
    )
    kept_free = headroom.plan(context, planned.value)
    active = burn_in.plan(context, planned.value)
    costs = cost.plan(planned.value, teams.total_quota(spec.teams), sized.value, spec.budget)
    return EnvironmentPlan(
        kind="environment",
        stack=stack,
        cluster=sized.value,
        operator=installed.value,
        pools=planned.value,
        priority_classes=teams.plan_priority_classes(spec.priorities),
        device_classes=classes.value,
        storage=stored.value,
        teams=team_plans.value,
        identities=identities.value,
        queues=queued.value,
        workloads=run.value,
        guides=guides,
        addons=added.value,
        charts=set_charts.value,
        objects=common.value,
        monitoring=monitored.value,
        validation=gate,
        cleanup=cleanup.plan(context),
        headroom=kept_free,
        burn_in=active.value,
        policy=policy.plan(
            spec.policy,
            spec.overcommit,
            scaling=teams.scaling_of(spec.teams),
            settings=teams.policy_settings(spec.teams, context.cloud),
        ),
        cost=costs,
        changes=changes,
        protect=spec.protect,
        quota_limits=teams.quota_limits(spec, available),
        decisions=(
            *planned.decisions,
            *_window_decision(stack, context, changes.window, planned.value),
            *compute_classes.decisions(context, planned.value),
            *operator.allocation_decisions(context, planned.value),
            *classes.decisions,
            *connected.decisions,
            *sized.decisions,
            *stored.decisions,
            *installed.decisions,
            *team_plans.decisions,
            *teams.cpu_quota_decisions(
                spec.teams,
                planned.value,
                context.cloud.control_plane.system_rooms(sized.value.cloud, context.catalog),
                queues=spec.queueing is not None,
            ),
            *(
                teams.gpu_quota_decisions(team_plans.value, planned.value, spec.overcommit)
                if spec.queueing is None
                else ()
            ),
            *identities.decisions,
            *queued.decisions,
            *run.decisions,
            *(
                note
                for team in spec.teams
                for note in context.cloud.logins.notes(team.name, team.everybody, own_stack=False)
            ),
            *added.decisions,
            *set_charts.decisions,
            *common.decisions,
            *monitored.decisions,
            *validation.decisions(gate, planned.value),
            *validation.readiness_decisions(context, planned.value),
            *headroom.decisions(kept_free, planned.value),
            *active.decisions,
            *cost.decisions(
                stack,
                costs,
                planned.value,
                sized.value,
                spec.budget,
                alerts=monitored.value is not None and monitored.value.has_alert(monitoring.BUDGET_ALERT),
            ),
        ),
    )


def _releases(
    connected: ClusterPlan, installed: OperatorPlan, added: AddonsPlan, queued: QueuesPlan | None
) -> Mapping[str, Mapping[str, Any]]:
    """Return the Helm values of the charts that the program installs, by chart name."""
    releases = dict(connected.cloud.releases) if connected.cloud is not None else {}
    releases |= {addon.chart: addon.values for addon in added.addons if addon.install}
    if installed.install == "helm":
        releases[names.OPERATOR_CHART] = installed.helm_values
    if installed.dra_driver is not None:
        releases[installed.dra_driver.release] = installed.dra_driver.values
    if queued is not None and queued.kueue.install == "helm":
        releases[KUEUE_CHART] = queued.kueue.values
    return releases


def check_apart(
    spec: Environment, cluster: Cluster | None, operator: Operator | None, catalog: Catalog
) -> list[Problem]:
    """Return problems with an environment, except problems that depend on the resources of its pools.

    `cluster` and `operator` are sections of `spec`, or None if the file has placeholders for them.
    """
    found = _check_all_but_teams(spec, cluster, operator, catalog)
    return list(dict.fromkeys([*found, *_check_teams_alone(spec, cluster, catalog)]))


def _check_all_but_teams(
    spec: Environment, cluster: Cluster | None, operator: Operator | None, catalog: Catalog
) -> list[Problem]:
    found = check_parts(list(enumerate(spec.pools)), cluster, operator, catalog, spec.sharing)
    found += objects.check(spec, catalog)
    if cluster is None:
        return found
    cloud = cloud_of(cluster)
    found += _check_changes(spec)
    found += storage.check(spec.storage, cloud, spec.pools, catalog, [team.name for team in spec.teams]).found
    found += compute_classes.check(spec.compute_classes, cloud, spec.pools).found
    return found


def _check_teams_alone(spec: Environment, cluster: Cluster | None, catalog: Catalog) -> list[Problem]:
    """Return problems with the names, roles and members of teams. They do not depend on the resources of pools."""
    problems = Problems()
    teams.check_alone(spec, catalog, problems)
    if cluster is not None:
        teams.check_identities(spec, cloud_of(cluster), problems)
        _check_members(spec, problems)
    return problems.found


def _check_members(spec: Environment, problems: Problems) -> None:
    """Record a problem for each team member that the cloud cannot authenticate."""
    cloud = cloud_of(spec.cluster)
    for index, team in enumerate(spec.teams):
        for role, members in team.by_role.items():
            cloud.logins.check(members, problems.at(f"teams[{index}]").at(role))


def _check_changes(spec: Environment) -> list[Problem]:
    """Return a problem if the cloud does not support the window in `changes`, and a problem for each pool that
    exceeds the limit in `changes`.
    """
    problems = maintenance.check(spec.changes, enumerate(spec.pools), spec.sharing.items())
    cloud_of(spec.cluster).control_plane.check_window(maintenance.plan_window(spec.changes.window), problems)
    return problems.found


def _window_decision(
    stack: str, context: CompleteContext, window: WindowPlan | None, planned: Sequence[PoolPlan]
) -> tuple[Decision, ...]:
    if window is None:
        return ()
    why = context.cloud.control_plane.window_note(window)
    if any(pool.software.driver == "operator" for pool in planned):
        why += "; driver upgrades that `up` has started continue after the window closes"
    return (
        Decision(
            subject=f"stack {stack}", what="changes of nodes", chosen=maintenance.window_text(window), why=why
        ),
    )


def plan_team(
    spec: TeamStack, environment: Environment, environment_plan: EnvironmentPlan, stack: str, catalog: Catalog
) -> TeamStackPlan:
    """Return the plan for one team's stack on its environment, or raise a BadInput that lists every problem."""
    problems, catalog = Problems(), objects.mirrored(catalog, environment.images)
    available = teams.available_resources(environment_plan.pools, environment.device_classes, catalog)
    teams.check_one(spec.team, environment, available, problems)
    cloud = cloud_of(environment.cluster)
    for role, members in spec.team.by_role.items():
        cloud.logins.check(members, problems.at("team").at(role))
    queues.check_one(spec.team, environment, available, problems)
    workloads.check_one(spec.team, environment, available, cloud, problems)
    object_names.check_one(spec.team, environment, available, problems)
    if problems.found:
        raise BadInput(stack, problems.found)
    team_plans = teams.plan_one(spec.team, stack, environment, available, environment_plan.cluster.kubernetes)
    queued = queues.plan_one(spec.team, environment, cloud, available, team_plans.value)
    volumes = storage.plan_one(spec.team.name, environment_plan.storage)
    run = workloads.plan_one(
        spec.team,
        environment,
        available,
        queued.value,
        environment_plan.queues,
        environment_plan.storage,
        volumes.value,
    )
    told = guide.plan_one(
        spec.team,
        team_plans.value[0],
        queued.value,
        run.value,
        guide.GuidedPlatform(
            cloud=cloud,
            available=available,
            queues=environment_plan.queues,
            classes=environment_plan.storage.classes,
            volumes=volumes.value,
        ),
    )
    offered = [offer.name for pool in environment_plan.pools for offer in pool.resources]
    classes = [one.name for one in environment_plan.device_classes]
    return TeamStackPlan(
        kind="team",
        stack=stack,
        environment_stack=spec.environment.stack,
        cluster=environment_plan.cluster,
        teams=team_plans.value,
        queues=queued.value,
        volumes=volumes.value,
        workloads=run.value,
        guides=(told,),
        objects=objects.plan_one(environment),
        policy=policy.plan(
            spec.policy,
            environment.overcommit,
            {name: available.units.get(name, 0) for name in (*offered, *classes)},
            scaling=teams.scaling_of([spec.team]),
            settings=teams.policy_settings([spec.team], cloud),
        ),
        protect=spec.protect,
        quota_limits=teams.quota_limits(environment, available),
        decisions=(
            *team_plans.decisions,
            *queued.decisions,
            *volumes.decisions,
            *run.decisions,
            *cloud.logins.notes(spec.team.name, spec.team.everybody, own_stack=True),
        ),
    )
