"""What a cloud cluster hands to the components of its pools: outputs, all unknown in a first preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class EksOutputs:
    """An EKS cluster as its pools need it. `ready`: what must be there before a node may join."""

    name: pulumi.Output[str]
    kubernetes: str | None
    """Minor version, as the stack or the plan says it."""
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    """Base64 of the PEM, as EKS gives it."""
    service_cidr: pulumi.Output[str]
    vpc_id: pulumi.Output[str]
    subnet_ids: Mapping[str, pulumi.Output[str]]
    """Private subnet by zone: every zone that some pool names."""
    all_subnet_ids: pulumi.Output[list[str]]
    """Private subnets of all zones, for pools that name none."""
    cluster_security_group_id: pulumi.Output[str]
    security_groups: tuple[str, ...]
    """Ids of the groups that nodes carry beside the cluster's own."""
    efa_security_group_id: pulumi.Output[str] | None
    node_role_arn: pulumi.Output[str]
    node_role_name: pulumi.Output[str]
    provider: pulumi.ProviderResource
    """The AWS provider of the cluster's region and account."""
    tags: Mapping[str, str]
    """Of all that the stack makes: the provider does not hand them to what EC2 makes by a launch template."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeOutputs:
    """A GKE cluster as its pools need it. `ready`: what must be there before a pool may be made."""

    cluster: pulumi.Output[str]
    """Full name: projects/P/locations/L/clusters/C."""
    node_service_account: pulumi.Output[str]
    """E-mail of the nodes' service account."""
    gpu_networks: tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]
    """Network and subnetwork of each GPU NIC, in order; empty where no pool joins networks."""
    provider: pulumi.ProviderResource
    """The Google Cloud provider of the cluster's project and region."""
    ready: list[pulumi.Resource] = field(default_factory=list[pulumi.Resource])
