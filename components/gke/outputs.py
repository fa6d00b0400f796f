"""Outputs of a GKE cluster that other components need. All are unknown in the first preview."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi


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
