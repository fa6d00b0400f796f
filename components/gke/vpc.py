"""`GkeVpc`: the VPC of a new GKE cluster, with NAT."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._options import child_options
from gpu_platform.planning.clouds.gke.egress import API_ADDRESSES, API_DOMAIN, API_HOST
from gpu_platform.planning.clouds.gke.plan import CreateGkePlan

PODS_RANGE = "pods"
SERVICES_RANGE = "services"
# The cluster is in one region, so routes to other regions are not needed.
_ROUTING_MODE = "REGIONAL"
# Nodes without public addresses reach Google's APIs and registries without NAT.
_PRIVATE_GOOGLE_ACCESS = True
# A node that pulls many images at once needs more ports than Cloud NAT's fixed 64.
# With 4096 ports per node, each NAT address serves 15 nodes, and Cloud NAT adds addresses itself.
# Dynamic port allocation cannot be combined with endpoint-independent mapping.
_NAT_DYNAMIC_PORTS = True
_NAT_MIN_PORTS = 64
_NAT_MAX_PORTS = 4096
_NAT_ENDPOINT_INDEPENDENT_MAPPING = False
_NAT_ADDRESSES = "AUTO_ONLY"
# Log only errors, which show that no ports are left.
# Address translations are too numerous to log.
_NAT_LOGS = "ERRORS_ONLY"
_DNS_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeVpcArgs:
    """Plan for the new cluster, and the project and region of the VPC."""

    create: CreateGkePlan
    project: str
    region: str


class GkeVpc(pulumi.ComponentResource):
    """A VPC with one subnet for nodes, pods and Services, private access to Google's APIs, NAT, and a firewall
    rule for webhooks.

    Outputs: `network` and `subnetwork`, their ids. `nat`, the NAT that private nodes use to pull images.
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
            routing_mode=_ROUTING_MODE,
            mtu=create.mtu,
            # A VPC keeps its MTU, because a change would interrupt every node of the cluster until it restarts.
            opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(ignore_changes=["mtu"])),
        )
        subnetwork = gcp.compute.Subnetwork(
            f"{create.network}-nodes",
            name=f"{create.network}-nodes",
            project=project,
            region=region,
            network=network.id,
            ip_cidr_range=create.nodes_cidr,
            private_ip_google_access=_PRIVATE_GOOGLE_ACCESS,
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
            nat_ip_allocate_option=_NAT_ADDRESSES,
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                gcp.compute.RouterNatSubnetworkArgs(name=subnetwork.id, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            enable_dynamic_port_allocation=_NAT_DYNAMIC_PORTS,
            min_ports_per_vm=_NAT_MIN_PORTS,
            max_ports_per_vm=_NAT_MAX_PORTS,
            enable_endpoint_independent_mapping=_NAT_ENDPOINT_INDEPENDENT_MAPPING,
            log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter=_NAT_LOGS),
            opts=child,
        )
        if create.private_apis:
            self._resolve_apis(args, network.id, child)
        gcp.compute.Firewall(
            f"{create.network}-webhooks",
            name=f"{create.network}-webhooks",
            project=project,
            network=network.id,
            source_ranges=[create.control_plane_cidr],
            allows=[gcp.compute.FirewallAllowArgs(protocol="tcp", ports=[*map(str, create.open_ports)])],
            opts=child,
        )
        self.network = network.id
        self.subnetwork = subnetwork.id
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})

    def _resolve_apis(self, args: GkeVpcArgs, network: pulumi.Input[str], opts: pulumi.ResourceOptions) -> None:
        """Resolve all names of Google's APIs to the addresses of private.googleapis.com."""
        name = f"{args.create.network}-apis"
        zone = gcp.dns.ManagedZone(
            name,
            name=name,
            project=args.project,
            dns_name=API_DOMAIN,
            description="Google's APIs by addresses that network policies can name.",
            visibility="private",
            private_visibility_config=gcp.dns.ManagedZonePrivateVisibilityConfigArgs(
                networks=[gcp.dns.ManagedZonePrivateVisibilityConfigNetworkArgs(network_url=network)]
            ),
            opts=opts,
        )
        for record, kind, values in (
            (API_HOST, "A", list(API_ADDRESSES)),
            (f"*.{API_DOMAIN}", "CNAME", [API_HOST]),
        ):
            gcp.dns.RecordSet(
                f"{name}-{kind.casefold()}",
                name=record,
                project=args.project,
                managed_zone=zone.name,
                type=kind,
                ttl=_DNS_SECONDS,
                rrdatas=values,
                opts=opts,
            )
