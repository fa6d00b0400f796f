"""`ClusterAutoscaler`: adds and removes nodes of managed node groups. It has its own IAM role."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components._options import child_options
from components.eks.iam import pod_role
from components.eks.outputs import EksOutputs
from gpu_platform.planning.clouds.eks.cluster_plan import ClusterAutoscalerPlan

# Helm waits for the pods, and the system nodes may still be starting.
_HELM_TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerArgs:
    """Plan for the autoscaler, and the cluster that it scales."""

    plan: ClusterAutoscalerPlan
    cluster: EksOutputs


class ClusterAutoscaler(pulumi.ComponentResource):
    """The Cluster Autoscaler with its Helm release and its role for EKS Pod Identity.

    Outputs: `release` (the chart's version), `role_arn`.
    """

    release: pulumi.Output[str]
    role_arn: pulumi.Output[str]

    def __init__(self, name: str, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:ClusterAutoscaler", name, None, opts)
        plan, cluster = args.plan, args.cluster
        on_aws = pulumi.ResourceOptions(parent=self, provider=cluster.provider)
        role, _ = pod_role(plan.role, plan.service_account, [], plan.iam, on_aws)
        policy = aws.iam.RolePolicy(
            plan.role, role=role.name, policy=json.dumps(plan.policy, separators=(",", ":")), opts=on_aws
        )
        association = aws.eks.PodIdentityAssociation(
            plan.role,
            cluster_name=cluster.name,
            namespace=plan.release.namespace,
            service_account=plan.service_account,
            role_arn=role.arn,
            opts=on_aws,
        )
        chart = plan.release
        k8s.helm.v3.Release(
            chart.name,
            k8s.helm.v3.ReleaseArgs(
                name=chart.name,
                chart=chart.chart,
                version=chart.version,
                namespace=chart.namespace,
                repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=chart.repository),
                values=dict(chart.values),
                atomic=True,
                timeout=_HELM_TIMEOUT_SECONDS,
            ),
            # EKS adds credentials only when a pod starts, so the association must exist first.
            opts=child_options(self, opts, *cluster.ready, policy, association),
        )
        self.release = pulumi.Output.from_input(chart.version)
        self.role_arn = role.arn
        self.register_outputs({"release": self.release, "role_arn": self.role_arn})
