"""Converts the arguments of public components to plans. No other module of this package calls planning.

Each component is planned as a small environment by the functions that plan a stack file, so that checks, decisions
and errors are the same. Problems name the component's own arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import pulumi

from components.public._arguments import INPUTS, PLATFORM_INPUTS, output_problems, plain, renamed
from components.public._cluster import connection_keys
from components.public._errors import BadArguments
from components.public.stack_file_types import ValidationSettings
from components.public.types import GpuCluster
from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.planning.clouds.eks.cluster_settings import cluster_settings
from gpu_platform.planning.clouds.eks.properties import pool_properties
from gpu_platform.planning.guide import GuidePlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.workloads import TeamWorkloadsPlan, workloads_of
from gpu_platform.stack.loaded import plan_platform

# All components of a cluster receive the same `cluster`, but only GpuPlatform creates a cluster.
_OF_PLATFORM = ("create",)


def plan_pool(kind: str, name: str, arguments: Mapping[str, Any]) -> EnvironmentPlan:
    """Return the plan for a single pool on its cluster. Raises BadArguments that lists every problem."""
    source = f"{kind} {name}"
    _refuse_outputs(source, arguments, INPUTS)
    pool = {key: value for key, value in arguments.items() if key not in ("cluster", "operator")}
    rest = {key: arguments[key] for key in ("cluster", "operator") if key in arguments}
    return _plan(source, {**rest, "pools": [{"name": name, **pool}]}, {"pools[0]": ""})


def plan_operator(kind: str, name: str, arguments: Mapping[str, Any]) -> EnvironmentPlan:
    """Return the plan for an operator that serves the cluster's pools. Raises BadArguments that lists every
    problem.
    """
    source = f"{kind} {name}"
    _refuse_outputs(source, arguments, INPUTS)
    return _plan(source, arguments)


def plan_validation(kind: str, name: str, arguments: Mapping[str, Any]) -> EnvironmentPlan:
    """Return the plan for validating pools. Raises BadArguments that lists every problem."""
    source = f"{kind} {name}"
    _refuse_outputs(source, arguments, INPUTS)
    settings = {key: arguments[key] for key in ValidationSettings.__annotations__ if key in arguments}
    rest = {key: value for key, value in arguments.items() if key not in settings}
    return _plan(source, {**rest, "validation": settings}, {"validation": ""})


def plan_team(
    kind: str, name: str, arguments: Mapping[str, Any]
) -> tuple[TeamPlan, GuidePlan, TeamWorkloadsPlan | None]:
    """Return the plans for one team, its guide and its workloads on the cluster's pools. Raises BadArguments that
    lists every problem.
    """
    source = f"{kind} {name}"
    _refuse_outputs(source, arguments, INPUTS)
    shared = ("cluster", "operator", "pools", "priorities", "device_classes", "overcommit")
    rest = {key: arguments[key] for key in shared if key in arguments}
    team = {"name": name, **{key: value for key, value in arguments.items() if key not in shared}}
    _refuse_identity(source, team)
    plan = _plan(source, {**rest, "teams": [team]}, {"teams[0]": ""})
    team_plan = _with_images(plan.teams[0], team)
    return team_plan, plan.guides[0], workloads_of(team_plan.namespace, plan.workloads)


def plan_whole_platform(kind: str, name: str, arguments: Mapping[str, Any]) -> EnvironmentPlan:
    """Return the plan for a whole platform. Raises BadArguments that lists every problem."""
    source = f"{kind} {name}"
    _refuse_outputs(source, arguments, PLATFORM_INPUTS)
    _refuse_window(source, arguments)
    plan = _plan(source, arguments, of_platform=True)
    cluster = cast("Mapping[str, Any]", arguments["cluster"])
    teams = cast("list[Mapping[str, Any]]", arguments.get("teams") or [])
    return dataclasses.replace(
        plan,
        cluster=_with_connection(plan, cluster),
        teams=tuple(_with_images(team_plan, team) for team_plan, team in zip(plan.teams, teams, strict=True)),
    )


def _refuse_outputs(source: str, arguments: Mapping[str, Any], allowed: frozenset[str]) -> None:
    problems = list(output_problems(arguments, allowed))
    if problems:
        raise BadArguments(source, problems)


def _refuse_identity(source: str, team: Mapping[str, Any]) -> None:
    """Raise BadArguments if the team has an identity, because no cloud provider is available to grant roles."""
    if team.get("identity") is None:
        return
    problem = Problem(
        "identity",
        "an identity in a GpuTeam component",
        "identities only in GpuPlatform, which can create cloud roles",
        "declare the team with its identity in the teams of GpuPlatform",
    )
    raise BadArguments(source, [problem])


def _refuse_window(source: str, arguments: Mapping[str, Any]) -> None:
    """Raise BadArguments if `changes.window` is set, except for a GKE cluster that the program creates.

    GKE enforces the window of such a cluster. On other clusters, nothing prevents `pulumi up` outside the window.
    """
    changes, cluster = (_mapping(arguments.get(key)) for key in ("changes", "cluster"))
    if changes.get("window") is None or (cluster.get("provider") == "gke" and cluster.get("create") is not None):
        return
    problem = Problem(
        "changes.window",
        f"a window on {cluster.get('provider')}",
        "a window only for a GKE cluster with create, because your own program cannot enforce other windows",
        "remove it, or use a stack file with `gpu-platform up`, which refuses changes outside the window",
    )
    raise BadArguments(source, [problem])


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _plan(
    source: str,
    arguments: Mapping[str, Any],
    places: Mapping[str, str] | None = None,
    *,
    of_platform: bool = False,
) -> EnvironmentPlan:
    """Plan an environment. `places` maps paths in the environment to arguments. Problems name the argument instead
    of the path.
    """
    platform = plain({"kind": "environment", **arguments})
    cluster = platform.get("cluster")
    problems: list[Problem] = []
    if isinstance(cluster, dict) and not of_platform:
        platform["cluster"] = _planned_cluster(cast("dict[str, Any]", cluster), problems)
    try:
        plan = plan_platform(platform, pulumi.get_stack(), source=source)
    except BadInput as error:
        problems += error.problems
    else:
        if not problems:
            assert isinstance(plan, EnvironmentPlan)  # noqa: S101 - its kind is environment
            return plan
    for place, own in (places or {}).items():
        problems = [renamed(problem, place, own) for problem in problems]
    raise BadArguments(source, problems)


def _planned_cluster(cluster: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return the cluster without keys that only components read. Record a problem for each unknown key."""
    connection = connection_keys(str(cluster.get("provider")))
    known = GpuCluster.__annotations__.keys()
    for key in cluster.keys() - known:
        problems.append(
            Problem(
                f"cluster.{key}",
                f"unknown key {key!r}",
                "one of " + ", ".join(known),
                "use GpuPlatform, which creates clusters"
                if key in _OF_PLATFORM
                else did_you_mean(key, known) or "remove it",
            )
        )
    return {key: value for key, value in cluster.items() if key in known and key not in connection}


def _with_connection(plan: EnvironmentPlan, cluster: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Outputs for texts
    """Return the cluster plan with the program's values, which may be Outputs."""
    of_cluster: Any = plan.cluster
    if cluster.get("kubeconfig") is not None:
        of_cluster = dataclasses.replace(of_cluster, kubeconfig=cluster["kubeconfig"])
    if cluster.get("subnets"):
        cloud = dataclasses.replace(of_cluster.cloud, subnets=dict(cluster["subnets"]))
        properties = {pool.name: pool_properties(pool, cloud) for pool in plan.pools}
        of_cluster = dataclasses.replace(
            of_cluster, cloud=cloud, pool_properties=properties, settings=cluster_settings(cloud)
        )
    return of_cluster


def _with_images(team_plan: TeamPlan, team: Mapping[str, Any]) -> TeamPlan:
    """Return a team's plan with the program's images, which may be Outputs."""
    declared = cast("list[Mapping[str, Any]]", team.get("workloads") or [])
    workloads = tuple(
        dataclasses.replace(workload, image=own.get("image") or workload.image)
        for workload, own in zip(team_plan.workloads, declared, strict=True)
    )
    return dataclasses.replace(team_plan, workloads=workloads)
