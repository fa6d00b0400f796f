"""GPU node pools on an existing AKS cluster. The program looks up the cluster and passes its Outputs as arguments.

Configuration: `subscription`; `group`, the resource group; `cluster`, the cluster's name; `region`; `team`, the
object ID of the team's Entra ID group; `context`, a context of the kubeconfig. If `context` is unset, the current
context is used.
"""

import sys
from pathlib import Path

import pulumi
import pulumi_azure as azure
import pulumi_kubernetes as k8s

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout of gpu-platform
from components import (
    GpuNodePool,
    GpuNodePoolArgs,
    GpuOperator,
    GpuOperatorArgs,
    GpuTeam,
    GpuTeamArgs,
    GpuValidation,
    GpuValidationArgs,
)
from components.public.types import GpuCluster

config = pulumi.Config()
name, group, subscription = config.require("cluster"), config.require("group"), config.require("subscription")

provider = azure.Provider(
    "azure",
    subscription_id=subscription,
    resource_provider_registrations="none",
    # Without this, the provider forgets a pool whose creation fails after Azure has accepted the request. The pool
    # then stays in Azure, and Pulumi cannot create another pool with its name.
    features=azure.ProviderFeaturesArgs(persist_id_on_create_before_polling_for_completion=True),
)
aks = azure.containerservice.get_kubernetes_cluster_output(
    name=name, resource_group_name=group, opts=pulumi.InvokeOutputOptions(provider=provider)
)

# All components use the same cluster arguments.
# Name, region and version are plain values, because planning depends on them.
cluster: GpuCluster = {
    "provider": "aks",
    "name": name,
    "subscription": subscription,
    "resource_group": group,
    "region": config.require("region"),
    "kubernetes": "1.35",
    "id": aks.id,
    "subnet_id": aks.agent_pool_profiles[0].vnet_subnet_id,
}
on_azure = pulumi.ResourceOptions(providers=[provider])

train = GpuNodePool(
    "train",
    GpuNodePoolArgs(
        cluster=cluster,
        machine_type="Standard_ND96isr_H100_v5",
        count={"desired": 2},
        zones=["1"],
        placement={"type": "proximity"},
        workload="training",
    ),
    on_azure,
)
develop = GpuNodePool(
    "develop",
    GpuNodePoolArgs(
        cluster=cluster,
        machine_type="Standard_NC16as_T4_v3",
        count={"min": 0, "desired": 0, "max": 4},
        capacity={"type": "spot"},
        workload="development",
    ),
    on_azure,
)
pools = [train.pool, develop.pool]

# Use the kubeconfig that `az aks get-credentials` writes.
in_cluster = pulumi.ResourceOptions(providers=[k8s.Provider("cluster", context=config.get("context"))])
operator = GpuOperator("gpu-operator", GpuOperatorArgs(cluster=cluster, pools=pools), in_cluster)
validated = GpuValidation(
    "gpu-validation",
    GpuValidationArgs(cluster=cluster, pools=pools, timeout="30m"),
    pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(depends_on=[train, develop, operator])),
)
vision = GpuTeam(
    "vision",
    GpuTeamArgs(
        cluster=cluster,
        pools=pools,
        quota={"gpus": 16, "cpu": 96, "memory": "1Ti"},
        priority="training",
        members=[f"group:{config.require('team')}"],
    ),
    pulumi.ResourceOptions.merge(in_cluster, pulumi.ResourceOptions(depends_on=[validated])),
)

pulumi.export("agentPool", train.node_pool_name)
pulumi.export("resources", train.resources)
pulumi.export("namespace", vision.namespace)
