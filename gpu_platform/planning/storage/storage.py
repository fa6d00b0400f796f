"""Check declared storage classes and team volumes, and plan them together with the cloud's additions.

Source: Kubernetes docs, Storage Classes: claims without a storage class get the newest of the classes that are
marked as default; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.clouds.storage import StoragePlan, VolumePlan
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.storage.caches import by_caches
from gpu_platform.stack.declared import ON_CLOUDS
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import DiskStorage, ExistingStorage, StorageClass, TeamStorage


def check(
    storage: Mapping[str, StorageClass],
    cloud: Cloud,
    pools: Sequence[Pool],
    catalog: Catalog,
    teams: Sequence[str] = (),
) -> Problems:
    """Return problems with the declared storage on its cloud, with paths below `storage`. `teams` are the names of
    all teams.
    """
    problems = Problems("storage")
    if not storage:
        return problems
    if not cloud.creates_nodes:
        for name in storage:
            problems.at(name).add(
                f"storage on provider {cloud.cluster.provider}",
                f"storage only on {ON_CLOUDS}; elsewhere the cluster's owner installs drivers and classes",
                "remove it",
            )
        return problems
    defaults = [name for name, one in storage.items() if isinstance(one, DiskStorage) and one.default]
    for name in defaults[1:]:
        problems.at(name).at("default").add(
            "true", f"only one default class ({defaults[0]} is one)", "remove default from all classes but one"
        )
    for name, one in storage.items():
        check_declared_fields(one, cloud.cluster.provider, problems.at(name))
        _check_teams(one, teams, problems.at(name))
    _check_places(_for_teams(storage, teams), problems)
    cloud.storage.check(storage, pools, catalog, problems)
    return problems


def plan(context: CompleteContext, pools: Sequence[PoolPlan], kubernetes: str | None) -> Decided[StoragePlan]:
    """Return the storage classes that are declared or that the cloud's nodes need, and the volumes of teams.

    `kubernetes` is the minor version of the planned cluster, if it is known.
    """
    environment = context.environment
    names = [team.name for team in environment.teams]
    storage = _for_teams(environment.storage, names)
    planned = context.cloud.storage.plan(storage, context.stack, pools, kubernetes, context.catalog)
    own = tuple(one for one in planned.value.volumes if one.namespace in names)
    others = tuple(one for one in planned.value.volumes if one.namespace not in names)
    in_pod = any(one.in_pod for one in planned.value.volumes)
    disks = context.cloud.storage.own_classes(storage, pools, context.catalog)
    return Decided(
        replace(planned.value, volumes=own, team_stack_volumes=others, cloud_disks=disks),
        (*planned.decisions, *by_caches(storage, pools, context.catalog, in_pod=in_pod)),
    )


def plan_one(team: str, storage: StoragePlan) -> Decided[tuple[VolumePlan, ...]]:
    """Return the volumes that the environment provides for a team with a separate stack."""
    volumes = tuple(one for one in storage.team_stack_volumes if one.namespace == team)
    decisions = [
        Decision(
            subject=f"team {team}",
            what=f"volume {one.name}",
            chosen=one.source,
            why="the environment's storage lists the team in team_stacks; the namespace has a claim of this name",
        )
        for one in volumes
    ]
    return Decided(volumes, tuple(decisions))


def _check_teams(one: StorageClass, teams: Sequence[str], here: Problems) -> None:
    """Record a problem for unknown teams in `teams`, and for teams of this environment in `team_stacks`."""
    if not isinstance(one, TeamStorage):
        return
    for index, name in enumerate(one.teams or ()):
        if name not in teams:
            here.at("teams").at(f"[{index}]").add(
                f"{name!r}",
                f"teams of this environment: {', '.join(teams) or 'it has none'}; a team with a separate stack "
                "has no namespace yet when the environment is deployed",
                did_you_mean(name, teams)
                or "declare the team in teams, or write it in team_stacks if it has a separate stack",
            )
    for index, name in enumerate(one.team_stacks):
        if name in teams or name in one.team_stacks[:index]:
            here.at("team_stacks").at(f"[{index}]").add(
                f"{name!r}" + ("" if name in teams else " again"),
                "teams with a separate stack, each only once",
                "write it in teams, or remove it" if name in teams else "remove it",
            )


def _check_places(storage: Mapping[str, StorageClass], problems: Problems) -> None:
    """Record a problem for each file system that one team would get as two volumes with the same directory.

    The kubelet identifies a CSI volume by its driver and its handle. A pod that mounts both volumes gets one of
    them twice, or never starts. The kubelet mounts Filestore itself, and names those volumes after the pod. On
    AKS, the handle does not have to name the share, and the program chooses a different handle for each volume.
    Source: Kubernetes v1.36.3, pkg/kubelet/volumemanager; kubernetes/kubernetes#132921; read 2026-11-29.
    """
    first: dict[tuple[str, str, str], str] = {}
    for name, one in storage.items():
        if not isinstance(one, ExistingStorage) or one.system in ("filestore", "azure-files"):
            continue
        for team in one.teams or ():
            other = first.setdefault((one.file_system, one.path(team), team), name)
            if other != name:
                problems.at(name).at("directory").add(
                    f"the same directory as storage.{other}, for team {team}",
                    "each directory once per team, because nodes cannot tell two volumes of one directory apart",
                    f"remove this entry, or write another directory; pods that only read can mount {other} with "
                    "readOnly: true",
                )
                break


def _for_teams(storage: Mapping[str, StorageClass], teams: Sequence[str]) -> Mapping[str, StorageClass]:
    """Return the storage classes with the names of all their teams. A storage class that names no teams is for all
    teams of the environment.
    """
    return {
        name: one.model_copy(update={"teams": (*(teams if one.teams is None else one.teams), *one.team_stacks)})
        if isinstance(one, TeamStorage)
        else one
        for name, one in storage.items()
    }
