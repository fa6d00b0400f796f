"""Check and plan the identities of teams: their rights in the cloud, and their image pull secrets.

On EKS and GKE an environment's stack declares all of them, also those of teams with a stack of their own
(`team_identities`): only it has rights in the cloud. Both are of one service account, `team`, that pods name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.section import ServiceAccountPlan
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_identity import TeamIdentity

_EXISTING = ("role_arn", "google_service_account")


def identities_of(environment: Environment) -> Mapping[str, TeamIdentity]:
    """Return the identities of an environment by team, also of teams with a stack of their own."""
    own = {team.name: team.identity for team in environment.teams if team.identity is not None}
    return {**environment.team_identities, **own}


def check_identities(environment: Environment, cloud: Cloud, problems: Problems) -> None:
    """Record what is wrong with identities and pull secrets of an environment; `problems`: at the file's root."""
    for index, team in enumerate(environment.teams):
        check_pull_secrets(team, problems.at(f"teams[{index}]"))
    found = list(_places(environment, problems))
    names = {team.name for team in environment.teams}
    for team, identity, here in found:
        of_own_stack = here.path.startswith("team_identities")
        if of_own_stack and not cloud.creates_nodes:
            here.add(
                f"team_identities on provider {cloud.cluster.provider}",
                "team_identities only on EKS and GKE: elsewhere the program gives no rights in a cloud",
                "remove it; on an existing cluster the stack of the team names its role: team.identity",
            )
            continue
        _check_form(identity, cloud, here)
        cloud.identities.check(identity, here)
        if of_own_stack and team in names:
            here.add(
                f"{team!r}, which is in teams, too",
                "teams with a stack of their own",
                "write it as identity of the team in teams",
            )
    for field in _EXISTING:
        _check_shared(field, found)


def check_pull_secrets(team: Team, problems: Problems) -> None:
    """Record a Secret that is named twice; `problems` is at the team."""
    for index, name in enumerate(team.image_pull_secrets):
        if name in team.image_pull_secrets[:index]:
            problems.at("image_pull_secrets").at(f"[{index}]").add(
                f"{name!r} again", "each name once", "remove it"
            )


def check_own_identity(team: Team, environment: Environment, cloud: Cloud, problems: Problems) -> None:
    """Record what is wrong with an identity in the stack of a team; `problems` is at the team.

    On a cluster of its owner it is an annotation, which gives no rights.
    """
    if team.identity is None:
        return
    here = problems.at("identity")
    if cloud.creates_nodes:
        here.add(
            "an identity in a team's own stack",
            "nothing: a team's stack has no rights in the cloud, and could give itself every bucket",
            f"write it in the environment's stack file, under team_identities.{team.name}",
        )
        return
    _check_form(team.identity, cloud, here)
    found = [*_places(environment, Problems()), (team.name, team.identity, here)]
    for field in _EXISTING:
        _check_shared(field, found)


def plan_service_account(team: Team, identity: TeamIdentity | None, cloud: Cloud) -> ServiceAccountPlan | None:
    """Return the service account of a team's pods; None where it has neither an identity nor pull secrets."""
    if identity is None and not team.image_pull_secrets:
        return None
    return ServiceAccountPlan(
        name=SERVICE_ACCOUNT,
        annotations={} if identity is None else dict(cloud.identities.annotations(identity)),
        image_pull_secrets=team.image_pull_secrets,
        rights=() if identity is None else cloud.identities.rights(identity),
    )


def _places(environment: Environment, problems: Problems) -> Iterator[tuple[str, TeamIdentity, Problems]]:
    for index, team in enumerate(environment.teams):
        if team.identity is not None:
            yield team.name, team.identity, problems.at(f"teams[{index}]").at("identity")
    for name, identity in environment.team_identities.items():
        yield name, identity, problems.at("team_identities").at(name)


def _check_form(identity: TeamIdentity, cloud: Cloud, here: Problems) -> None:
    """Record fields that the provider lacks, none or several of the alternatives, and a directory named twice."""
    provider = cloud.cluster.provider
    if not cloud.has_identities:
        here.add(f"an identity on provider {provider}", "no identity: the cluster is in no cloud", "remove it")
        return
    check_declared_fields(identity, provider, here)
    declared = [name for name in ("buckets", *_EXISTING) if getattr(identity, name)]
    if len(declared) != 1:
        allowed = "buckets, or an existing role or service account, and not both: its owner decides about buckets"
        fix = f"keep {declared[0]}" if declared else "write for example buckets: [{name: acme-datasets}]"
        here.add(" and ".join(declared) or "nothing", allowed, fix)
    first: dict[tuple[str, str], int] = {}
    for index, one in enumerate(identity.buckets):
        place = (one.name, one.directory)
        if place in first:
            here.at("buckets").at(f"[{index}]").add(
                f"{one.name}/{one.directory} again",
                f"each bucket and prefix once (it is in buckets[{first[place]}])",
                "remove one of them: access: write includes reading",
            )
        first.setdefault(place, index)


def _check_shared(field: str, found: Sequence[tuple[str, TeamIdentity, Problems]]) -> None:
    """Record a role or service account of two teams: pods of one would have what the other may use."""
    first: dict[str, str] = {}
    for team, identity, here in found:
        value = getattr(identity, field)
        if value is None:
            continue
        if value in first:
            here.at(field).add(
                f"{value!r}, which team {first[value]} has",
                "a role or service account for each team",
                f"create one for {team}, or write buckets",
            )
        first.setdefault(value, team)
