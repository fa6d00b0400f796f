"""Creates EKS node groups, Karpenter NodePools and plugins in a user's program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pulumi

from components._cloud_sdk import components_of
from components.public._connection import Connection, NewPool, PoolNodes, missing_keys
from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.pools.section import PoolPlan

if TYPE_CHECKING:
    from components.eks.outputs import EksOutputs

_NEEDED = {
    "subnets": "ids of the private subnets by zone",
    "cluster_security_group_id": "id of the security group that EKS created for the cluster",
    "node_role_arn": "ARN of the IAM role of the nodes",
}
_NEEDED_BY_OWN_IMAGE = {
    "endpoint": "URL of the API server, which nodes with a custom image read from their user data",
    "certificate_authority": "certificate authority of the API server, for the user data of a custom image",
    "service_cidr": "CIDR block of the Services, for the user data of a custom image",
}
_NEEDED_BY_EFA = {"efa_security_group_id": "id of a security group that admits all traffic from and to itself"}


def _pool_problems(pool: PoolPlan, cluster: Mapping[str, Any]) -> list[Problem]:
    cloud = pool.cloud
    assert isinstance(cloud, EksPoolPlan | KarpenterPoolPlan)  # noqa: S101 - its pools are of this cloud
    needed = dict(_NEEDED)
    if isinstance(cloud, EksPoolPlan) and cloud.user_data is not None and cloud.user_data.needs_cluster_access:
        needed |= _NEEDED_BY_OWN_IMAGE
    if cloud.efa:
        needed |= _NEEDED_BY_EFA
    return missing_keys(needed, cluster)


def _create_pool(new: NewPool) -> PoolNodes:
    components_of("eks")  # imports the SDK first, so that the error for a missing SDK names the extra
    import pulumi_aws as aws

    from components.eks.karpenter_node_pool import KarpenterNodePool, KarpenterNodePoolArgs
    from components.eks.node_pool import EksNodePool, EksNodePoolArgs

    plan: EksClusterPlan = new.plan
    pool = new.pool
    provider = new.component.get_provider("aws:eks/nodeGroup:NodeGroup") or aws.Provider(
        new.name,
        region=plan.region,
        allowed_account_ids=None if plan.account is None else [plan.account],
        default_tags=aws.ProviderDefaultTagsArgs(tags=plan.tags),
        opts=pulumi.ResourceOptions(parent=new.component),
    )
    outputs = _outputs(plan, new.cluster, provider)
    if isinstance(pool.cloud, KarpenterPoolPlan):
        return KarpenterNodePool(
            pool.name, KarpenterNodePoolArgs(pool=pool, cluster=outputs), new.opts
        ).node_pool, []
    return EksNodePool(pool.name, EksNodePoolArgs(pool=pool, cluster=outputs), new.opts).node_group_name, []


def _outputs(plan: EksClusterPlan, cluster: Mapping[str, Any], provider: pulumi.ProviderResource) -> EksOutputs:
    from components.eks.outputs import EksOutputs

    group = pulumi.Output.from_input(cluster["cluster_security_group_id"])
    role = pulumi.Output.from_input(cluster["node_role_arn"])
    efa: pulumi.Input[str] | None = cluster.get("efa_security_group_id")
    subnets = {zone: pulumi.Output.from_input(subnet) for zone, subnet in cluster["subnets"].items()}
    return EksOutputs(
        # EKS creates the security group together with the cluster.
        # A pool that waits for the security group therefore also waits for the cluster.
        name=group.apply(lambda _: plan.name),
        kubernetes=plan.kubernetes,
        endpoint=pulumi.Output.from_input(cluster.get("endpoint", "")),
        certificate_authority=pulumi.Output.from_input(cluster.get("certificate_authority", "")),
        service_cidr=pulumi.Output.from_input(cluster.get("service_cidr", "")),
        vpc_id=pulumi.Output.from_input(""),
        subnet_ids=subnets,
        all_subnet_ids=pulumi.Output.all(*subnets.values()),
        cluster_security_group_id=group,
        security_groups=tuple(cluster.get("security_groups") or ()),
        efa_security_group_id=None if efa is None else pulumi.Output.from_input(efa),
        node_role_arn=role,
        node_role_name=role.apply(lambda arn: arn.rpartition("/")[2]),
        provider=provider,
        tags=plan.tags,
    )


def _create_plugins(
    name: str, plan: EksClusterPlan, cluster: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> None:
    del name, cluster
    if plan.efa_plugin is not None:
        from components.eks.efa_plugin import EfaDevicePlugin

        EfaDevicePlugin(plan.efa_plugin.name, plan.efa_plugin, opts)
    if plan.dranet is not None:
        from components.eks.dranet import EfaDraDriver

        EfaDraDriver(plan.dranet.name, plan.dranet, opts)


EKS: Final = Connection(
    keys=("cluster_security_group_id", *_NEEDED_BY_EFA, "node_role_arn", *_NEEDED_BY_OWN_IMAGE),
    pool_problems=_pool_problems,
    create_pool=_create_pool,
    create_plugins=_create_plugins,
)
