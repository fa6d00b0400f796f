"""`GkeGpuNetworks` and `GkePodNetworks`: VPCs for GPU NICs, and Kubernetes networks that connect pods to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.clouds.gke.plan import GpuNetwork

_GROUP = "networking.gke.io"
# All nodes of a cluster that have GPU NICs are in one region.
_ROUTING_MODE = "REGIONAL"
# NCCL uses any TCP and UDP ports between nodes. ICMP is needed for path MTU discovery.
_PROTOCOLS = ("tcp", "udp", "icmp")

JoinedNetworks = tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]
"""Network and subnetwork of each GPU NIC, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuNetworksArgs:
    """The networks, and their project and region."""

    networks: Sequence[GpuNetwork]
    project: str
    region: str


class GkeGpuNetworks(pulumi.ComponentResource):
    """VPCs and subnets for GPU NICs. The nodes in each VPC can reach each other without restrictions.

    `joined` contains the network and subnetwork of each GPU NIC, in order.

    Outputs: `subnets`, the names of the subnets.
    """

    joined: JoinedNetworks

    def __init__(self, name: str, args: GkeGpuNetworksArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeGpuNetworks", name, None, opts)
        networks, project, region = args.networks, args.project, args.region
        self._child = child_options(self, opts)
        self._project = project
        self._region = region
        vpcs: dict[str, gcp.compute.Network] = {}
        joined: list[tuple[pulumi.Output[str], pulumi.Output[str]]] = []
        for network in networks:
            if network.vpc not in vpcs:
                vpcs[network.vpc] = self._create_vpc(network)
            vpc = vpcs[network.vpc]
            joined.append((vpc.name, self._create_subnet(network, vpc).name))
        self.joined = tuple(joined)
        self.register_outputs({"subnets": [subnet for _, subnet in self.joined]})

    def _create_vpc(self, network: GpuNetwork) -> gcp.compute.Network:
        profile = network.network_profile
        vpc = gcp.compute.Network(
            network.vpc,
            name=network.vpc,
            project=self._project,
            auto_create_subnetworks=False,
            routing_mode=_ROUTING_MODE,
            mtu=network.mtu,
            network_profile=f"projects/{self._project}/global/networkProfiles/{profile}" if profile else None,
            opts=self._child,
        )
        if profile is None:
            gcp.compute.Firewall(
                f"{network.vpc}-internal",
                name=f"{network.vpc}-internal",
                project=self._project,
                network=vpc.id,
                direction="INGRESS",
                source_ranges=[network.cidr],
                allows=[gcp.compute.FirewallAllowArgs(protocol=protocol) for protocol in _PROTOCOLS],
                opts=self._child,
            )
        return vpc

    def _create_subnet(self, network: GpuNetwork, vpc: gcp.compute.Network) -> gcp.compute.Subnetwork:
        return gcp.compute.Subnetwork(
            network.subnet,
            name=network.subnet,
            project=self._project,
            region=self._region,
            network=vpc.id,
            ip_cidr_range=network.cidr,
            opts=self._child,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkePodNetworksArgs:
    """Plans for the networks, and the VPC network and subnetwork for each plan, in the same order."""

    networks: Sequence[GpuNetwork]
    joined: JoinedNetworks


class GkePodNetworks(pulumi.ComponentResource):
    """A Kubernetes `Network` of type Device for each GPU network, and the GKENetworkParamSet that it refers to.

    Outputs: `networks`, the names that pods request with the annotation networking.gke.io/interfaces.
    """

    networks: pulumi.Output[list[str]]

    def __init__(self, name: str, args: GkePodNetworksArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkePodNetworks", name, None, opts)
        networks, joined = args.networks, args.joined
        child = child_options(self, opts)
        for network, (vpc, subnet) in zip(networks, joined, strict=True):
            metadata = {"name": network.kubernetes_network}
            parameters = KubernetesObject(
                f"{network.kubernetes_network}-parameters",
                f"{f'{_GROUP}/v1'}/GKENetworkParamSet",
                metadata=metadata,
                spec={"vpc": vpc, "vpcSubnet": subnet, "deviceMode": network.device_mode},
                opts=child,
            )
            reference = {"group": _GROUP, "kind": "GKENetworkParamSet", "name": network.kubernetes_network}
            KubernetesObject(
                network.kubernetes_network,
                f"{f'{_GROUP}/v1'}/Network",
                metadata=metadata,
                spec={"type": "Device", "parametersRef": reference},
                opts=pulumi.ResourceOptions(parent=self, depends_on=[parameters]),
            )
        self.networks = pulumi.Output.from_input([network.kubernetes_network for network in networks])
        self.register_outputs({"networks": self.networks})
