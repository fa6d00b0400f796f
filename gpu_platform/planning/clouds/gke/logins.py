"""Check and plan how members of teams log in to a GKE cluster.

Kubernetes on GKE identifies users by the e-mail address of their Google account or service account, and groups by
the e-mail address of a Google group. It recognises a group only if the cluster has a security group,
gke-security-groups@DOMAIN, and the group is a member of this security group. Users and groups of a workforce
identity pool have names that begin with principal:// and principalSet://.

The cluster's DNS endpoint and `get-credentials` check IAM permissions before RBAC applies.
roles/container.clusterViewer is the smallest predefined role with both permissions, container.clusters.connect and
container.clusters.get. It grants no permissions on Kubernetes objects.

Sources: GKE docs, Configure Google Groups for RBAC, Authenticate to GKE from external identity providers, and
Role-based access control; permissions of the role from iann0036/iam-dataset,
gcp/roles/container.clusterViewer.json; read 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from gpu_platform.planning.clouds.api_access import is_private
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateGke, GkeCluster

LOGIN_ROLE: Final = "roles/container.clusterViewer"
_EMAIL: Final = re.compile(r"[^@\s]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_UNIQUE_ID: Final = re.compile(r"\d{15,}")
_WORKFORCE: Final = {"user": "principal://", "group": "principalSet://"}
_SERVICE_ACCOUNT: Final = ".gserviceaccount.com"


def check_members(members: Sequence[str], problems: Problems) -> None:
    """Record a problem for members whose names are not Google Cloud identities. `problems` points to the team's
    `members`.
    """
    for index, member in enumerate(members):
        kind, _, name = member.partition(":")
        if kind == "serviceaccount" or _EMAIL.fullmatch(name) or name.startswith(_WORKFORCE[kind]):
            continue
        if kind == "user" and _UNIQUE_ID.fullmatch(name):
            continue
        what = "a Google group" if kind == "group" else "a Google account or service account"
        problems.at(f"[{index}]").add(
            f"{member!r} on GKE",
            f"the e-mail address of {what}, or {_WORKFORCE[kind]}... from a workforce identity pool",
            f"write '{kind}:{name.rstrip('@')}@' followed by your domain",
        )


def login_commands(cluster: GkeCluster) -> tuple[str, ...]:
    """Return the command that writes a kubeconfig, or two commands if the program creates the cluster with a
    public and a private address.

    gcloud uses the public address if there is one (gcloud reference, get-credentials, --internal-ip; read
    2026-11-29).
    """
    command = (
        f"gcloud container clusters get-credentials {cluster.name} --location {cluster.location} "
        f"--project {cluster.project}"
    )
    if cluster.create is None:
        return (command,)
    if cluster.create.dns_access:
        return (f"{command} --dns-endpoint",)
    public, private = networks_by_address(cluster.create)
    if not (public and private):
        return (command,)
    return (f"{command}  # in {', '.join(public)}", f"{command} --internal-ip  # in {', '.join(private)}")


def networks_by_address(create: CreateGke) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the networks that use the API server's public address, and the networks that use its private
    address.
    """
    private = tuple(network for network in create.api_access if is_private(network))
    return tuple(network for network in create.api_access if network not in private), private


def iam_members(members: Iterable[str]) -> tuple[str, ...]:
    """Return users and groups as IAM members, without duplicates. Kubernetes service accounts are not in IAM."""
    found = (_iam_member(*member.split(":", 1)) for member in members)
    return tuple(sorted({member for member in found if member is not None}))


def _iam_member(kind: str, name: str) -> str | None:
    if kind == "serviceaccount" or _UNIQUE_ID.fullmatch(name):
        return None
    if name.startswith(_WORKFORCE[kind]):
        return name
    return f"serviceAccount:{name}" if name.endswith(_SERVICE_ACCOUNT) else f"{kind}:{name}"


def manages_iam(cluster: GkeCluster) -> bool:
    """Return whether the program grants roles in the project.

    The program does so only if it creates both the cluster and the node service account itself.
    """
    return cluster.create is not None and cluster.node_service_account is None


def google_groups(members: Iterable[str]) -> tuple[str, ...]:
    """Return the e-mail addresses of the Google groups among the members."""
    names = (member.partition(":") for member in members)
    return tuple(name for kind, _, name in names if kind == "group" and _EMAIL.fullmatch(name))


def no_groups(groups: Sequence[str]) -> str:
    """Return a warning that the members of these Google groups cannot log in."""
    return f"members of {', '.join(groups)} cannot log in"


def login_notes(
    cluster: GkeCluster, team: str, members: Sequence[str], *, own_stack: bool
) -> tuple[Decision, ...]:
    """Return a warning about Google groups whose members cannot log in, and a decision with the IAM role that a
    team's members need.

    `own_stack` is true if the team has a separate stack, which contains no Google Cloud resources.
    """
    notes: list[Decision] = []
    groups = google_groups(members)
    if groups and cluster.create is not None and cluster.create.authenticator_groups is None:
        notes.append(
            Decision(
                subject=f"team {team}",
                what="warning: logins",
                chosen=no_groups(groups),
                why="the cluster does not recognise Google groups; write cluster.create.authenticator_groups: "
                "gke-security-groups@ followed by your domain",
            )
        )
    needing = iam_members(members)
    if needing and (own_stack or not manages_iam(cluster)):
        why = (
            "a team's stack does not change Google Cloud resources"
            if own_stack
            else "the program does not change the project's IAM policy"
        )
        notes.append(
            Decision(
                subject=f"team {team}",
                what="logins",
                chosen=f"{', '.join(needing)} must have {LOGIN_ROLE} in project {cluster.project}",
                why=f"{why}; see gcloud projects add-iam-policy-binding",
            )
        )
    return tuple(notes)


def granted_decision(cluster: GkeCluster, members: Sequence[str]) -> Decision:
    """Return a decision about the members who are granted the login role."""
    return Decision(
        subject=f"cluster {cluster.name}",
        what="logins",
        chosen=f"{LOGIN_ROLE} for {', '.join(members)}",
        why="to fetch credentials"
        + (" and use the DNS endpoint" if cluster.create is not None and cluster.create.dns_access else "")
        + "; the Role of their team determines all other permissions",
    )
