"""Check and plan team identities on EKS. Each team has one service account, which has an IAM role through EKS Pod
Identity.

The trust policy of a role requires the tags that EKS sets on the session. They contain the ARN of the cluster, the
namespace and the service account. Even if somebody else associates the role, it cannot be used from another
namespace, or from a cluster with the same name in another region.

Sources: EKS user guide, "Learn how EKS Pod Identity grants pods access to AWS services" and "Create IAM role with
trust policy required by EKS Pod Identity"; IAM user guide, "IAM and AWS STS quotas"; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpu_platform.base.quantity import counted
from gpu_platform.planning.clouds.eks.arns import check_assumable, check_partition, cluster_arn
from gpu_platform.planning.clouds.eks.buckets import bucket_statements, check_bucket
from gpu_platform.planning.clouds.identities import SERVICE_ACCOUNT
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.team_identity import TeamIdentity

AGENT: Final = "eks-pod-identity-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRole:
    """The IAM role of a team's service account.

    `role_arn` is the ARN of an existing role. If it is None, the program creates a role.
    """

    team: str
    service_account: str
    suffix: str
    """Suffix of the role's name, which follows the cluster's prefix."""
    role_arn: str | None
    statements: tuple[Mapping[str, Any], ...] = ()
    buckets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EksIdentities:
    """The roles of teams on an EKS cluster. `rights` describes the permissions of each team as text."""

    kind: Literal["eks"] = "eks"
    roles: tuple[TeamRole, ...]
    rights: Mapping[str, tuple[str, ...]]


def check_identity(identity: TeamIdentity, cluster: EksCluster, partition: str, here: Problems) -> None:
    """Record problems for invalid S3 buckets, and for a role that the cluster cannot use."""
    for index, one in enumerate(identity.buckets):
        check_bucket(one, cluster, here.at("buckets").at(f"[{index}]"), "name")
    role = identity.role_arn
    if role is None or not check_partition(role, cluster, here.at("role_arn")):
        return
    check_assumable(role, here.at("role_arn"))
    account = role.split(":")[4]
    if cluster.account is not None and account != cluster.account:
        here.at("role_arn").add(
            f"a role in account {account}",
            f"a role in the cluster's account, {cluster.account}: EKS associates no role of another account",
            "use a role in the cluster's account that may assume this role",
        )
    if role in (cluster.iam.node_role, cluster.assume_role):
        here.at("role_arn").add(
            f"{role!r}, which nodes or `up` use",
            "a separate role for the team",
            "create a role for the team, or set `buckets`",
        )


def plan_identities(
    identities: Mapping[str, TeamIdentity],
    cluster: EksCluster,
    partition: str,
    rights: Mapping[str, tuple[str, ...]],
) -> Decided[EksIdentities | None]:
    """Return the roles of teams. The keys of `identities` and `rights` are names of teams."""
    if not identities:
        return Decided(None)
    roles = tuple(
        TeamRole(
            team=team,
            service_account=SERVICE_ACCOUNT,
            suffix=f"team-{team}",
            role_arn=one.role_arn,
            statements=_statements(one, cluster, partition),
            buckets=tuple(bucket.name for bucket in one.buckets),
        )
        for team, one in identities.items()
    )
    decisions = [decision for team, one in identities.items() for decision in _decisions(team, one, cluster)]
    return Decided(EksIdentities(roles=roles, rights=rights), tuple(decisions))


def _statements(identity: TeamIdentity, cluster: EksCluster, partition: str) -> tuple[Mapping[str, Any], ...]:
    return bucket_statements(identity.buckets, partition, cluster.region) if identity.buckets else ()


def _decisions(team: str, identity: TeamIdentity, cluster: EksCluster) -> Iterator[Decision]:
    if identity.role_arn is None:
        chosen, trust = f"an IAM role for its {counted(len(identity.buckets), 'bucket')} only", ""
    else:
        chosen = identity.role_arn
        trust = (
            "; its owner lets pods.eks.amazonaws.com assume it and tag sessions, under the conditions "
            f"aws:RequestTag/kubernetes-namespace {team}, kubernetes-service-account {SERVICE_ACCOUNT} and "
            f"eks-cluster-arn {cluster_arn(cluster)}"
        )
    agent = "" if cluster.create is not None else f"; the cluster's owner installs the add-on {AGENT}"
    yield Decision(
        subject=f"team {team}",
        what="identity",
        chosen=chosen,
        why=f"for pods with the service account {SERVICE_ACCOUNT}, through EKS Pod Identity{trust}{agent}",
    )
