"""Spec and catalogue in, one immutable Plan out; or every mistake that only the whole shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_platform import names
from gpu_platform.catalog import Catalog
from gpu_platform.errors import BadInput, Problem
from gpu_platform.planning.clouds.eks.cluster import check_eks_cluster, plan_eks_cluster
from gpu_platform.planning.clouds.gke.cluster import check_gke_cluster, plan_gke_cluster
from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.cost.cost import plan_cost
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.dra.claims import plan_device_class, selector_decisions
from gpu_platform.planning.dra.requirements import check_dra, dra_decisions
from gpu_platform.planning.expectations.nodes import validation_pod_security
from gpu_platform.planning.expectations.section import ValidationPlan
from gpu_platform.planning.monitoring.dcgm import metrics_config_map, plan_monitoring
from gpu_platform.planning.operator.operator import (
    check_host_paths,
    check_operator,
    cluster_version,
    plan_operator,
)
from gpu_platform.planning.plan import EnvironmentPlan, TeamPlan
from gpu_platform.planning.policy.section import PolicyPlan
from gpu_platform.planning.pools.pools import check_driver, check_pool, plan_pool
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.named import PoolShare, pool_shares
from gpu_platform.planning.teams.available import available_resources
from gpu_platform.planning.teams.claims import check_device_classes
from gpu_platform.planning.teams.gpu_memory import check_gpu_memory
from gpu_platform.planning.teams.tenants import (
    check_priorities,
    check_quotas,
    check_team,
    check_unique,
    granted,
    plan_priority_classes,
    plan_tenant,
    priority_values,
)
from gpu_platform.quantity import parse_duration
from gpu_platform.spec.cluster import Cluster, EksCluster, GkeCluster, Operator
from gpu_platform.spec.operations import Policy
from gpu_platform.spec.pool import Pool
from gpu_platform.spec.sharing import Sharing
from gpu_platform.spec.stack import Environment, TeamStack
from gpu_platform.spec.team import Team

# Names of images in the catalogue.
AGENT_IMAGE = "node-agent-python"
PAUSE_IMAGE = "pause"


def check_parts(
    pools: Sequence[tuple[int, Pool]],
    cluster: Cluster | None,
    operator: Operator | None,
    catalog: Catalog,
    named: Mapping[str, Sharing] | None = None,
) -> list[Problem]:
    """Return what is wrong with pools and operator, each by itself.

    Works on the parts of a file that parsed, so that a file with mistakes of several kinds shows them in one run.
    `pools`: index in the file, pool; `named`: the environment's sharing.
    """
    problems = Problems()
    shares = pool_shares(pools, named or {}, cluster, catalog, problems)
    _check_shares(shares, pools, cluster, operator, catalog, problems)
    return list(dict.fromkeys(problems.found))


def _check_shares(
    shares: Sequence[PoolShare],
    declared: Sequence[tuple[int, Pool]],
    cluster: Cluster | None,
    operator: Operator | None,
    catalog: Catalog,
    problems: Problems,
) -> None:
    pools = [(share.index, share.pool) for share in shares]
    if isinstance(cluster, EksCluster):
        check_eks_cluster(cluster, [pool for _, pool in pools], operator, catalog, problems.at("cluster"))
    elif isinstance(cluster, GkeCluster):
        check_gke_cluster(cluster, [pool for _, pool in pools], catalog, problems.at("cluster"))
    if operator is not None:
        check_operator(operator, cluster, [pool for _, pool in pools], catalog, problems.at("operator"))
        check_host_paths(pools, cluster, operator, catalog, problems)
    check_unique("pool", [(share.path, share.pool.name) for share in shares], problems)
    named = [
        (f"pools[{index}].nodes.names[{place}]", node)
        for index, pool in declared
        if pool.nodes is not None
        for place, node in enumerate(pool.nodes.names or ())
    ]
    check_unique("node", named, problems, field="")
    kubernetes = cluster_version(cluster) if cluster is not None else None
    check_dra(shares, cluster, kubernetes, operator, catalog, problems)
    for share in shares:
        here = problems.at(share.path)
        check_pool(share.pool, cluster, operator, catalog, here, share)
        if operator is not None:
            check_driver(share.pool, cluster, operator, catalog, here)


def plan_environment(spec: Environment, stack: str, catalog: Catalog) -> EnvironmentPlan:
    """Return the plan of an environment; raises BadInput with every problem of the stack."""
    declared = list(enumerate(spec.pools))
    found = check_parts(declared, spec.cluster, spec.operator, catalog, spec.sharing)
    if found:
        # What the teams may have cannot be judged on pools that are wrong; names and priorities can.
        problems = Problems(found=found)
        _check_teams_alone(spec, problems)
        raise BadInput(stack, problems.found)
    decisions: list[Decision] = []
    problems = Problems()
    shares = pool_shares(declared, spec.sharing, spec.cluster, catalog, problems)
    pools = tuple(
        plan_pool(share.pool, share.path, spec.cluster, spec.operator, catalog, decisions, share)
        for share in shares
    )
    priorities = priority_values(spec.priorities)
    offers = available_resources(pools, spec.device_classes, catalog)
    check_device_classes(spec.device_classes, offers, problems.at("device_classes"))
    _check_teams_alone(spec, problems)
    for index, team in enumerate(spec.teams):
        check_team(team, offers, priorities, problems.at(f"teams[{index}]"))
    teams = [(f"teams[{index}]", team) for index, team in enumerate(spec.teams)]
    check_quotas(teams, offers, spec.overcommit, problems)
    check_gpu_memory(teams, pools, catalog, problems)
    if problems.found:
        raise BadInput(stack, problems.found)
    if any(pool.devices for pool in pools):
        decisions += dra_decisions(pools, cluster_version(spec.cluster))
    for name, device_class in spec.device_classes.items():
        decisions += selector_decisions(f"device class {name}", device_class)
    metrics = metrics_config_map(spec.monitoring)
    units: dict[str, int] = {}
    for team in spec.teams:
        for resource, count in granted(team.quota).items():
            units[resource] = units.get(resource, 0) + count
    return EnvironmentPlan(
        kind="environment",
        stack=stack,
        cluster=plan_cluster(spec.cluster, stack, pools, spec.operator, catalog, decisions),
        operator=plan_operator(spec, pools, shares, metrics, catalog, decisions),
        pools=pools,
        priority_classes=plan_priority_classes(spec.priorities),
        device_classes=tuple(
            plan_device_class(name, declared, catalog) for name, declared in spec.device_classes.items()
        ),
        tenants=tuple(
            plan_tenant(team, stack, offers, priorities, catalog.images[PAUSE_IMAGE].reference, decisions)
            for team in spec.teams
        ),
        monitoring=plan_monitoring(spec.monitoring, spec.cluster, pools, decisions),
        validation=ValidationPlan(
            gate=spec.validation.gate,
            timeout_seconds=parse_duration(spec.validation.timeout),
            image=catalog.images[AGENT_IMAGE].reference,
            namespace=names.VALIDATION_NAMESPACE,
            claims_devices=any(pool.software.gpu_access.claim for pool in pools),
            pod_security=validation_pod_security(pools),
        ),
        policy=plan_policy(spec.policy),
        cost=plan_cost(pools, units),
        decisions=tuple(decisions),
    )


def _check_teams_alone(spec: Environment, problems: Problems) -> None:
    check_priorities(spec.priorities, problems.at("priorities"))
    check_unique("team", [(f"teams[{i}]", team.name) for i, team in enumerate(spec.teams)], problems)


def plan_team(
    spec: TeamStack, environment: Environment, environment_plan: EnvironmentPlan, stack: str, catalog: Catalog
) -> TeamPlan:
    """Return the plan of one team's stack on its environment; raises BadInput with every problem."""
    problems = Problems()
    here = problems.at("team")
    priorities = priority_values(environment.priorities)
    taken = [team.name for team in environment.teams]
    if spec.team.name in taken:
        here.at("name").add(
            f"{spec.team.name!r}",
            f"a team that the environment does not declare itself ({', '.join(taken)})",
            "remove it from the environment's teams, or rename it",
        )
    offers = available_resources(environment_plan.pools, environment.device_classes, catalog)
    check_team(spec.team, offers, priorities, here)
    others: list[tuple[str, Team]] = [("(environment)", team) for team in environment.teams]
    teams = [*others, ("team", spec.team)]
    check_quotas(teams, offers, environment.overcommit, problems)
    check_gpu_memory(teams, environment_plan.pools, catalog, problems)
    if problems.found:
        raise BadInput(stack, problems.found)
    decisions: list[Decision] = []
    pause = catalog.images[PAUSE_IMAGE].reference
    tenant = plan_tenant(spec.team, stack, offers, priorities, pause, decisions)
    return TeamPlan(
        kind="team",
        stack=stack,
        environment_stack=spec.environment.stack,
        cluster=environment_plan.cluster,
        tenants=(tenant,),
        policy=_team_policy(spec.policy, environment_plan),
        decisions=tuple(decisions),
    )


def _team_policy(policy: Policy, environment: EnvironmentPlan) -> PolicyPlan:
    """Tell the pack what the pools offer: they are resources of another stack."""
    offered = sorted(
        {
            *(offer.name for pool in environment.pools for offer in pool.resources),
            *(one.name for one in environment.device_classes),
        }
    )
    plan = plan_policy(policy)
    rule = {"resources": offered, **plan.config.get("gpu-namespace-quota", {})}
    return PolicyPlan(level=plan.level, config={**plan.config, "gpu-namespace-quota": rule})


def plan_cluster(
    cluster: Cluster,
    stack: str,
    pools: Sequence[PoolPlan],
    operator: Operator,
    catalog: Catalog,
    decisions: list[Decision],
) -> ClusterPlan:
    """Return how the cluster is reached, and what the cloud's part of it is."""
    cloud = None
    if isinstance(cluster, EksCluster):
        cloud = plan_eks_cluster(cluster, stack, pools, operator, catalog, decisions)
    elif isinstance(cluster, GkeCluster):
        cloud = plan_gke_cluster(cluster, stack, pools, catalog, decisions)
    existing = cluster if cluster.provider == "existing" else None
    return ClusterPlan(
        provider=cluster.provider,
        name=cluster.name,
        kubeconfig=existing.kubeconfig if existing else None,
        context=existing.context if existing else None,
        kubernetes=cloud.kubernetes if cloud is not None else cluster_version(cluster),
        cloud=cloud,
    )


def plan_policy(policy: Policy) -> PolicyPlan:
    """Return the policy pack's configuration as CrossGuard takes it."""
    return PolicyPlan(level=policy.level, config={"all": policy.level, **policy.rules})
