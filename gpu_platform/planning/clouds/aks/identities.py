"""Check and plan team identities on AKS. Each team has one service account, which uses a user-assigned managed
identity through Microsoft Entra Workload ID.

A federated identity credential of the managed identity names the issuer of the cluster's tokens, the namespace and
the service account. Every cluster has a different issuer, so a namespace with the same name in another cluster has
no access. The program creates one credential for each identity: Azure allows 20, and refuses concurrent changes to
the credentials of an identity. A webhook of AKS gives the token to pods with a label. Such pods cannot be created
while the webhook does not run, so only pods that need the identity have the label.

Sources: AKS docs, "Microsoft Entra Workload ID with AKS overview"; Entra docs, "Important considerations and
restrictions for federated identity credentials"; Azure/azure-workload-identity 04d01a2, pkg/webhook/webhook.go and
docs, "Service account labels and annotations"; Azure docs, built-in roles for Storage, and "Example Azure role
assignment conditions for Blob Storage"; read 2026-11-30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.aks.names import OF_CLUSTER, team_identity_name, update_command
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT, PodAccess, bucket_rights
from gpu_platform.planning.clouds.protocol import existing_rights
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster
from gpu_platform.stack.team_identity import TeamBucket, TeamIdentity

AUDIENCE: Final = "api://AzureADTokenExchange"
CLIENT_ID: Final = "azure.workload.identity/client-id"
ENABLE: Final = "--enable-oidc-issuer --enable-workload-identity"
"""Options of `az aks update` that prepare an existing cluster for identities."""
_USE: Final = "azure.workload.identity/use"
_READ_ROLE: Final = "Storage Blob Data Reader"
_WRITE_ROLE: Final = "Storage Blob Data Contributor"
_CONTAINER: Final = re.compile(r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*")
_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"

POD_ACCESS: Final = PodAccess(annotations={CLIENT_ID: None}, labels={_USE: "true"})
"""Azure chooses the client ID of a managed identity when it creates the identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRole:
    """A role on a container of Azure Blob Storage. Without `prefixes`, it includes all blobs."""

    container: str
    """Resource ID of the container."""
    role: str
    prefixes: tuple[str, ...] = ()

    @property
    def condition(self) -> str | None:
        """Condition that limits the role to reading and listing blobs below the prefixes, or None if there are no
        prefixes.
        """
        if not self.prefixes:
            return None
        return (
            f"({_unless('NOT ')} OR ({_starts('@Resource', 'path', self.prefixes)})) AND "
            f"({_unless('')} OR ({_starts('@Request', 'prefix', self.prefixes)}))"
        )


def _unless(other_than_lists: Literal["NOT ", ""]) -> str:
    """Return the part of a condition that allows everything except reading, or except listing."""
    return f"(!(ActionMatches{{'{_BLOBS}/read'}} AND {other_than_lists}SubOperationMatches{{'Blob.List'}}))"


def _starts(source: str, attribute: str, prefixes: tuple[str, ...]) -> str:
    return " OR ".join(f"{source}[{_BLOBS}:{attribute}] StringStartsWith '{prefix}'" for prefix in prefixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamManagedIdentity:
    """The managed identity of a team's service account."""

    team: str
    service_account: str
    name: str
    """Name of the federated identity credential, and of the identity if the program creates it."""
    existing: str | None
    """Resource ID of an existing managed identity, or None if the program creates one."""
    roles: tuple[ContainerRole, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AksIdentities:
    """The managed identities of teams. `rights` describes the permissions of each team as text."""

    kind: Literal["aks"] = "aks"
    identities: tuple[TeamManagedIdentity, ...]
    rights: Mapping[str, tuple[str, ...]]


def check_identity(identity: TeamIdentity, cluster: AksCluster, here: Problems) -> None:
    """Record problems for containers and managed identities that the team cannot use. `here` points to the
    identity.
    """
    for index, bucket in enumerate(identity.buckets):
        _check_container(bucket, here.at("buckets").at(f"[{index}]"))
    if identity.managed_identity is not None:
        _check_existing(identity.managed_identity, cluster, here.at("managed_identity"))


def _check_container(bucket: TeamBucket, here: Problems) -> None:
    if bucket.storage_account is None:
        here.at("storage_account").add(
            "nothing",
            "the resource ID of the storage account, because other accounts may have a container of this name",
            "see az storage account list --query [].id",
        )
    if not _CONTAINER.fullmatch(bucket.name):
        here.at("name").add(
            f"{bucket.name!r}",
            "the name of a container: 3 to 63 lower-case letters, digits and single hyphens",
            "correct the name",
        )
    if bucket.writable and bucket.directory:
        here.at("access").add(
            f"write with prefix {bucket.directory}",
            f"read with a prefix, because the role {_WRITE_ROLE} includes the right to delete the container, and "
            "no condition can prevent this",
            "write access: read, or remove prefix and use a separate container for the team",
        )


def _check_existing(resource: str, cluster: AksCluster, here: Problems) -> None:
    subscription, name = resource.split("/")[2], resource.rpartition("/")[2]
    if subscription != cluster.subscription:
        here.add(
            f"an identity in subscription {subscription}",
            f"an identity in the cluster's subscription, {cluster.subscription}",
            "use an identity in this subscription",
        )
    if name in {f"{cluster.name}{suffix}" for suffix in OF_CLUSTER}:
        here.add(
            f"{name}, which the control plane or nodes use",
            "a separate identity for the team",
            "create an identity for the team, or set `buckets`",
        )


def identity_rights(identity: TeamIdentity) -> tuple[str, ...]:
    """Return a team's permissions on containers, or its right to use an existing managed identity."""
    places = (
        (f"https://{_account(one)}.blob.core.windows.net/{one.name}/{one.directory}", one.writable)
        for one in identity.buckets
    )
    return (*bucket_rights(places), *existing_rights(identity))


def _account(bucket: TeamBucket) -> str:
    return (bucket.storage_account or "").rpartition("/")[2]


def plan_identities(identities: Mapping[str, TeamIdentity], cluster: AksCluster) -> Decided[AksIdentities | None]:
    """Return the managed identities of teams, or None if no team has an identity. The keys of `identities` are
    names of teams.
    """
    if not identities:
        return Decided(None)
    plan = AksIdentities(
        rights={team: identity_rights(one) for team, one in identities.items()},
        identities=tuple(
            TeamManagedIdentity(
                team=team,
                service_account=SERVICE_ACCOUNT,
                name=team_identity_name(cluster.name, team),
                existing=one.managed_identity,
                roles=_roles(one),
            )
            for team, one in identities.items()
        ),
    )
    notes = [note for team, one in identities.items() for note in _decisions(team, one)]
    if cluster.create is None:
        notes.append(_requirement(cluster))
    return Decided(plan, tuple(notes))


def _requirement(cluster: AksCluster) -> Decision:
    """Return a decision with the command that prepares an existing cluster for identities."""
    return Decision(
        subject=f"cluster {cluster.name}",
        what="requirement of identities",
        chosen=update_command(cluster.subscription, cluster.resource_group, cluster.name, ENABLE),
        why="the cluster's owner enables both; `up` checks only the issuer, `doctor STACK --online` checks both",
    )


def _roles(identity: TeamIdentity) -> tuple[ContainerRole, ...]:
    """Return the roles of an identity. Azure allows an identity to have a role on a container only once."""
    prefixes: dict[tuple[str, str], list[str]] = {}
    for one in identity.buckets:
        container = f"{one.storage_account}/blobServices/default/containers/{one.name}"
        role = _WRITE_ROLE if one.writable else _READ_ROLE
        prefixes.setdefault((container, role), []).append(one.directory)
    return tuple(
        ContainerRole(container=container, role=role, prefixes=() if "" in found else tuple(found))
        for (container, role), found in prefixes.items()
    )


def _decisions(team: str, identity: TeamIdentity) -> Iterator[Decision]:
    subject, existing = f"team {team}", identity.managed_identity
    yield Decision(
        subject=subject,
        what="identity",
        chosen=f"a managed identity for its {counted(len(identity.buckets), 'container')} only"
        if existing is None
        else existing,
        why=f'for pods with the service account {SERVICE_ACCOUNT} and the label {_USE}: "true", through Microsoft '
        "Entra Workload ID; they get tokens from login.microsoftonline.com, which has only public addresses, so "
        "the team needs egress: [internet]",
    )
    if existing is None:
        yield Decision(
            subject=subject,
            what="new roles of its identity",
            chosen="work within 10 minutes",
            why="Azure takes this time to distribute them, and `up` does not wait; until then, Azure answers 403",
        )
    if written := [one.name for one in identity.buckets if one.writable]:
        yield Decision(
            subject=subject,
            what="warning: write",
            chosen=f"its pods can also delete whole containers: {', '.join(written)}",
            why=f"the role {_WRITE_ROLE} includes this right; soft delete for containers, a setting of the "
            "storage account, protects against mistakes",
        )
