"""Components for a GKE cluster and its GPU node pools.

Only this package and `components/public/_gke.py` import the Google Cloud SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pulumi
import pulumi_gcp as gcp

from components._cloud import TeamIdentityOutputs
from components.gke.cluster import GkeCluster
from components.gke.compute_class import GkeComputeClass, GkeComputeClassArgs
from components.gke.identities import GkeTeamIdentities, GkeTeamIdentitiesArgs
from components.gke.node_pool import GkeNodePool, GkeNodePoolArgs
from components.gke.storage import GkeFileSystems, GkeFileSystemsArgs
from components.storage import ClassParameters
from gpu_platform.planning.clouds.gke.identities import GkeIdentities
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage
from gpu_platform.planning.pools.section import PoolPlan


def build(
    cluster: GkeClusterPlan, pools: Sequence[PoolPlan], opts: pulumi.ResourceOptions
) -> tuple[GkeCluster, Callable[[pulumi.ResourceOptions], dict[str, list[pulumi.Resource]]]]:
    """Create the cluster. Return it with a function that creates its pools.

    The returned function takes the options of Kubernetes objects and returns, for each pool, the resources that
    create its nodes. `opts` are the options of the cluster.
    """
    google = gcp.Provider(
        f"{cluster.name}-google",
        project=cluster.project,
        region=cluster.region,
        impersonate_service_account=cluster.impersonate,
    )
    on_google = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[google]))
    created = GkeCluster(cluster.name, cluster, on_google)

    def create_pools(opts: pulumi.ResourceOptions) -> dict[str, list[pulumi.Resource]]:
        node_pools = {
            pool.name: GkeNodePool(pool.name, GkeNodePoolArgs(pool=pool, cluster=created.outputs), opts)
            for pool in pools
        }
        for plan in cluster.compute_classes:
            names = [node_pools[name].node_pool for name in plan.pools]
            GkeComputeClass(plan.name, GkeComputeClassArgs(plan=plan, node_pools=names), opts)
        return {name: [node_pool] for name, node_pool in node_pools.items()}

    return created, create_pools


def create_storage(
    created: GkeCluster, cluster: GkeClusterPlan, storage: GkeStorage, opts: pulumi.ResourceOptions
) -> ClassParameters:
    """Connect the network to file systems. Return the storage class parameters that depend on the network."""
    args = GkeFileSystemsArgs(storage=storage, plan=cluster, cluster=created.outputs)
    on_google = pulumi.ResourceOptions(providers=[created.outputs.provider], depends_on=[created])
    return GkeFileSystems(
        f"{cluster.name}-storage", args, pulumi.ResourceOptions.merge(opts, on_google)
    ).parameters


def create_identities(
    created: GkeCluster, cluster: GkeClusterPlan, identities: GkeIdentities, opts: pulumi.ResourceOptions
) -> Mapping[str, TeamIdentityOutputs]:
    """Create the teams' IAM roles. Return the outputs for each team."""
    args = GkeTeamIdentitiesArgs(identities=identities, plan=cluster, cluster=created.outputs)
    on_google = pulumi.ResourceOptions(providers=[created.outputs.provider], depends_on=[created])
    return GkeTeamIdentities(
        f"{cluster.name}-identities", args, pulumi.ResourceOptions.merge(opts, on_google)
    ).teams
