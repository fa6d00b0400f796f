"""Check and plan how members of teams log in to an AKS cluster with Entra ID.

Kubernetes on AKS identifies groups by their object ID, and users by their user principal name or, for guests and
service principals, by their object ID. Azure's role "Azure Kubernetes Service Cluster User Role" allows to fetch a
kubeconfig. It grants no permissions on Kubernetes objects.

Sources: AKS docs, "Use Kubernetes role-based access control with Microsoft Entra ID in Azure Kubernetes Service",
and "Limit access to kubeconfig in Azure Kubernetes Service"; azure.github.io/kubelogin; read 2026-11-30.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster

LOGIN_ROLE: Final = "Azure Kubernetes Service Cluster User Role"
_OBJECT_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_USER_NAME: Final = re.compile(r"[^@\s]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


def check_members(members: Sequence[str], problems: Problems) -> None:
    """Record a problem for members whose names are not Entra ID identities. `problems` points to the team's
    `members`.
    """
    for index, member in enumerate(members):
        kind, _, name = member.partition(":")
        if (
            kind == "serviceaccount"
            or _OBJECT_ID.fullmatch(name)
            or (kind == "user" and _USER_NAME.fullmatch(name))
        ):
            continue
        problems.at(f"[{index}]").add(
            f"{member!r} on AKS",
            "the object ID of an Entra ID group"
            if kind == "group"
            else "a user principal name, or the object ID of a guest or service principal",
            "see az ad group show --group NAME --query id"
            if kind == "group"
            else f"write 'user:{name.rstrip('@')}@' followed by your domain",
        )


def login_commands(cluster: AksCluster) -> tuple[str, ...]:
    """Return the commands that write a kubeconfig and let it use the token of the Azure CLI."""
    return (
        f"az aks get-credentials --subscription {cluster.subscription} --resource-group {cluster.resource_group} "
        f"--name {cluster.name}",
        "kubelogin convert-kubeconfig -l azurecli",
    )


def object_ids(members: Iterable[str]) -> tuple[str, ...]:
    """Return the object IDs of the members, without duplicates. Other members cannot be granted an Azure role
    without a lookup in Entra ID.
    """
    return tuple(sorted({name for member in members if _OBJECT_ID.fullmatch(name := member.partition(":")[2])}))


def granted_decision(cluster: AksCluster, members: Sequence[str]) -> Decision:
    """Return a decision about the members who are granted the login role."""
    return Decision(
        subject=f"cluster {cluster.name}",
        what="logins",
        chosen=f"{LOGIN_ROLE} for {', '.join(members)}",
        why="to fetch a kubeconfig; the Role of their team determines all other permissions",
    )


def login_notes(
    cluster: AksCluster, team: str, members: Sequence[str], *, own_stack: bool
) -> tuple[Decision, ...]:
    """Return a decision with the Azure role that a team's members need, if the program does not grant it.

    `own_stack` is true if the team has a separate stack, which contains no Azure resources.
    """
    people = [member for member in members if not member.startswith("serviceaccount:")]
    grants = cluster.create is not None and not own_stack
    needing = [member for member in people if not grants or not object_ids([member])]
    if not needing:
        return ()
    why = (
        "a team's stack does not change Azure resources"
        if own_stack
        else "the program does not change the roles on an existing cluster"
        if cluster.create is None
        else "the program grants it only to object IDs, because it does not look up users"
    )
    return (
        Decision(
            subject=f"team {team}",
            what="logins",
            chosen=f"{', '.join(needing)} must have {LOGIN_ROLE} on cluster {cluster.name}",
            why=f"{why}; see az role assignment create",
        ),
    )
