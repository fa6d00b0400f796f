"""Refuses a stack file that would give two objects the same kind, namespace and name.

Without this check, the second object would overwrite the first, or the API server would reject it in the middle of
`up`. The function `is_reserved_namespace` of the package `teams` has the rule for namespaces of controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.planning import burn_in, headroom
from gpu_platform.planning.clouds.storage import volume_name
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.compute_domains import channel_of
from gpu_platform.planning.teams.nic_claims import nic_claim_of
from gpu_platform.planning.workloads import checkpoints_claim, home_claim
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.storage import StorageClass, TeamStorage
from gpu_platform.stack.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """An object, and the path in the stack file that sets its name.

    `path` is empty if the program chooses the name. `maker` names the creator of the object in messages.
    """

    kind: str
    namespace: str = ""
    name: str
    path: str
    maker: str


def check(environment: Environment, available: Available, problems: Problems) -> None:
    """Record a problem for each name that two objects of an environment share."""
    teams = [(f"teams[{index}]", team) for index, team in enumerate(environment.teams)]
    found = [*_of_program()]
    found += (
        _Named(kind="PriorityClass", name=name, path=f"priorities.{name}", maker=f"priorities.{name}")
        for name in environment.priorities
    )
    for path, team in teams:
        found += _of_entries(team, path, available)
    found += _of_storage(environment.storage, [team.name for _, team in teams])
    _check(found, problems)


def check_one(team: Team, environment: Environment, available: Available, problems: Problems) -> None:
    """Record a problem for each name that two objects of a team with a separate stack share."""
    given = _of_storage(environment.storage, [one.name for one in environment.teams])
    _check([*given, *_of_entries(team, "team", available)], problems)


def _check(found: Iterable[_Named], problems: Problems) -> None:
    first: dict[tuple[str, str, str], str] = {}
    for one in found:
        key = (one.kind, one.namespace, one.name)
        if key in first:
            place = f" in namespace {one.namespace}" if one.namespace else ""
            Problems(one.path, problems.found).add(
                f"{one.kind} {one.name!r}{place}",
                f"each {one.kind} name once; {first[key]} already uses it",
                "rename it",
            )
        first.setdefault(key, one.maker)


def _of_program() -> Iterator[_Named]:
    """Yield the PriorityClasses of the program, including classes that it creates only after a later edit to the
    stack file.
    """
    for name, maker in ((headroom.PRIORITY_CLASS, "headroom"), (burn_in.PRIORITY_CLASS, "the burn-in")):
        yield _Named(kind="PriorityClass", name=name, path="", maker=maker)


def _of_storage(storage: Mapping[str, StorageClass], teams: Sequence[str]) -> Iterator[_Named]:
    """Yield the PersistentVolumes and PersistentVolumeClaims for the storage of teams."""
    for name, one in storage.items():
        if not isinstance(one, TeamStorage):
            continue
        path = f"storage.{name}"
        for team in dict.fromkeys((*(teams if one.teams is None else one.teams), *one.team_stacks)):
            maker = f"{path} of team {team}"
            yield _Named(kind="PersistentVolume", name=volume_name(team, name), path=path, maker=maker)
            yield _Named(kind="PersistentVolumeClaim", namespace=team, name=name, path=path, maker=maker)


def _of_entries(team: Team, path: str, available: Available) -> Iterator[_Named]:
    """Yield the PersistentVolumeClaims, Services and ResourceClaimTemplates in a team's namespace."""
    kept = [
        *(
            (f"training_jobs[{n}]", checkpoints_claim(one), one.checkpoints)
            for n, one in enumerate(team.training_jobs)
        ),
        *((f"notebooks[{n}]", home_claim(one), one.home) for n, one in enumerate(team.notebooks)),
    ]
    made = {name: place for place, name, directory in reversed(kept) if directory and directory.volume is None}
    for name, place in made.items():
        yield _Named(
            kind="PersistentVolumeClaim",
            namespace=team.name,
            name=name,
            path=f"{path}.{place}.name",
            maker=f"{path}.{place}",
        )
    yield from _services(team, path)
    template = "ResourceClaimTemplate"
    for pool in available.pools:
        if pool.cloud_nodes.nic_devices is not None:
            yield _Named(
                kind=template, namespace=team.name, name=nic_claim_of(pool), path="", maker=f"pool {pool.name}"
            )
    racks = {pool.name for pool in available.pools if pool.nvlink_domain is not None}
    for field in ("workloads", "training_jobs", "inference_services"):
        for index, one in enumerate(getattr(team, field)):
            if one.pool in racks:
                place = f"{path}.{field}[{index}]"
                yield _Named(
                    kind=template,
                    namespace=team.name,
                    name=channel_of(one.name),
                    path=f"{place}.name",
                    maker=f"{place} (its pods share NVLink)",
                )
    for index, claim in enumerate(team.claims):
        place = f"{path}.claims[{index}]"
        yield _Named(kind=template, namespace=team.name, name=claim.name, path=f"{place}.name", maker=place)


def _services(team: Team, path: str) -> Iterator[_Named]:
    """Yield the Services of a team's jobs and inference services, and the Services that KubeRay and
    LeaderWorkerSet create.

    The names of jobs and services are already unique. Sources: kuberay, GenerateHeadServiceName; LeaderWorkerSet,
    subdomainPolicy UniquePerReplica, named after each leader; read 2026-11-28.
    """
    derived = {f"{one.name}-head-svc": f"ray_clusters[{index}]" for index, one in enumerate(team.ray_clusters)}
    for index, one in enumerate(team.inference_services):
        copies = one.autoscaling.max_replicas if one.autoscaling is not None else one.replicas
        for copy in range(copies if one.nodes > 1 else 0):
            derived[f"{one.name}-{copy}"] = f"inference_services[{index}]"
    own = {one.name: f"training_jobs[{index}]" for index, one in enumerate(team.training_jobs)}
    own |= {one.name: f"inference_services[{index}]" for index, one in enumerate(team.inference_services)}
    for name, place in (*derived.items(), *own.items()):
        yield _Named(
            kind="Service", namespace=team.name, name=name, path=f"{path}.{place}.name", maker=f"{path}.{place}"
        )
