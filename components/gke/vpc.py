"""`GkeVpc`: the network of a new cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._options import child_options
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan

PODS_RANGE = "pods"
SERVICES_RANGE = "services"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeVpcArgs:
    """What the cluster is created with, and the project and region that the VPC is created in."""

    create: CreateGkePlan
    project: str
    region: str


class GkeVpc(pulumi.ComponentResource):
    """A VPC with one subnet: ranges for nodes, pods and services, private access to Google's APIs, and NAT.

    Outputs: `network` and `subnetwork`, their ids. `nat` is what private nodes need to pull images.
    """

    network: pulumi.Output[str]
    subnetwork: pulumi.Output[str]
    nat: pulumi.Resource

    def __init__(self, name: str, args: GkeVpcArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeVpc", name, None, opts)
        create, project, region = args.create, args.project, args.region
        child = child_options(self, opts)
        network = gcp.compute.Network(
            create.network,
            name=create.network,
            project=project,
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        subnetwork = gcp.compute.Subnetwork(
            f"{create.network}-nodes",
            name=f"{create.network}-nodes",
            project=project,
            region=region,
            network=network.id,
            ip_cidr_range=create.nodes_cidr,
            private_ip_google_access=True,
            secondary_ip_ranges=[
                gcp.compute.SubnetworkSecondaryIpRangeArgs(range_name=PODS_RANGE, ip_cidr_range=create.pods_cidr),
                gcp.compute.SubnetworkSecondaryIpRangeArgs(
                    range_name=SERVICES_RANGE, ip_cidr_range=create.services_cidr
                ),
            ],
            opts=child,
        )
        router = gcp.compute.Router(
            f"{create.network}-router",
            name=f"{create.network}-router",
            project=project,
            region=region,
            network=network.id,
            opts=child,
        )
        self.nat = gcp.compute.RouterNat(
            f"{create.network}-nat",
            name=f"{create.network}-nat",
            project=project,
            region=region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                gcp.compute.RouterNatSubnetworkArgs(name=subnetwork.id, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            # Many pulls at once from one node need more ports than the fixed 64.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=64,
            max_ports_per_vm=4096,
            enable_endpoint_independent_mapping=False,
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.network = network.id
        self.subnetwork = subnetwork.id
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})
