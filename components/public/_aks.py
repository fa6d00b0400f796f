"""Creates AKS agent pools in a user's program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pulumi

from components._cloud_sdk import components_of
from components.public._connection import Connection, NewPool, PoolNodes
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan


def _create_pool(new: NewPool) -> PoolNodes:
    components_of("aks")  # imports the SDK first, so that the error for a missing SDK names the extra
    from components.aks.node_pool import AksNodePool, AksNodePoolArgs
    from components.aks.outputs import AksOutputs
    from components.aks.provider import azure_provider

    plan: AksClusterPlan = new.plan
    provider = new.component.get_provider(
        "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
    ) or azure_provider(new.name, plan, pulumi.ResourceOptions(parent=new.component))
    resource_id = (
        f"/subscriptions/{plan.subscription}/resourceGroups/{plan.resource_group}"
        f"/providers/Microsoft.ContainerService/managedClusters/{plan.name}"
    )
    outputs = AksOutputs(
        cluster_id=pulumi.Output.from_input(new.cluster.get("id") or resource_id),
        resource_group=pulumi.Output.from_input(plan.resource_group),
        region=plan.region,
        subnet_id=pulumi.Output.from_input(new.cluster.get("subnet_id")),
        provider=provider,
    )
    return AksNodePool(new.pool.name, AksNodePoolArgs(pool=new.pool, cluster=outputs), new.opts).agent_pool, []


def _create_plugins(
    name: str, plan: AksClusterPlan, cluster: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> None:
    del name, cluster
    if plan.infiniband is not None:
        from components.aks.infiniband import AksInfiniband

        AksInfiniband("infiniband", plan.infiniband, opts)


AKS: Final = Connection(keys=("id", "subnet_id"), create_pool=_create_pool, create_plugins=_create_plugins)
