"""Outputs of cloud resources that other components need. All are unknown in the first preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeOutputs:
    """Outputs of a GKE cluster. Node pools depend on the resources in `ready`."""

    cluster: pulumi.Output[str]
    """Full name of the cluster, projects/P/locations/L/clusters/C."""
    network: pulumi.Output[str]
    """Id of the VPC that nodes and pods use, projects/P/global/networks/N."""
    node_service_account: pulumi.Output[str]
    """E-mail of the nodes' service account."""
    gpu_networks: tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]
    """Network and subnetwork of each GPU NIC, in order. Empty if no pool uses additional networks."""
    provider: pulumi.ProviderResource
    """Google Cloud provider for the cluster's project and region."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamIdentityOutputs:
    """The cloud resources of a team's identity.

    Its pods start after `resources` exist. `annotations` are the annotations of the service account whose values
    the cloud chooses.
    """

    resources: Sequence[pulumi.Resource]
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])


@dataclass(frozen=True, slots=True, kw_only=True)
class AksOutputs:
    """Outputs of an AKS cluster. Agent pools depend on the resources in `ready`."""

    cluster_id: pulumi.Output[str]
    """Resource ID of the cluster."""
    resource_group: pulumi.Output[str]
    """Name of the cluster's resource group."""
    region: str
    subnet_id: pulumi.Output[str | None]
    """Resource ID of the nodes' subnet, or None if AKS has created the network of an existing cluster."""
    provider: pulumi.ProviderResource
    """Azure provider for the cluster's subscription."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])
