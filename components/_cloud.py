"""Outputs of a cloud cluster that the components of its pools take; all unknown in a first preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class EksOutputs:
    """Outputs of an EKS cluster. `ready`: resources that nodes depend on."""

    name: pulumi.Output[str]
    kubernetes: str | None
    """Minor version of the plan."""
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    """Base64 of the PEM, as EKS gives it."""
    service_cidr: pulumi.Output[str]
    vpc_id: pulumi.Output[str]
    subnet_ids: Mapping[str, pulumi.Output[str]]
    """Private subnet of each zone that a pool names."""
    all_subnet_ids: pulumi.Output[list[str]]
    """Private subnets of all zones, for pools that name none."""
    cluster_security_group_id: pulumi.Output[str]
    security_groups: tuple[str, ...]
    """Ids of the security groups of nodes beside the cluster's own."""
    efa_security_group_id: pulumi.Output[str] | None
    node_role_arn: pulumi.Output[str]
    node_role_name: pulumi.Output[str]
    provider: pulumi.ProviderResource
    """The AWS provider of the cluster's region and account."""
    tags: Mapping[str, str]
    """Tags of every resource: what EC2 creates from a launch template gets no default tags."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeOutputs:
    """Outputs of a GKE cluster. `ready`: resources that node pools depend on."""

    cluster: pulumi.Output[str]
    """Full name: projects/P/locations/L/clusters/C."""
    network: pulumi.Output[str]
    """Id of the VPC of nodes and pods: projects/P/global/networks/N."""
    node_service_account: pulumi.Output[str]
    """E-mail of the nodes' service account."""
    gpu_networks: tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]
    """Network and subnetwork of each GPU NIC, in order; empty where no pool joins networks."""
    provider: pulumi.ProviderResource
    """The Google Cloud provider of the cluster's project and region."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])
