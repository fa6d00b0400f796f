"""Outputs of an EKS cluster that other components need. All are unknown in the first preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class EksOutputs:
    """Outputs of an EKS cluster. Nodes depend on the resources in `ready`."""

    name: pulumi.Output[str]
    kubernetes: str | None
    """Planned minor version of Kubernetes."""
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    """Certificate of the cluster's certificate authority, as base64-encoded PEM (the format that EKS returns)."""
    service_cidr: pulumi.Output[str]
    vpc_id: pulumi.Output[str]
    subnet_ids: Mapping[str, pulumi.Output[str]]
    """Ids of the private subnets by zone, for the zones that pools name."""
    all_subnet_ids: pulumi.Output[list[str]]
    """Ids of the private subnets in all zones, for pools that specify no zone."""
    cluster_security_group_id: pulumi.Output[str]
    security_groups: tuple[str, ...]
    """Ids of the node security groups in addition to the cluster security group."""
    efa_security_group_id: pulumi.Output[str] | None
    node_role_arn: pulumi.Output[str]
    node_role_name: pulumi.Output[str]
    provider: pulumi.ProviderResource
    """AWS provider for the cluster's region and account."""
    tags: Mapping[str, str]
    """Tags of every resource. EC2 does not apply default tags to resources created from a launch template."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])
