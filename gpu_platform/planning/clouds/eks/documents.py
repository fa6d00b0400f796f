"""Data of an EKS stack that AWS limits in size or number: IAM policies, user data, tags, and the instances of a
capacity block.

ARNs that are known only at deployment are counted with the longest possible names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpu_platform.planning.clouds.documents import Document, policy_size
from gpu_platform.planning.clouds.eks.arns import partition_of
from gpu_platform.planning.clouds.eks.cluster_plan import Addon, EksClusterPlan
from gpu_platform.planning.clouds.eks.identities import EksIdentities
from gpu_platform.planning.clouds.eks.karpenter_controller import controller_policy
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.resource_names import LONGEST_ROLE
from gpu_platform.planning.clouds.eks.user_data import write_user_data
from gpu_platform.planning.pools.section import PoolPlan

_ACCOUNT: Final = "123456789012"  # every account ID has this length
_SUFFIX: Final = "-1234567"  # suffix that Pulumi appends
_ACCESS_BYTES: Final = 3000
"""Number of bytes in each node's user data for the endpoint, certificate and network of the cluster.

EKS and Karpenter add this data, together with labels and taints. For a custom AMI, the program adds the data.
"""
_OTHER_TAGS: Final = 6
"""Maximum number of tags that EKS or Karpenter adds to an instance (Karpenter docs, NodeClasses, tags; read
2026-11-28).
"""


def cluster_documents(cluster: EksClusterPlan, addons: Sequence[Addon]) -> Iterator[Document]:
    """Yield the policies of controllers and add-ons. `addons` are the add-ons of the cluster and its storage."""
    if cluster.karpenter is not None:
        partition, region = partition_of(cluster.region), cluster.region
        node_role = f"arn:{partition}:iam::{_ACCOUNT}:role{cluster.iam.path}{'x' * (LONGEST_ROLE + len(_SUFFIX))}"
        queue = f"arn:{partition}:sqs:{region}:{_ACCOUNT}:{cluster.karpenter.queue}{_SUFFIX}"
        policy = controller_policy(region, cluster.name, node_role, queue, cluster.karpenter.disk_keys)
        yield Document(
            limit="iam-role-policies",
            place="pools",
            what=f"{len(cluster.karpenter.disk_keys)} disk keys make a policy of Karpenter",
            size=policy_size(*policy["Statement"]),
            fix="use one key for the disks of several pools",
        )
    if cluster.cluster_autoscaler is not None:
        yield Document(
            limit="iam-role-policies",
            place="cluster.name",
            what="a policy of the Cluster Autoscaler",
            size=policy_size(*cluster.cluster_autoscaler.policy["Statement"]),
            fix="shorten the name",
        )
    for addon in addons:
        yield Document(
            limit="iam-role-policies",
            place="storage",
            what=f"a policy of the add-on {addon.name}",
            size=policy_size(*addon.statements),
            fix="use one key, bucket or file system for several storage classes",
        )


def identity_documents(identities: EksIdentities, teams: Sequence[str]) -> Iterator[Document]:
    """Yield the policies of teams' roles. `teams` are the teams in the order of the stack file."""
    for role in identities.roles:
        yield Document(
            limit="iam-role-policies",
            place=f"teams[{teams.index(role.team)}].identity.buckets",
            what=f"{len(role.buckets)} entries make a policy",
            size=policy_size(*role.statements),
            fix="name fewer prefixes, or set role_arn to your own role",
        )


def block_sizes(pools: Sequence[PoolPlan]) -> Iterator[Document]:
    """Yield the number of nodes that all pools together have in each capacity block. UltraServers have separate
    blocks.
    """
    nodes: dict[str, int] = {}
    last: dict[str, PoolPlan] = {}
    for pool in pools:
        if pool.capacity["type"] == "capacity-block" and pool.nvlink_domain is None:
            for window in pool.cloud_nodes.windows:
                nodes[window.reservation] = nodes.get(window.reservation, 0) + pool.nodes.max
                last[window.reservation] = pool
    for reservation, size in nodes.items():
        count = last[reservation].nodes
        yield Document(
            limit="capacity-block",
            place=f"{last[reservation].path}.count.{'max' if count.max > count.desired else 'desired'}",
            what=f"a capacity block ({reservation})",
            size=size,
            fix="write a lower number, or use a separate pool for each block",
        )


def pool_documents(pools: Sequence[PoolPlan], cluster: EksClusterPlan) -> Iterator[Document]:
    """Yield the user data and tags of nodes."""
    for pool in pools:
        if not isinstance(pool.cloud, EksPoolPlan | KarpenterPoolPlan):
            continue
        if text := _user_data(pool.cloud):
            yield Document(
                limit="ec2-user-data",
                place=f"{pool.path}.bootstrap",
                what="user data",
                size=len(text.encode()) + _ACCESS_BYTES,
                fix="write fewer commands and settings, or build them into an image",
            )
        yield Document(
            limit="aws-tags",
            place=f"{pool.path}.tags",
            what="instances with tags of the cluster, the pool and the program:",
            size=len({**cluster.tags, **pool.cloud.node_tags}) + _OTHER_TAGS,
            fix="write fewer tags",
        )


def _user_data(pool: EksPoolPlan | KarpenterPoolPlan) -> str:
    """Return the user data that the program adds, or an empty string if it adds none."""
    if isinstance(pool, KarpenterPoolPlan):
        return pool.node_class.get("userData", "")
    return "" if pool.user_data is None else write_user_data(pool.user_data)
