"""Check and plan the teams' identities on GKE.

An identity consists of roles that Workload Identity Federation grants to a Kubernetes service account.

A bucket's IAM policy grants access directly to the service account `team` in the team's namespace, without a
Google Cloud service account. The identity's principal identifier does not name the cluster. Therefore, the same
service account in a namespace with the same name in another cluster of the project has access too.

Sources: GKE docs, "About Workload Identity Federation for GKE" and "Authenticate to Google Cloud APIs from GKE
workloads" (principal identifiers, alternative: link to IAM service accounts); IAM docs, attribute reference for
IAM Conditions (objectListPrefix of Cloud Storage); Cloud Storage docs, IAM roles; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.gke.buckets import READ_ROLE, WRITE_ROLE, below
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.team_identity import TeamIdentity

USER_ROLE: Final = "roles/iam.workloadIdentityUser"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamBucketGrant:
    """A role on a bucket for a team's service account. An empty `prefix` means all objects."""

    team: str
    service_account: str
    bucket: str
    role: str
    prefix: str = ""

    @property
    def name(self) -> str:
        """Logical name of the IAM member. Only the prefix may contain a slash."""
        return "/".join((self.team, self.bucket, self.role.rpartition(".")[2], self.prefix)).rstrip("/")

    @property
    def condition(self) -> str | None:
        """Condition that limits the IAM binding to accessing and listing objects below the prefix."""
        if not self.prefix:
            return None
        listed = f'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("{self.prefix}")'
        return f"{below(self.bucket, self.prefix)} || {listed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAccountGrant:
    """The right of a team's service account to use a Google Cloud service account."""

    team: str
    service_account: str
    email: str
    role: str = USER_ROLE

    @property
    def name(self) -> str:
        """Logical name of the IAM member."""
        return f"{self.team}/{self.email}"

    @property
    def account(self) -> str:
        """Full name of the service account, with the project from its e-mail address."""
        return f"projects/{self.email.partition('@')[2].partition('.')[0]}/serviceAccounts/{self.email}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeIdentities:
    """The teams' roles on buckets and Google Cloud service accounts.

    `rights` contains each team's permissions as text.
    """

    kind: Literal["gke"] = "gke"
    buckets: tuple[TeamBucketGrant, ...]
    accounts: tuple[TeamAccountGrant, ...]
    rights: Mapping[str, tuple[str, ...]]


def check_identity(identity: TeamIdentity, cluster: GkeCluster, here: Problems) -> None:
    """Record a problem for a service account that a team's pods must not use."""
    account = identity.google_service_account
    if account is not None and account in (cluster.node_service_account, cluster.impersonate):
        here.at("google_service_account").add(
            f"{account!r}, which nodes or `up` use",
            "a separate service account for the team",
            "create an account for the team, or set `buckets`",
        )


def plan_identities(
    identities: Mapping[str, TeamIdentity], cluster: GkeCluster, rights: Mapping[str, tuple[str, ...]]
) -> Decided[GkeIdentities | None]:
    """Return the teams' roles, or None if no team has an identity.

    `identities` and `rights` have the team names as keys.
    """
    if not identities:
        return Decided(None)
    plan = GkeIdentities(
        rights=rights,
        buckets=tuple(
            TeamBucketGrant(
                team=team,
                service_account=SERVICE_ACCOUNT,
                bucket=bucket.name,
                role=WRITE_ROLE if bucket.writable else READ_ROLE,
                prefix=bucket.directory,
            )
            for team, one in identities.items()
            for bucket in one.buckets
        ),
        accounts=tuple(
            TeamAccountGrant(team=team, service_account=SERVICE_ACCOUNT, email=one.google_service_account)
            for team, one in identities.items()
            if one.google_service_account is not None
        ),
    )
    return Decided(
        plan, tuple(note for team, one in identities.items() for note in _decisions(team, one, cluster))
    )


def _decisions(team: str, identity: TeamIdentity, cluster: GkeCluster) -> Iterator[Decision]:
    account = identity.google_service_account
    yield Decision(
        subject=f"team {team}",
        what="identity",
        chosen=f"roles on its {counted(len(identity.buckets), 'bucket')} only" if account is None else account,
        why=f"for pods with the service account {SERVICE_ACCOUNT}, through Workload Identity Federation; a "
        "namespace "
        f"{team} in another cluster of project {cluster.project} has the same identity",
    )
    if cluster.create is None:
        yield Decision(
            subject=f"team {team}",
            what="addresses for its identity",
            chosen="169.254.169.254, TCP 80 (Dataplane V2), and 169.254.169.252, TCP 987 and 988",
            why="only the team's namespace may open these connections; a node pool whose nodes expose their own "
            "credentials at these addresses is refused at deployment",
        )
    if any(bucket.directory for bucket in identity.buckets):
        yield Decision(
            subject=f"team {team}",
            what="buckets with a prefix",
            chosen="uniform bucket-level access",
            why="IAM conditions on a prefix require this access mode; the owner of the bucket must enable it",
        )
