"""`GkeFileSystems`: the network access of file systems behind the storage classes of a GKE cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._cloud import GkeOutputs
from components._options import child_options
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage

_SERVICE = "servicenetworking.googleapis.com"
# Managed Lustre takes a /23 for each instance, and the range cannot grow.
_RANGE_PREFIX = 20
# 988 is Lustre's own; GKE's driver uses 6988 beside GKE's metadata server, which has 988.
_LUSTRE_PORTS = ["988", "6988"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeFileSystemsArgs:
    """The plan of storage, the cluster's plan, and the cluster itself."""

    storage: GkeStorage
    plan: GkeClusterPlan
    cluster: GkeOutputs


class GkeFileSystems(pulumi.ComponentResource):
    """Private services access of a created network, by which nodes reach Managed Lustre.

    Outputs: `parameters`, by storage class: the parameters that are known only after the deploy.
    """

    parameters: Mapping[str, Mapping[str, pulumi.Input[str]]]

    def __init__(self, name: str, args: GkeFileSystemsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeFileSystems", name, None, opts)
        storage, cluster = args.storage, args.cluster
        if storage.private_access is not None:
            self._connect(storage.private_access, args, child_options(self, opts))
        self.parameters = {one: {"network": cluster.network} for one in storage.in_network}
        self.register_outputs({"parameters": self.parameters})

    def _connect(self, name: str, args: GkeFileSystemsArgs, child: pulumi.ResourceOptions) -> None:
        addresses = gcp.compute.GlobalAddress(
            name,
            name=name,
            project=args.plan.project,
            network=args.cluster.network,
            purpose="VPC_PEERING",
            address_type="INTERNAL",
            prefix_length=_RANGE_PREFIX,
            opts=child,
        )
        gcp.servicenetworking.Connection(
            name,
            network=args.cluster.network,
            service=_SERVICE,
            reserved_peering_ranges=[addresses.name],
            opts=child,
        )
        gcp.compute.Firewall(
            name,
            name=name,
            project=args.plan.project,
            network=args.cluster.network,
            direction="INGRESS",
            allows=[gcp.compute.FirewallAllowArgs(protocol="tcp", ports=_LUSTRE_PORTS)],
            source_ranges=[pulumi.Output.concat(addresses.address, f"/{_RANGE_PREFIX}")],
            opts=child,
        )
