"""`EksControlPlane`: the control plane of a new EKS cluster with its IAM role, KMS key, log group and admins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._options import child_options, custom_timeouts
from components.eks.iam import service_role
from components.eks.logins import create_logins, entry_name
from components.eks.network import JoinedVpc
from gpu_platform.planning.clouds.eks.cluster_plan import CreateEksPlan, EksClusterPlan

# The maximum waiting period of KMS. A key that was deleted by mistake can be restored during this period.
_KEY_DELETION_DAYS = 30
_API_PORT = 443
# The cluster may encrypt its Secrets with the KMS key, but not manage the key.
_KEY_ACTIONS = ["kms:Encrypt", "kms:Decrypt", "kms:DescribeKey", "kms:CreateGrant", "kms:ListGrants"]
# Admit users only through access entries, not through the aws-auth ConfigMap.
# A typo in the aws-auth ConfigMap can lock everybody out, and IAM does not log changes to it.
_AUTHENTICATION_MODE = "API"
# Nodes and pods reach the API server within the VPC, even if the API server has a public endpoint.
_PRIVATE_ENDPOINT = True
# Admins manage the whole cluster.
# Team members have Roles in their namespaces.
_ADMIN_SCOPE = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class EksControlPlaneArgs:
    """The cluster's plan, its settings at creation, and its VPC."""

    plan: EksClusterPlan
    create: CreateEksPlan
    vpc: JoinedVpc


class EksControlPlane(pulumi.ComponentResource):
    """The EKS cluster with its log group, the KMS key for its Secrets, its IAM role and its admins.

    `access` contains the access entries and policies of the admins, and the security group rules for private
    networks.

    Outputs: `name`.
    """

    cluster: aws.eks.Cluster
    access: list[pulumi.Resource]

    def __init__(self, name: str, args: EksControlPlaneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksControlPlane", name, None, opts)
        plan, create, vpc = args.plan, args.create, args.vpc
        self._name = name
        self._child = pulumi.ResourceOptions(parent=self)
        key = self._create_key(plan, create, child_options(self, opts))
        logs = self._create_log_group(create)
        role, permissions = self._create_role(plan, create, key)
        self.cluster = self._create_cluster(plan, create, vpc, role, key, [*permissions, logs])
        self.access = [
            association
            for admin in create.admins
            for association in self._create_access(admin, create.admin_policy)
        ]
        self.access += [self._admit(network) for network in create.private_networks]
        create_logins(name, plan.access, self.cluster.name, self._child)
        self.register_outputs({"name": self.cluster.name})

    def _admit(self, network: str) -> aws.vpc.SecurityGroupIngressRule:
        """Allow a private network to reach the API server. By default, only the cluster's nodes and pods can reach
        it.
        """
        return aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-api-{network}",
            security_group_id=self.cluster.vpc_config.cluster_security_group_id,
            cidr_ipv4=network,
            ip_protocol="tcp",
            from_port=_API_PORT,
            to_port=_API_PORT,
            description="API server",
            opts=self._child,
        )

    def _create_key(
        self, plan: EksClusterPlan, create: CreateEksPlan, opts: pulumi.ResourceOptions
    ) -> pulumi.Input[str]:
        """Return the ARN of the KMS key for Secrets, either an existing key or a new one."""
        if create.kms_key is not None:
            return create.kms_key
        opts.protect = plan.protect
        opts.retain_on_delete = create.retain_data
        return aws.kms.Key(
            f"{self._name}-secrets",
            description=f"Secrets of the EKS cluster {plan.name}",
            enable_key_rotation=True,
            deletion_window_in_days=_KEY_DELETION_DAYS,
            opts=opts,
        ).arn

    def _create_log_group(self, create: CreateEksPlan) -> aws.cloudwatch.LogGroup:
        """Create the log group, because a log group that EKS creates keeps all logs forever."""
        return aws.cloudwatch.LogGroup(
            f"{self._name}-logs",
            name=create.log_group,
            retention_in_days=create.logs_retention_days,
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=create.retain_data),
        )

    def _create_role(
        self, plan: EksClusterPlan, create: CreateEksPlan, key: pulumi.Input[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        name = f"{plan.role_prefix}-cluster"
        role, attached = service_role(name, "eks.amazonaws.com", create.cluster_policies, plan.iam, self._child)
        use_key = aws.iam.RolePolicy(
            f"{name}-secrets",
            role=role.name,
            policy=pulumi.Output.from_input(key).apply(_use_of_key),
            opts=self._child,
        )
        return role, [*attached, use_key]

    def _create_cluster(
        self,
        plan: EksClusterPlan,
        create: CreateEksPlan,
        vpc: JoinedVpc,
        role: aws.iam.Role,
        key: pulumi.Input[str],
        after: list[pulumi.Resource],
    ) -> aws.eks.Cluster:
        return aws.eks.Cluster(
            self._name,
            name=plan.name,
            version=plan.kubernetes,
            role_arn=role.arn,
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode=_AUTHENTICATION_MODE, bootstrap_cluster_creator_admin_permissions=False
            ),
            # The plan pins add-on versions. EKS would otherwise install self-managed add-ons.
            bootstrap_self_managed_addons=False,
            deletion_protection=plan.protect,
            enabled_cluster_log_types=list(create.logs),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key), resources=["secrets"]
            ),
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=create.support_type),
            kubernetes_network_config=_services(create.services_cidr),
            kube_scheduler_config=_scheduler(create.packed_resources),
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=vpc.control_plane,
                endpoint_private_access=_PRIVATE_ENDPOINT,
                endpoint_public_access=bool(create.public_networks),
                public_access_cidrs=list(create.public_networks) or None,
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=after,
                # A control plane keeps the zones that it was created in (aws/containers-roadmap#2258).
                ignore_changes=["vpcConfig.subnetIds"],
                protect=plan.protect,
                custom_timeouts=custom_timeouts(plan.timeouts),
            ),
        )

    def _create_access(self, principal: str, policy: str) -> list[pulumi.Resource]:
        name = entry_name(self._name, principal)
        entry = aws.eks.AccessEntry(
            name, cluster_name=self.cluster.name, principal_arn=principal, type="STANDARD", opts=self._child
        )
        association = aws.eks.AccessPolicyAssociation(
            name,
            cluster_name=self.cluster.name,
            principal_arn=entry.principal_arn,
            policy_arn=policy,
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type=_ADMIN_SCOPE),
            opts=self._child,
        )
        return [entry, association]


def _use_of_key(arn: str) -> str:
    """Return the IAM policy that allows the cluster to use the KMS key for its Secrets."""
    statement = {"Effect": "Allow", "Action": _KEY_ACTIONS, "Resource": arn}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _services(cidr: str | None) -> aws.eks.ClusterKubernetesNetworkConfigArgs | None:
    """Return the address range of Services, or None if EKS chooses it."""
    return aws.eks.ClusterKubernetesNetworkConfigArgs(service_ipv4_cidr=cidr) if cidr is not None else None


def _scheduler(packed: Sequence[str]) -> aws.eks.ClusterKubeSchedulerConfigArgs | None:
    """Return kube-scheduler scores that prefer nodes in use, or None for the default scores."""
    if not packed:
        return None
    strategy = aws.eks.ClusterKubeSchedulerConfigNodeResourcesFitScoringStrategyArgs(
        type="MostAllocated",
        resources=[
            aws.eks.ClusterKubeSchedulerConfigNodeResourcesFitScoringStrategyResourceArgs(name=name, weight=1)
            for name in packed
        ],
    )
    fit = aws.eks.ClusterKubeSchedulerConfigNodeResourcesFitArgs(scoring_strategy=strategy)
    return aws.eks.ClusterKubeSchedulerConfigArgs(node_resources_fit=fit)
