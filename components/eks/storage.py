"""`EksFileSystems`: drivers and file systems behind the storage classes of an EKS cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._options import child_options, retained
from components.eks.addon import create_addon
from components.eks.outputs import EksOutputs
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.storage import LUSTRE_PORTS, NFS_PORT, FileSystemPlan
from gpu_platform.planning.clouds.eks.storage import EksStorage as Plan

_ENCRYPTED = True
# Throughput scales with the load, and idle file systems incur no throughput cost.
_THROUGHPUT_MODE = "elastic"
_PERFORMANCE_MODE = "generalPurpose"


@dataclass(frozen=True, slots=True, kw_only=True)
class EksFileSystemsArgs:
    """The storage plan, the cluster plan, and the cluster itself."""

    storage: Plan
    plan: EksClusterPlan
    cluster: EksOutputs


class EksFileSystems(pulumi.ComponentResource):
    """The add-ons with CSI drivers, EFS file systems with a mount target in each zone, and network access to FSx.

    Outputs: `parameters`, the parameters that are known only after the deployment, by storage class.
    """

    parameters: Mapping[str, Mapping[str, pulumi.Input[str]]]

    def __init__(self, name: str, args: EksFileSystemsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksFileSystems", name, None, opts)
        self._name = name
        self._args = args
        self._child = child_options(self, opts)
        storage, cluster = args.storage, args.cluster
        for addon in storage.drivers:
            create_addon(name, args.plan, cluster.name, addon, self._child)
        parameters: dict[str, Mapping[str, pulumi.Input[str]]] = {}
        if storage.file_systems:
            group = self._create_security_group("nfs", f"NFS from nodes of {args.plan.name}")
            self._admit(group, "nfs", ((NFS_PORT, NFS_PORT),))
            for plan in storage.file_systems:
                parameters[plan.storage_class] = {"fileSystemId": self._create_file_system(plan, group)}
        if storage.lustre:
            group = self._create_security_group("lustre", f"Lustre from and to nodes of {args.plan.name}")
            self._admit_lustre(group)
            for storage_class, zone in storage.lustre.items():
                parameters[storage_class] = {
                    "subnetId": cluster.subnet_ids[zone],
                    "securityGroupIds": group.id,
                }
        self.parameters = parameters
        self.register_outputs({"parameters": parameters})

    def _create_security_group(self, suffix: str, description: str) -> aws.ec2.SecurityGroup:
        name = f"{self._name}-{suffix}"
        return aws.ec2.SecurityGroup(
            name,
            vpc_id=self._args.cluster.vpc_id,
            description=description,
            tags={"Name": name},
            opts=self._child,
        )

    def _admit(self, group: aws.ec2.SecurityGroup, suffix: str, ports: tuple[tuple[int, int], ...]) -> None:
        """Allow nodes to reach TCP ports of a security group."""
        for first, last in ports:
            aws.vpc.SecurityGroupIngressRule(
                f"{self._name}-{suffix}-nodes-{first}",
                security_group_id=group.id,
                referenced_security_group_id=self._args.cluster.cluster_security_group_id,
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                opts=self._child,
            )

    def _admit_lustre(self, group: aws.ec2.SecurityGroup) -> None:
        """Allow Lustre's ports between servers, and between servers and nodes, because servers and nodes both open
        connections.
        """
        nodes = self._args.cluster.cluster_security_group_id
        self._admit(group, "lustre", LUSTRE_PORTS)
        for first, last in LUSTRE_PORTS:
            for name, rule, at, other in (
                ("self", aws.vpc.SecurityGroupIngressRule, group.id, group.id),
                ("to-self", aws.vpc.SecurityGroupEgressRule, group.id, group.id),
                ("to-nodes", aws.vpc.SecurityGroupEgressRule, group.id, nodes),
                ("at-nodes", aws.vpc.SecurityGroupIngressRule, nodes, group.id),
            ):
                rule(
                    f"{self._name}-lustre-{name}-{first}",
                    security_group_id=at,
                    referenced_security_group_id=other,
                    ip_protocol="tcp",
                    from_port=first,
                    to_port=last,
                    opts=self._child,
                )

    def _create_file_system(self, plan: FileSystemPlan, group: aws.ec2.SecurityGroup) -> pulumi.Output[str]:
        """Create a file system. Pulumi retains it when it is no longer declared, because it contains members'
        data.
        """
        name = f"{self._name}-{plan.storage_class}"
        file_system = aws.efs.FileSystem(
            name,
            encrypted=_ENCRYPTED,
            kms_key_id=plan.kms_key,
            throughput_mode=_THROUGHPUT_MODE,
            performance_mode=_PERFORMANCE_MODE,
            tags={"Name": name},
            opts=retained(self._child),
        )
        assert self._args.plan.create is not None  # noqa: S101 - the network of an existing cluster is its owner's
        for zone in self._args.plan.create.vpc.zone_names:
            aws.efs.MountTarget(
                f"{name}-{zone}",
                file_system_id=file_system.id,
                subnet_id=self._args.cluster.subnet_ids[zone],
                security_groups=[group.id],
                # EFS allows one mount target per zone, so the old target must be deleted first.
                opts=pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(delete_before_replace=True)),
            )
        return file_system.id
