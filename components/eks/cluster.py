"""`EksCluster`: a new or existing EKS cluster, with the resources that all its GPU pools share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components._kubernetes_provider import kubernetes_provider
from components._options import child_options
from components.eks.control_plane import EksControlPlane, EksControlPlaneArgs
from components.eks.iam import service_role
from components.eks.logins import create_logins
from components.eks.lookup import look_up
from components.eks.network import EksVpc, EksVpcArgs, JoinedVpc, existing_vpc
from components.eks.outputs import EksOutputs
from components.eks.system import EksSystem, EksSystemArgs
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan, ExistingVpcPlan
from gpu_platform.planning.clouds.eks.kubeconfig import eks_kubeconfig

# EFA bypasses IP, so only a security group rule for all protocols allows it.
_ALL_PROTOCOLS = "-1"
# The access entry gives nodes only the Kubernetes groups of a kubelet.
_NODE_ACCESS_ENTRY = "EC2_LINUX"


@dataclasses.dataclass(frozen=True, slots=True)
class _Role:
    """The nodes' IAM role."""

    arn: pulumi.Output[str]
    name: pulumi.Output[str]


class EksCluster(pulumi.ComponentResource):
    """Component of an EKS cluster. The stack file's section for it is `gpu_platform.stack.cluster.EksCluster`.

    Node pools need `outputs`. `karpenter_outputs` are the same outputs with the role of Karpenter's nodes.
    `provider` is available when admins have access to the cluster and pods can be scheduled.

    Outputs: `name`, and `kubeconfig` (the content as a secret; it obtains credentials with `aws eks get-token`).
    """

    provider: k8s.Provider
    kubeconfig: pulumi.Output[str]
    context: pulumi.Output[str]
    identity: pulumi.Output[str]
    outputs: EksOutputs
    karpenter_outputs: EksOutputs | None

    def __init__(self, name: str, args: EksClusterPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksCluster", name, None, opts)
        provider = self.get_provider("aws:eks/cluster:Cluster")
        if provider is None:
            raise ValueError(f"EksCluster {name}: pass an AWS provider in opts.providers")
        plan = args
        self._name = name
        self._plan = plan
        self._aws = provider
        self._child = pulumi.ResourceOptions(parent=self)
        role, attached = self._node_role(f"{plan.role_prefix}-nodes", child_options(self, opts))
        works: list[pulumi.Resource] = []
        created: pulumi.Resource | None = None
        if plan.create is None:
            self.outputs = self._look_up(role, attached)
        else:
            self.outputs, works, created = self._create(plan.create, role, attached)
        self.karpenter_outputs = self._karpenter_outputs() if plan.karpenter_pools else None
        facts = pulumi.Output.all(
            endpoint=self.outputs.endpoint, certificate_authority=self.outputs.certificate_authority
        )
        self.kubeconfig = pulumi.Output.secret(facts.apply(self._write_kubeconfig))
        self.context = pulumi.Output.from_input(plan.name)
        # Each EKS cluster has its own endpoint.
        # Public and private access change the addresses that the endpoint's name resolves to, but not the name.
        # Source: EKS user guide, "Cluster API server endpoint"; read 2026-11-30.
        self.identity = self.outputs.endpoint
        self.provider = kubernetes_provider(
            name,
            pulumi.ResourceOptions(parent=self, depends_on=works),
            kubeconfig=self.kubeconfig,
            context=self.context,
            identity=self.identity,
            created=created,
        )
        self.register_outputs({"name": self.outputs.name, "kubeconfig": self.kubeconfig})

    def _write_kubeconfig(self, facts: Mapping[str, Any]) -> str:
        return eks_kubeconfig(
            self._plan.name,
            self._plan.region,
            facts["endpoint"],
            facts["certificate_authority"],
            self._plan.assume_role,
        )

    def _node_role(self, name: str, opts: pulumi.ResourceOptions) -> tuple[_Role, list[pulumi.Resource]]:
        """Return the role of managed node groups, either an existing role or a new one with its policy
        attachments.
        """
        existing = self._plan.iam.node_role
        if existing is not None:
            named = existing.rpartition("/")[2]
            return _Role(pulumi.Output.from_input(existing), pulumi.Output.from_input(named)), []
        role, attached = self._create_node_role(name, opts)
        return _Role(role.arn, role.name), attached

    def _create_node_role(
        self, name: str, opts: pulumi.ResourceOptions
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        return service_role(name, "ec2.amazonaws.com", self._plan.node_policies, self._plan.iam, opts)

    def _look_up(self, role: _Role, attached: list[pulumi.Resource]) -> EksOutputs:
        found = look_up(self._plan, self, self._aws)
        create_logins(self._name, self._plan.access, found.name, self._child)
        return EksOutputs(
            name=found.name,
            kubernetes=self._plan.kubernetes,
            endpoint=found.endpoint,
            certificate_authority=found.certificate_authority,
            service_cidr=found.service_cidr,
            vpc_id=found.vpc_id,
            subnet_ids=found.subnet_ids,
            all_subnet_ids=found.all_subnet_ids,
            cluster_security_group_id=found.cluster_security_group_id,
            security_groups=self._plan.security_groups,
            efa_security_group_id=self._create_efa_security_group(found.vpc_id),
            node_role_arn=role.arn,
            node_role_name=role.name,
            provider=self._aws,
            tags=self._plan.tags,
            ready=attached,
        )

    def _create(
        self, create: CreateEksPlan, role: _Role, attached: list[pulumi.Resource]
    ) -> tuple[EksOutputs, list[pulumi.Resource], aws.eks.Cluster]:
        """Create the cluster.

        Return its outputs, the resources that Kubernetes objects depend on, and the cluster itself.
        """
        plan = self._plan
        vpc = self._join_vpc(create)
        control_plane = EksControlPlane(
            self._name, EksControlPlaneArgs(plan=plan, create=create, vpc=vpc), self._child
        )
        cluster = control_plane.cluster
        outputs = EksOutputs(
            name=cluster.name,
            kubernetes=plan.kubernetes,
            endpoint=cluster.endpoint,
            certificate_authority=cluster.certificate_authority.data,
            service_cidr=cluster.kubernetes_network_config.service_ipv4_cidr,
            vpc_id=vpc.vpc_id,
            subnet_ids=vpc.subnet_ids,
            all_subnet_ids=pulumi.Output.all(
                *(subnet for zone, subnet in vpc.subnet_ids.items() if zone in create.vpc.zone_names)
            ),
            cluster_security_group_id=cluster.vpc_config.cluster_security_group_id,
            security_groups=plan.security_groups,
            efa_security_group_id=self._create_efa_security_group(vpc.vpc_id),
            node_role_arn=role.arn,
            node_role_name=role.name,
            provider=self._aws,
            tags=plan.tags,
            ready=[*attached, *vpc.routes],
        )
        args = EksSystemArgs(plan=plan, create=create, cluster=outputs, pod_subnet_ids=vpc.pod_subnet_ids)
        system = EksSystem(self._name, args, self._child)
        ready = [*outputs.ready, *system.before_nodes]
        return dataclasses.replace(outputs, ready=ready), [*control_plane.access, *system.works], cluster

    def _join_vpc(self, create: CreateEksPlan) -> JoinedVpc:
        if isinstance(create.vpc, ExistingVpcPlan):
            return existing_vpc(create.vpc)
        args = EksVpcArgs(plan=create.vpc, region=self._plan.region, protect=self._plan.protect)
        return EksVpc(self._name, args, self._child).joined

    def _create_efa_security_group(self, vpc_id: pulumi.Output[str]) -> pulumi.Output[str] | None:
        """Create the security group for EFA, which must allow all traffic from and to itself."""
        if not self._plan.efa:
            return None
        name = f"{self._name}-efa"
        group = aws.ec2.SecurityGroup(
            name,
            vpc_id=vpc_id,
            description=f"EFA between GPU nodes of {self._plan.name}",
            tags={"Name": name},
            opts=self._child,
        )
        for rule in (aws.vpc.SecurityGroupIngressRule, aws.vpc.SecurityGroupEgressRule):
            rule(
                name,
                security_group_id=group.id,
                referenced_security_group_id=group.id,
                ip_protocol=_ALL_PROTOCOLS,
                opts=self._child,
            )
        return group.id

    def _karpenter_outputs(self) -> EksOutputs:
        """Return the outputs for Karpenter's pools. Their Kubernetes objects contain the role's name instead of
        its ARN.
        """
        role = self._plan.karpenter_node_role
        if role is None:
            return self._create_karpenter_node_role()
        return dataclasses.replace(self.outputs, node_role_name=pulumi.Output.from_input(role))

    def _create_karpenter_node_role(self) -> EksOutputs:
        """Create a separate role for Karpenter's nodes. EKS deletes a role's access entry together with the last
        node group that uses the role.
        """
        name = f"{self._plan.role_prefix}-karpenter-nodes"
        role, attached = self._create_node_role(name, self._child)
        entry = aws.eks.AccessEntry(
            f"{self._name}-karpenter-nodes",
            cluster_name=self.outputs.name,
            principal_arn=role.arn,
            type=_NODE_ACCESS_ENTRY,
            opts=self._child,
        )
        return dataclasses.replace(
            self.outputs,
            node_role_arn=role.arn,
            node_role_name=role.name,
            ready=[*self.outputs.ready, *attached, entry],
        )
