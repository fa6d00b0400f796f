"""`GkeFileSystems`: network access to file systems, and the teams' IAM roles on buckets."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._options import child_options
from components.gke.outputs import GkeOutputs
from components.storage import ClassParameters
from gpu_platform.planning.clouds.gke.existing_file_systems import LUSTRE_PORTS
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan
from gpu_platform.planning.clouds.gke.storage import GkeStorage, filestore_network

_SERVICE = "servicenetworking.googleapis.com"
# Managed Lustre uses a /23 for each instance, and the range cannot grow.
_RANGE_PREFIX = 20
_BELOW = "below the prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeFileSystemsArgs:
    """The storage plan, the cluster plan, and the cluster itself."""

    storage: GkeStorage
    plan: GkeClusterPlan
    cluster: GkeOutputs


class GkeFileSystems(pulumi.ComponentResource):
    """Private services access, and the teams' IAM roles on buckets. Nodes in a VPC that the program creates use
    private services access to reach Managed Lustre.

    Outputs: `parameters`, the parameters that are known only after the deployment, by storage class.
    """

    parameters: ClassParameters

    def __init__(self, name: str, args: GkeFileSystemsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeFileSystems", name, None, opts)
        storage, cluster = args.storage, args.cluster
        child = child_options(self, opts)
        if storage.private_access is not None:
            self._connect(storage.private_access, args, child)
        if storage.grants:
            self._grant(args, child)
        project = args.plan.project
        joined = cluster.network.apply(lambda network: filestore_network(network, project))
        self.parameters = {
            one: joined if one in storage.filestore else {"network": cluster.network} for one in storage.in_network
        }
        self.register_outputs({"parameters": self.parameters})

    def _grant(self, args: GkeFileSystemsArgs, child: pulumi.ResourceOptions) -> None:
        """Grant only the service accounts in the teams' namespaces access to buckets."""
        project = gcp.organizations.get_project_output(
            project_id=args.plan.project, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        pool = f"locations/global/workloadIdentityPools/{args.plan.project}.svc.id.goog"
        for grant in args.storage.grants:
            gcp.storage.BucketIAMMember(
                grant.name,
                bucket=grant.bucket,
                role=grant.role,
                member=pulumi.Output.concat(
                    "principalSet://iam.googleapis.com/projects/",
                    project.number,
                    f"/{pool}/namespace/{grant.namespace}",
                ),
                condition=gcp.storage.BucketIAMMemberConditionArgs(title=_BELOW, expression=grant.condition)
                if grant.condition is not None
                else None,
                opts=child,
            )

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
            allows=[gcp.compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in LUSTRE_PORTS])],
            source_ranges=[pulumi.Output.concat(addresses.address, f"/{_RANGE_PREFIX}")],
            opts=child,
        )
