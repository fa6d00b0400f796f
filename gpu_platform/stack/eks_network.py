"""Stack file fields of an EKS cluster: an existing network for a new cluster, and the company's rules for IAM
roles.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpu_platform.stack._types import SpecModel, Zone
from gpu_platform.stack.declared import SetsProperties

VpcId = Annotated[str, Field(pattern=r"^vpc-[0-9a-f]{8,17}$", examples=["vpc-0a1b2c3d4e5f60718"])]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]{8,17}$", examples=["subnet-0a1b2c3d4e5f60718"])]
RoleArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$", examples=["arn:aws:iam::123456789012:role/gpu"]
    ),
]
PolicyArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+$",
        examples=["arn:aws:iam::123456789012:policy/boundary"],
    ),
]


class EksNetwork(SpecModel):
    """An existing VPC for an EKS cluster that the program creates. The owner of the VPC manages its subnets,
    routes and NAT.
    """

    vpc: Annotated[VpcId, SetsProperties(eks=("vpc",), karpenter=("vpc",))]
    subnets: Annotated[
        dict[Zone, SubnetId],
        Field(min_length=1, max_length=20),
        SetsProperties(eks=("subnets",), karpenter=("subnets",)),
    ]
    """Private subnet of the nodes for each zone, with a route to the internet or to endpoints for all AWS
    services. Karpenter pools also need the IAM API. A VPC can have an endpoint for the IAM API only in the Region
    of IAM's control plane (us-east-1 for commercial Regions).
    """
    control_plane_subnets: Annotated[tuple[SubnetId, ...], Field(max_length=16)] = ()
    """Subnets in at least two zones for the network interfaces of the control plane. A /28 is enough for each
    subnet. By default, the node subnets are used.
    """
    pod_subnets: Annotated[dict[Zone, SubnetId], Field(max_length=20)] = {}
    """Subnet of the pods for every zone of `subnets`, usually in a secondary range of the VPC. A node needs a free
    /28 block of consecutive addresses for every 16 pods. If unset, pods receive addresses from the node subnets.
    """


class Iam(SpecModel):
    """How the program creates IAM roles, and which roles exist already."""

    path: Annotated[
        str, SetsProperties(eks=("node_role", "cluster_role"), karpenter=("node_role", "cluster_role"))
    ] = Field(default="/", pattern=r"^/([\w+=,.@-]+/)*$", examples=["/gpu-platform/"])
    """IAM path of all roles."""
    permissions_boundary: PolicyArn | None = None
    """ARN of the IAM policy that is the permissions boundary of all roles."""
    node_role: Annotated[RoleArn | None, SetsProperties(eks=("node_role",))] = None
    """An existing role for the nodes of managed node groups, with the policies that EKS nodes need. Karpenter
    nodes have a separate role that the program creates. EKS deletes a role's access entry together with the last
    node group that uses the role.
    """
