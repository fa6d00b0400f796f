"""Creates GKE node pools, their networks and installers in a user's program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pulumi

from components._cloud_sdk import components_of
from components.public._connection import Connection, NewPool, PoolNodes, missing_keys
from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.pools.section import PoolPlan

_NEEDED = {"node_service_account": "e-mail of the nodes' service account"}


def _pool_problems(pool: PoolPlan, cluster: Mapping[str, Any]) -> list[Problem]:
    assert isinstance(pool.cloud, GkePoolPlan)  # noqa: S101 - its pools are of this cloud
    return [*missing_keys(_NEEDED, cluster), *_network_problems(pool.cloud.gpu_networks, cluster)]


def _plugin_problems(plan: GkeClusterPlan, cluster: Mapping[str, Any]) -> list[Problem]:
    return _network_problems(len(plan.networks), cluster)


def _network_problems(needed: int, cluster: Mapping[str, Any]) -> list[Problem]:
    networks = len(cluster.get("gpu_networks") or ())
    if networks >= needed:
        return []
    return [
        Problem(
            "cluster.gpu_networks",
            f"{networks} networks" if networks else "nothing",
            f"network and subnetwork of each of the {needed} GPU NICs of a node",
            "add gpu_networks: to cluster, or write network: {rdma: false} in the pools",
        )
    ]


def _create_pool(new: NewPool) -> PoolNodes:
    components_of("gke")  # imports the SDK first, so that the error for a missing SDK names the extra
    import pulumi_gcp as gcp

    from components.gke.node_pool import GkeNodePool, GkeNodePoolArgs
    from components.gke.outputs import GkeOutputs

    plan: GkeClusterPlan = new.plan
    provider = new.component.get_provider("gcp:container/nodePool:NodePool") or gcp.Provider(
        new.name,
        project=plan.project,
        region=plan.region,
        opts=pulumi.ResourceOptions(parent=new.component),
    )
    full_name = f"projects/{plan.project}/locations/{plan.location}/clusters/{plan.name}"
    outputs = GkeOutputs(
        cluster=pulumi.Output.from_input(new.cluster.get("id") or full_name),
        network=pulumi.Output.from_input(""),
        node_service_account=pulumi.Output.from_input(new.cluster["node_service_account"]),
        gpu_networks=_joined_networks(new.cluster),
        provider=provider,
    )
    return GkeNodePool(new.pool.name, GkeNodePoolArgs(pool=new.pool, cluster=outputs), new.opts).node_pool, []


def _joined_networks(cluster: Mapping[str, Any]) -> tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]:
    return tuple(
        (pulumi.Output.from_input(one["network"]), pulumi.Output.from_input(one["subnetwork"]))
        for one in cluster.get("gpu_networks") or ()
    )


def _create_plugins(
    name: str, plan: GkeClusterPlan, cluster: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> None:
    from components.gke.installers import GkeInstallers
    from components.gke.networks import GkePodNetworks, GkePodNetworksArgs

    if plan.networks:
        joined = _joined_networks(cluster)[: len(plan.networks)]
        GkePodNetworks(f"{name}-gpu", GkePodNetworksArgs(networks=plan.networks, joined=joined), opts)
    if plan.installers:
        GkeInstallers(name, plan.installers, opts)


GKE: Final = Connection(
    keys=("id", *_NEEDED, "gpu_networks"),
    pool_problems=_pool_problems,
    create_pool=_create_pool,
    plugin_problems=_plugin_problems,
    create_plugins=_create_plugins,
)
