"""Components for an EKS cluster and its GPU node pools.

Only this package and `components/public/_eks.py` import the AWS SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pulumi
import pulumi_aws as aws

from components._cloud import TeamIdentityOutputs
from components.eks.cluster import EksCluster
from components.eks.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from components.eks.dranet import EfaDraDriver
from components.eks.efa_plugin import EfaDevicePlugin
from components.eks.identities import EksTeamIdentities, EksTeamIdentitiesArgs
from components.eks.karpenter import KarpenterController, KarpenterControllerArgs
from components.eks.karpenter_node_pool import KarpenterNodePool, KarpenterNodePoolArgs
from components.eks.node_pool import EksNodePool, EksNodePoolArgs
from components.eks.storage import EksFileSystems, EksFileSystemsArgs
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.identities import EksIdentities
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.storage import EksStorage
from gpu_platform.planning.pools.section import PoolPlan


def build(
    cluster: EksClusterPlan, pools: Sequence[PoolPlan], opts: pulumi.ResourceOptions
) -> tuple[EksCluster, Callable[[pulumi.ResourceOptions], dict[str, list[pulumi.Resource]]]]:
    """Create the cluster. Return it with a function that creates its pools.

    The returned function takes the options of Kubernetes objects and returns, for each pool, the resources that
    create its nodes. `opts` are the options of the cluster.
    """
    provider = aws.Provider(
        cluster.name,
        region=cluster.region,
        allowed_account_ids=None if cluster.account is None else [cluster.account],
        default_tags=aws.ProviderDefaultTagsArgs(tags=cluster.tags),
        assume_roles=None
        if cluster.assume_role is None
        else [aws.ProviderAssumeRoleArgs(role_arn=cluster.assume_role)],
    )
    on_aws = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
    created = EksCluster(cluster.name, cluster, on_aws)
    return created, partial(_create_pools, created, cluster, pools)


def create_storage(
    created: EksCluster, cluster: EksClusterPlan, storage: EksStorage, opts: pulumi.ResourceOptions
) -> Mapping[str, Mapping[str, pulumi.Input[str]]]:
    """Create drivers and file systems. Return the storage class parameters that are outputs of these resources."""
    args = EksFileSystemsArgs(storage=storage, plan=cluster, cluster=created.outputs)
    on_aws = pulumi.ResourceOptions(providers=[created.outputs.provider], depends_on=[created])
    return EksFileSystems(f"{cluster.name}-storage", args, pulumi.ResourceOptions.merge(opts, on_aws)).parameters


def create_identities(
    created: EksCluster, cluster: EksClusterPlan, identities: EksIdentities, opts: pulumi.ResourceOptions
) -> Mapping[str, TeamIdentityOutputs]:
    """Create the teams' IAM roles. Return the outputs for each team."""
    args = EksTeamIdentitiesArgs(identities=identities, plan=cluster, cluster=created.outputs)
    on_aws = pulumi.ResourceOptions(providers=[created.outputs.provider], depends_on=[created])
    return EksTeamIdentities(f"{cluster.name}-identities", args, pulumi.ResourceOptions.merge(opts, on_aws)).teams


def _create_pools(
    created: EksCluster, cluster: EksClusterPlan, pools: Sequence[PoolPlan], opts: pulumi.ResourceOptions
) -> dict[str, list[pulumi.Resource]]:
    """Create all pools, after the controllers that create nodes. `opts` are the options of Kubernetes objects."""
    efa = cluster.efa_plugin
    plugins: list[pulumi.Resource] = [EfaDevicePlugin(efa.name, efa, opts)] if efa is not None else []
    if cluster.dranet is not None:
        plugins.append(EfaDraDriver(cluster.dranet.name, cluster.dranet, opts))
    resources: dict[str, list[pulumi.Resource]] = {
        pool.name: [*plugins, EksNodePool(pool.name, EksNodePoolArgs(pool=pool, cluster=created.outputs), opts)]
        for pool in pools
        if not isinstance(pool.cloud, KarpenterPoolPlan)
    }
    if cluster.cluster_autoscaler is not None:
        args = ClusterAutoscalerArgs(plan=cluster.cluster_autoscaler, cluster=created.outputs)
        ClusterAutoscaler(cluster.cluster_autoscaler.release.name, args, opts)
    outputs = created.karpenter_outputs
    if outputs is None:
        return resources
    controllers: list[KarpenterController] = []
    if cluster.karpenter is not None:
        args = KarpenterControllerArgs(plan=cluster.karpenter, cluster=outputs)
        controllers.append(KarpenterController("karpenter", args, opts))
    works = [controller.works for controller in controllers]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=works))
    for pool in pools:
        if isinstance(pool.cloud, KarpenterPoolPlan):
            node_pool = KarpenterNodePool(pool.name, KarpenterNodePoolArgs(pool=pool, cluster=outputs), after)
            resources[pool.name] = [*plugins, *controllers, node_pool]
    return resources
