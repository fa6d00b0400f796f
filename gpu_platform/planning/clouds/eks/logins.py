"""Check and plan who can log in to an EKS cluster besides its admins.

Sources: EKS user guide, "Create access entries", "Set a custom username for EKS access entries" and "Grant users
access to Kubernetes with an external OIDC provider"; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpu_platform.planning.clouds.eks.access import AccessPlan, LoginPlan, OidcPlan
from gpu_platform.planning.clouds.eks.arns import check_account, check_principal, is_reserved_role, partition_of
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.eks_access import Login, Oidc

_SESSION = "{{SessionName"  # EKS also accepts {{SessionNameRaw}}


def check_logins(cluster: EksCluster, problems: Problems) -> None:
    """Record problems for principals that would have two access entries, or that are in another account."""
    taken = dict.fromkeys(cluster.create.admins, "create.admins") if cluster.create is not None else {}
    for index, login in enumerate(cluster.logins):
        here = problems.at("logins").at(f"[{index}]").at("principal")
        if login.principal in taken:
            here.add(
                f"{login.principal!r} here and in {taken[login.principal]}",
                "each principal only once: a principal has one access entry, and an admin needs no groups",
                "remove one of the two entries, or name another role",
            )
        alike = next(
            (one for one in taken if one != login.principal and _local(one) == _local(login.principal)), None
        )
        if alike is not None:
            here.add(
                f"{login.principal!r}, and {alike!r} in {taken[alike]}",
                "principals with different names: the program names each access entry after its principal",
                "rename one of the roles, or let people assume a role of the cluster's account",
            )
        taken[login.principal] = f"logins[{index}]"
        check_account(login.principal, cluster, here)
        check_principal(login.principal, here)


def _local(principal: str) -> str:
    """Return a principal without its account, such as role/NAME."""
    return principal.rpartition(":")[2]


def plan_access(cluster: EksCluster) -> AccessPlan:
    """Return the access entries and the OIDC provider of a cluster."""
    logins = tuple(
        LoginPlan(principal=one.principal, groups=one.groups, username=one.username) for one in cluster.logins
    )
    oidc = cluster.oidc
    if oidc is None:
        return AccessPlan(logins=logins, oidc=None)
    provider = OidcPlan(
        name=cluster.name,
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        username_claim=oidc.username_claim,
        username_prefix=oidc.username_prefix,
        groups_claim=oidc.groups_claim,
        groups_prefix=oidc.groups_prefix,
    )
    return AccessPlan(logins=logins, oidc=provider)


def login_commands(cluster: EksCluster, members: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that write the kubeconfig of members, one for each role that gives them access.

    If there is no such role, the command is for people whose own credentials have access. Users of IAM Identity
    Center receive their role when they log in, and no command can assume it. For users of an OIDC provider, the
    command supplies only the cluster's address and certificate. They log in through their provider's kubectl
    plugin.
    """
    command = f"aws eks update-kubeconfig --name {cluster.name} --region {cluster.region}"
    roles = [
        one.principal
        for one in cluster.logins
        if ":role/" in one.principal and any(_logs_in(one, member) for member in members)
    ]
    commands = (command if is_reserved_role(role) else f"{command} --role-arn {role}" for role in roles)
    return tuple(dict.fromkeys(commands)) or (command,)


def _logs_in(login: Login, member: str) -> bool:
    """Return whether people who use a login have the user name or the group of a member."""
    kind, _, name = member.partition(":")
    return name in login.groups if kind == "group" else kind == "user" and _is_user(login, name)


def login_notes(cluster: EksCluster, team: str, members: Sequence[str]) -> tuple[Decision, ...]:
    """Return a warning about a team's members if no login has their user name or group.

    The owner of an existing cluster may have added access entries that the stack file does not contain, so there
    is no warning for existing clusters.
    """
    unreachable = list(_unreachable(members, cluster.logins, cluster.oidc)) if cluster.create is not None else []
    if not unreachable:
        return ()
    return (
        Decision(
            subject=f"team {team}",
            what="warning: members",
            chosen=f"no user can log in as {', '.join(unreachable)}",
            why=_fix(unreachable, partition_of(cluster.region)),
        ),
    )


def _fix(members: Sequence[str], partition: str) -> str:
    groups = [member.removeprefix("group:") for member in members if member.startswith("group:")]
    entry = f"groups: [{', '.join(groups)}]" if groups else f"username: {members[0].removeprefix('user:')}"
    return (
        "on an EKS cluster that the program creates, only admins, cluster.logins and cluster.oidc have access: "
        f"add the team's IAM role, logins: [{{principal: arn:{partition}:iam::ACCOUNT:role/ROLE, {entry}}}]"
    )


def _unreachable(members: Iterable[str], logins: Sequence[Login], oidc: Oidc | None) -> Iterator[str]:
    groups = {group for login in logins for group in login.groups}
    for member in members:
        kind, _, name = member.partition(":")
        match kind:
            case "group":
                reachable = name in groups or _brings_group(oidc, name)
            case "user":
                reachable = oidc is not None or any(_is_user(login, name) for login in logins)
            case _:  # service accounts use tokens that the cluster issues
                reachable = True
        if not reachable:
            yield member


def _brings_group(oidc: Oidc | None, group: str) -> bool:
    return oidc is not None and oidc.groups_claim is not None and group.startswith(oidc.groups_prefix or "")


def _is_user(login: Login, name: str) -> bool:
    """Return whether people who use a login may have this user name."""
    if login.username is not None:
        start, session, _ = login.username.partition(_SESSION)
        return name.startswith(start) if session else name == login.username
    partition, account = login.principal.split(":")[1], login.principal.split(":")[4]
    kind, _, path = login.principal.split(":")[5].partition("/")
    if kind == "user":
        return name == login.principal
    return name.startswith(f"arn:{partition}:sts::{account}:assumed-role/{path.rpartition('/')[2]}/")
