"""`EksVpc`: the VPC of a new EKS cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws

from components._options import child_options
from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.cluster_plan import ExistingVpcPlan, VpcPlan, ZoneSubnets
from gpu_platform.planning.clouds.eks.existing_cluster import SUBNET_TAG
from gpu_platform.planning.clouds.eks.vpc import check_control_plane_zones

PUBLIC_SUBNET_TAG = "kubernetes.io/role/elb"
_EVERYWHERE = "0.0.0.0/0"
# Nodes are in private subnets and need no public addresses.
# NAT gateways and load balancers have their own addresses.
_PUBLIC_ADDRESSES = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedVpc:
    """The VPC of a new cluster, either created or existing.

    `subnet_ids` are the private subnets of the nodes by zone. `pod_subnet_ids` are the subnets of the pods by
    zone, if pods have separate subnets. `control_plane` are the subnets of the control plane. Nodes wait for
    `routes`.
    """

    vpc_id: pulumi.Output[str]
    subnet_ids: Mapping[str, pulumi.Output[str]]
    pod_subnet_ids: Mapping[str, pulumi.Output[str]]
    control_plane: pulumi.Input[Sequence[pulumi.Input[str]]]
    routes: Sequence[pulumi.Resource]


def existing_vpc(plan: ExistingVpcPlan) -> JoinedVpc:
    """Return an existing VPC. The plan contains all its ids."""
    return JoinedVpc(
        vpc_id=pulumi.Output.from_input(plan.vpc),
        subnet_ids={zone: pulumi.Output.from_input(subnet) for zone, subnet in plan.subnets.items()},
        pod_subnet_ids={zone: pulumi.Output.from_input(subnet) for zone, subnet in plan.pod_subnets.items()},
        control_plane=plan.control_plane_subnets,
        routes=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EksVpcArgs:
    """Plan for the VPC, its region, and whether the engine protects it from deletion."""

    plan: VpcPlan
    region: str
    protect: bool


class EksVpc(pulumi.ComponentResource):
    """A VPC with a private and a public subnet in each zone, NAT gateways, and a gateway endpoint for S3.

    If pods have a separate address range, each zone has a third subnet with the routes of the private subnet. The
    default security group has no rules, so a resource without a security group has no access.

    `routes` are the routes of the nodes. Outputs: `vpc_id`, `private_subnet_ids`.
    """

    vpc_id: pulumi.Output[str]
    private_subnet_ids: dict[str, pulumi.Output[str]]
    """Ids of the private subnets by zone."""
    pod_subnet_ids: dict[str, pulumi.Output[str]]
    """Ids of the pods' subnets by zone. Empty if pods share the private subnets."""
    routes: list[pulumi.Resource]

    @property
    def joined(self) -> JoinedVpc:
        """Return the VPC in the form that a cluster needs."""
        return JoinedVpc(
            vpc_id=self.vpc_id,
            subnet_ids=self.private_subnet_ids,
            pod_subnet_ids=self.pod_subnet_ids,
            control_plane=self._control_plane,
            routes=self.routes,
        )

    def __init__(self, name: str, args: EksVpcArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksVpc", name, None, opts)
        plan, region, protect = args.plan, args.region, args.protect
        self._name = name
        self._keeps = protect  # the SDK already has a `_protect` attribute, which children inherit
        self._child = pulumi.ResourceOptions(parent=self)
        vpc = self._create_vpc(plan, child_options(self, opts))
        self.vpc_id = vpc.id
        self._close_default_security_group()
        gateway = aws.ec2.InternetGateway(name, vpc_id=vpc.id, tags={"Name": name}, opts=self._child)
        self.private_subnet_ids = {}
        self.pod_subnet_ids = {}
        self._zone_ids: list[pulumi.Output[str]] = []
        self.routes = []
        public = self._create_public_subnets(plan, gateway)
        nats = self._create_nats(plan, public, gateway)
        tables = [self._create_private_subnet(subnets, nats) for subnets in plan.zones]
        if plan.pods_cidr is not None:
            self._create_pod_subnets(plan, plan.pods_cidr, tables)
        self.routes.append(self._create_s3_endpoint(region, tables))
        self._control_plane = self._control_plane_subnets(plan)
        self.register_outputs({"vpc_id": self.vpc_id, "private_subnet_ids": self.private_subnet_ids})

    def _create_vpc(self, plan: VpcPlan, opts: pulumi.ResourceOptions) -> aws.ec2.Vpc:
        opts.protect = self._keeps
        return aws.ec2.Vpc(
            self._name,
            cidr_block=plan.cidr,
            # Nodes resolve the API server's private endpoint with the VPC's DNS.
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags={"Name": self._name},
            opts=opts,
        )

    def _close_default_security_group(self) -> None:
        aws.ec2.DefaultSecurityGroup(
            f"{self._name}-default", vpc_id=self.vpc_id, ingress=[], egress=[], opts=self._child
        )

    def _create_public_subnets(self, plan: VpcPlan, gateway: aws.ec2.InternetGateway) -> dict[str, aws.ec2.Subnet]:
        table = aws.ec2.RouteTable(
            f"{self._name}-public",
            vpc_id=self.vpc_id,
            routes=[aws.ec2.RouteTableRouteArgs(cidr_block=_EVERYWHERE, gateway_id=gateway.id)],
            tags={"Name": f"{self._name}-public"},
            opts=self._child,
        )
        subnets: dict[str, aws.ec2.Subnet] = {}
        for zone in plan.zones:
            name = f"{self._name}-public-{zone.zone}"
            subnets[zone.zone] = aws.ec2.Subnet(
                name,
                vpc_id=self.vpc_id,
                availability_zone=zone.zone,
                cidr_block=zone.public_cidr,
                map_public_ip_on_launch=_PUBLIC_ADDRESSES,
                tags={"Name": name, PUBLIC_SUBNET_TAG: "1"},
                opts=self._child,
            )
            # NAT gateways need this route to the internet.
            # If nodes did not depend on the route, `destroy` would delete it while they are draining.
            self.routes.append(
                aws.ec2.RouteTableAssociation(
                    name, subnet_id=subnets[zone.zone].id, route_table_id=table.id, opts=self._child
                )
            )
        return subnets

    def _create_nats(
        self, plan: VpcPlan, public: dict[str, aws.ec2.Subnet], gateway: aws.ec2.InternetGateway
    ) -> dict[str, aws.ec2.NatGateway]:
        """Create a NAT gateway for each zone, or one for all zones with `nat: one`. Return them by zone."""
        zones = [zone.zone for zone in plan.zones]
        nats = {zone: self._create_nat(zone, public[zone], gateway) for zone in plan.nat_zones}
        return {zone: nats.get(zone, nats[zones[0]]) for zone in zones}

    def _create_nat(
        self, zone: str, subnet: aws.ec2.Subnet, gateway: aws.ec2.InternetGateway
    ) -> aws.ec2.NatGateway:
        name = f"{self._name}-{zone}"
        after = pulumi.ResourceOptions(parent=self, depends_on=[gateway])
        address = aws.ec2.Eip(name, domain="vpc", tags={"Name": name}, opts=after)
        return aws.ec2.NatGateway(
            name, allocation_id=address.id, subnet_id=subnet.id, tags={"Name": name}, opts=after
        )

    def _create_private_subnet(self, zone: ZoneSubnets, nats: dict[str, aws.ec2.NatGateway]) -> aws.ec2.RouteTable:
        name = f"{self._name}-private-{zone.zone}"
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc_id,
            availability_zone=zone.zone,
            cidr_block=zone.private_cidr,
            map_public_ip_on_launch=_PUBLIC_ADDRESSES,
            tags={"Name": name, SUBNET_TAG: "1"},
            # The control plane has interfaces in these subnets, so they must stay even if their zone has no pools.
            opts=pulumi.ResourceOptions(parent=self, protect=self._keeps),
        )
        table = aws.ec2.RouteTable(
            name,
            vpc_id=self.vpc_id,
            routes=[aws.ec2.RouteTableRouteArgs(cidr_block=_EVERYWHERE, nat_gateway_id=nats[zone.zone].id)],
            tags={"Name": name},
            opts=self._child,
        )
        self.private_subnet_ids[zone.zone] = subnet.id
        self._zone_ids.append(subnet.availability_zone_id)
        self.routes.append(
            aws.ec2.RouteTableAssociation(name, subnet_id=subnet.id, route_table_id=table.id, opts=self._child)
        )
        return table

    def _create_pod_subnets(self, plan: VpcPlan, cidr: str, tables: Sequence[aws.ec2.RouteTable]) -> None:
        """Create the secondary CIDR block, and the pod subnet in each zone."""
        name = f"{self._name}-pods"
        extended = aws.ec2.VpcIpv4CidrBlockAssociation(name, vpc_id=self.vpc_id, cidr_block=cidr, opts=self._child)
        after = pulumi.ResourceOptions(parent=self, depends_on=[extended])
        for zone, table in zip(plan.zones, tables, strict=True):
            of_zone = f"{name}-{zone.zone}"
            subnet = aws.ec2.Subnet(
                of_zone,
                vpc_id=self.vpc_id,
                availability_zone=zone.zone,
                cidr_block=zone.pods_cidr,
                map_public_ip_on_launch=_PUBLIC_ADDRESSES,
                tags={"Name": of_zone},
                opts=after,
            )
            self.pod_subnet_ids[zone.zone] = subnet.id
            self.routes.append(
                aws.ec2.RouteTableAssociation(
                    of_zone, subnet_id=subnet.id, route_table_id=table.id, opts=self._child
                )
            )

    def _control_plane_subnets(self, plan: VpcPlan) -> pulumi.Input[Sequence[pulumi.Input[str]]]:
        """Return the private subnets for the control plane. EKS does not accept subnets in every zone."""
        subnets = list(self.private_subnet_ids.values())
        if not plan.no_control_plane:
            return subnets
        known = pulumi.Output.all(ids=subnets, zones=self._zone_ids)
        return known.apply(partial(_accepted_subnets, plan))

    def _create_s3_endpoint(self, region: str, tables: list[aws.ec2.RouteTable]) -> aws.ec2.VpcEndpoint:
        """Create the S3 endpoint. Datasets and image layers come from S3, and NAT is billed per gigabyte."""
        return aws.ec2.VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=self.vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{region}.s3",
            route_table_ids=[table.id for table in tables],
            tags={"Name": f"{self._name}-s3"},
            opts=self._child,
        )


def _accepted_subnets(plan: VpcPlan, known: Mapping[str, Any]) -> list[str]:
    """Return the subnets in zones that can have a control plane. `known` contains the ids of subnets and zones."""
    problems = check_control_plane_zones(plan, known["zones"])
    if problems:
        raise pulumi.RunError(str(BadInput("zones of the new cluster", problems)))
    by_zone = zip(known["ids"], known["zones"], strict=True)
    return [subnet for subnet, zone in by_zone if zone not in plan.no_control_plane]
