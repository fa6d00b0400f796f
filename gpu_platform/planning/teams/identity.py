"""Check and plan team identities: their cloud permissions and their image pull secrets.

On a cloud the stack of an environment declares all identities, because only this stack has permissions in
the cloud. `team_identities` contains the identities of teams with their own stack. Identities and pull secrets
belong to one service account, `team`. A pod uses them if it names this service account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT, PodAccess
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.pools.declared_fields import check_declared_fields
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.section import ServiceAccountPlan
from gpu_platform.stack.declared import ON_CLOUDS
from gpu_platform.stack.environment import Environment
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_identity import EXISTING, TeamIdentity


def identities_of(environment: Environment) -> Mapping[str, TeamIdentity]:
    """Return the identities of an environment by team, including teams with their own stack."""
    own = {team.name: team.identity for team in environment.teams if team.identity is not None}
    return {**environment.team_identities, **own}


def check_identities(environment: Environment, cloud: Cloud, problems: Problems) -> None:
    """Record problems with an environment's identities and pull secrets. `problems` points to the root of the
    file.
    """
    for index, team in enumerate(environment.teams):
        check_pull_secrets(team, problems.at(f"teams[{index}]"))
    found = list(_places(environment, problems))
    names = {team.name for team in environment.teams}
    for team, identity, here in found:
        of_own_stack = here.path.startswith("team_identities")
        if of_own_stack and not cloud.creates_nodes:
            here.add(
                f"team_identities on provider {cloud.cluster.provider}",
                (
                    f"team_identities only on {ON_CLOUDS}, because on other clusters the program grants no "
                    "cloud permissions"
                ),
                "remove it; on an existing cluster, the stack of the team sets the role in team.identity",
            )
            continue
        _check_form(identity, cloud, here)
        cloud.identities.check(identity, here)
        if of_own_stack and team in names:
            here.add(
                f"{team!r}, which is in teams, too",
                "teams with their own stack",
                "set identity for the team in teams instead",
            )
    for field in EXISTING:
        _check_shared(field, found)


def check_pull_secrets(team: Team, problems: Problems) -> None:
    """Record a problem for each Secret that is listed twice. `problems` points to the team."""
    for index, name in enumerate(team.image_pull_secrets):
        if name in team.image_pull_secrets[:index]:
            problems.at("image_pull_secrets").at(f"[{index}]").add(
                f"{name!r} again", "each name once", "remove it"
            )


def check_own_identity(team: Team, environment: Environment, cloud: Cloud, problems: Problems) -> None:
    """Record problems with an identity in the stack of a team. `problems` points to the team.

    On a cluster that someone else owns, the identity is only an annotation, which grants no permissions.
    """
    if team.identity is None:
        return
    here = problems.at("identity")
    if cloud.creates_nodes:
        here.add(
            "an identity in a team's own stack",
            "no identity, because a team's stack has no permissions in the cloud; otherwise it could give itself "
            "access to every bucket",
            f"write it in the environment's stack file, under team_identities.{team.name}",
        )
        return
    _check_form(team.identity, cloud, here)
    found = [*_places(environment, Problems()), (team.name, team.identity, here)]
    for field in EXISTING:
        _check_shared(field, found)


def plan_service_account(team: Team, identity: TeamIdentity | None, cloud: Cloud) -> ServiceAccountPlan | None:
    """Return the service account for a team's pods, or None if the team has neither an identity nor pull
    secrets.
    """
    if identity is None and not team.image_pull_secrets:
        return None
    access = PodAccess() if identity is None else cloud.identities.pod_access(identity)
    return ServiceAccountPlan(
        name=SERVICE_ACCOUNT,
        annotations=access.annotations,
        pod_labels=access.labels,
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
    """Record problems with unsupported fields, with directories that are listed twice, and with an identity that
    does not set exactly one of the alternative fields.
    """
    provider = cloud.cluster.provider
    if not cloud.has_identities:
        here.add(
            f"an identity on provider {provider}",
            "no identity, because the cluster does not run in a cloud",
            "remove it",
        )
        return
    check_declared_fields(identity, provider, here)
    declared = [name for name in ("buckets", *EXISTING) if getattr(identity, name)]
    if len(declared) != 1:
        allowed = "either buckets, or an existing identity, whose owner grants it access to buckets"
        fix = (
            f"keep {declared[0]}"
            if declared
            else "write a list of buckets, such as buckets: [{name: acme-datasets}]"
        )
        here.add(" and ".join(declared) or "nothing", allowed, fix)
    first: dict[tuple[str | None, str, str], int] = {}
    for index, one in enumerate(identity.buckets):
        place = (one.storage_account, one.name, one.directory)
        if place in first:
            here.at("buckets").at(f"[{index}]").add(
                f"{one.name}/{one.directory} again",
                f"each bucket and prefix only once (it is already in buckets[{first[place]}])",
                "remove one of them, because access: write includes reading",
            )
        first.setdefault(place, index)


def _check_shared(field: str, found: Sequence[tuple[str, TeamIdentity, Problems]]) -> None:
    """Record a problem if two teams have the same existing identity, because each team would have the permissions
    of the other team.
    """
    first: dict[str, str] = {}
    for team, identity, here in found:
        value = getattr(identity, field)
        if value is None:
            continue
        if value in first:
            here.at(field).add(
                f"{value!r}, which team {first[value]} already uses",
                "a separate identity for each team",
                f"create one for {team}, or set `buckets`",
            )
        first.setdefault(value, team)
