"""Components for an AKS cluster and its agent pools.

Only this package imports the Azure SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pulumi

from components._cloud import TeamIdentityOutputs
from components.aks.cluster import AksCluster
from components.aks.identities import AksTeamIdentities, AksTeamIdentitiesArgs
from components.aks.infiniband import AksInfiniband
from components.aks.node_pool import AksNodePool, AksNodePoolArgs
from components.aks.provider import azure_provider
from gpu_platform.planning.clouds.aks.identities import AksIdentities
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.planning.pools.section import PoolPlan


def build(
    cluster: AksClusterPlan, pools: Sequence[PoolPlan], opts: pulumi.ResourceOptions
) -> tuple[AksCluster, Callable[[pulumi.ResourceOptions], dict[str, list[pulumi.Resource]]]]:
    """Create the cluster. Return it with a function that creates its pools.

    The returned function takes the options of Kubernetes objects and returns, for each pool, the resources that
    create its nodes. `opts` are the options of the cluster.
    """
    provider = azure_provider(f"{cluster.name}-azure", cluster)
    on_azure = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
    created = AksCluster(cluster.name, cluster, on_azure)

    def create_pools(opts: pulumi.ResourceOptions) -> dict[str, list[pulumi.Resource]]:
        plan = cluster.infiniband
        plugins = [] if plan is None else [AksInfiniband("infiniband", plan, opts)]
        return {
            pool.name: [
                *plugins,
                AksNodePool(pool.name, AksNodePoolArgs(pool=pool, cluster=created.outputs), opts),
            ]
            for pool in pools
        }

    return created, create_pools


def create_identities(
    created: AksCluster, cluster: AksClusterPlan, identities: AksIdentities, opts: pulumi.ResourceOptions
) -> Mapping[str, TeamIdentityOutputs]:
    """Create the teams' managed identities. Return the outputs for each team."""
    args = AksTeamIdentitiesArgs(
        identities=identities, plan=cluster, cluster=created.outputs, issuer=created.issuer
    )
    on_azure = pulumi.ResourceOptions(providers=[created.outputs.provider], depends_on=[created])
    return AksTeamIdentities(
        f"{cluster.name}-identities", args, pulumi.ResourceOptions.merge(opts, on_azure)
    ).teams
