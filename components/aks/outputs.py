"""Outputs of an AKS cluster that other components need. All are unknown in the first preview."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi


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
