"""`AksNetwork`: the virtual network of a new AKS cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_azure as azure

from components._options import child_options
from gpu_platform.planning.clouds.aks.names import SUBNET
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan, CreateAksPlan

# Shares of Azure Files over NFS admit only subnets with this endpoint.
_STORAGE_ENDPOINT = "Microsoft.Storage"
# Nodes reach the internet only through the load balancer of AKS.
_DEFAULT_OUTBOUND = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AksNetworkArgs:
    """Plans for the cluster, and its resource group."""

    plan: AksClusterPlan
    create: CreateAksPlan
    resource_group: pulumi.Input[str]


class AksNetwork(pulumi.ComponentResource):
    """A virtual network with one subnet for all nodes. Pods have addresses of the overlay.

    Outputs: `subnet_id`, the resource ID of the subnet.
    """

    subnet_id: pulumi.Output[str]

    def __init__(self, name: str, args: AksNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:AksNetwork", name, None, opts)
        child = child_options(self, opts)
        network = azure.network.VirtualNetwork(
            name,
            name=name,
            location=args.plan.region,
            resource_group_name=args.resource_group,
            address_spaces=[args.create.nodes_cidr],
            tags=args.plan.tags,
            opts=child,
        )
        subnet = azure.network.Subnet(
            f"{name}-nodes",
            name=SUBNET,
            resource_group_name=args.resource_group,
            virtual_network_name=network.name,
            address_prefixes=[args.create.nodes_cidr],
            default_outbound_access_enabled=_DEFAULT_OUTBOUND,
            service_endpoints=[_STORAGE_ENDPOINT] if args.create.nfs_driver else None,
            opts=child,
        )
        self.subnet_id = subnet.id
        self.register_outputs({"subnet_id": self.subnet_id})
