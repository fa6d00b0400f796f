"""Components for an AKS cluster and its agent pools.

Only this package and `components/public/_cluster.py` import the Azure SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pulumi
import pulumi_azure as azure

from components.aks.cluster import AksCluster
from components.aks.node_pool import AksNodePool, AksNodePoolArgs
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan
from gpu_platform.planning.pools.section import PoolPlan

# The owner of the subscription registers resource providers, so that `up` needs no permission to do so.
_REGISTRATIONS = "none"


def build(
    cluster: AksClusterPlan, pools: Sequence[PoolPlan], opts: pulumi.ResourceOptions
) -> tuple[AksCluster, Callable[[pulumi.ResourceOptions], dict[str, list[pulumi.Resource]]]]:
    """Create the cluster. Return it with a function that creates its pools.

    The returned function takes the options of Kubernetes objects and returns, for each pool, the resources that
    create its nodes. `opts` are the options of the cluster.
    """
    provider = azure.Provider(
        f"{cluster.name}-azure",
        subscription_id=cluster.subscription,
        resource_provider_registrations=_REGISTRATIONS,
    )
    on_azure = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
    created = AksCluster(cluster.name, cluster, on_azure)

    def create_pools(opts: pulumi.ResourceOptions) -> dict[str, list[pulumi.Resource]]:
        return {
            pool.name: [AksNodePool(pool.name, AksNodePoolArgs(pool=pool, cluster=created.outputs), opts)]
            for pool in pools
        }

    return created, create_pools
