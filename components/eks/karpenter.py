"""`KarpenterController`: Karpenter's Helm charts, its IAM role and its interruption queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components._options import child_options
from components.eks.iam import pod_role
from components.eks.outputs import EksOutputs
from gpu_platform.planning.clouds.eks.cluster_plan import KarpenterControllerPlan
from gpu_platform.planning.clouds.eks.karpenter_controller import controller_policy, queue_policy

# EC2 announces a spot interruption two minutes ahead, so an older message is of no use.
_MESSAGE_RETENTION_SECONDS = 300
# Helm waits for the pods, and the system nodes may still be starting.
_HELM_TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterControllerArgs:
    """Plan for Karpenter, and the cluster with the IAM role of Karpenter's nodes."""

    plan: KarpenterControllerPlan
    cluster: EksOutputs


class KarpenterController(pulumi.ComponentResource):
    """Karpenter with its role for EKS Pod Identity, its interruption queue, its CRDs and its controller.

    `works` is the controller, which NodePools depend on.

    Outputs: `release` (Karpenter's version), `queue_url`, `role_arn`.
    """

    works: pulumi.Resource
    release: pulumi.Output[str]
    queue_url: pulumi.Output[str]
    role_arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: KarpenterControllerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:KarpenterController", name, None, opts)
        plan, cluster = args.plan, args.cluster
        self._name = name
        self._plan = plan
        self._cluster = cluster
        first = child_options(self, opts, *cluster.ready)
        first.provider = cluster.provider
        self._aws = pulumi.ResourceOptions(parent=self, provider=cluster.provider)
        queue = aws.sqs.Queue(
            plan.queue,
            name=plan.queue,
            message_retention_seconds=_MESSAGE_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
            opts=first,
        )
        rules = self._create_rules(queue)
        role, allowed = self._create_role(queue)
        crds = self._install(plan.crd_chart, {}, child_options(self, opts, *cluster.ready))
        controller = self._install(
            plan.chart,
            plan.values,
            pulumi.ResourceOptions(parent=self, depends_on=[crds, queue, *rules, *allowed]),
        )
        self.works = controller
        self.release = pulumi.Output.from_input(plan.version)
        self.queue_url = queue.url
        self.role_arn = role.arn
        self.register_outputs({"release": self.release, "queue_url": self.queue_url, "role_arn": self.role_arn})

    def _create_rules(self, queue: aws.sqs.Queue) -> list[pulumi.Resource]:
        """Create rules that send EC2 events to the queue, and allow no other sender to write to it."""
        created: list[pulumi.Resource] = []
        arns: list[pulumi.Output[str]] = []
        for event, pattern in self._plan.events.items():
            rule = aws.cloudwatch.EventRule(
                f"{self._name}-{event}",
                event_pattern=json.dumps(pattern, sort_keys=True),
                opts=self._aws,
            )
            arns.append(rule.arn)
            created.append(
                aws.cloudwatch.EventTarget(
                    f"{self._name}-{event}", rule=rule.name, arn=queue.arn, target_id="karpenter", opts=self._aws
                )
            )
        created.append(
            aws.sqs.QueuePolicy(
                self._plan.queue,
                queue_url=queue.url,
                policy=pulumi.Output.all(queue.arn, *arns).apply(_write_queue_policy),
                opts=self._aws,
            )
        )
        return created

    def _create_role(self, queue: aws.sqs.Queue) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        plan = self._plan
        role, _ = pod_role(self._name, plan.service_account, [], plan.iam, self._aws)
        arns = pulumi.Output.all(node_role_arn=self._cluster.node_role_arn, queue_arn=queue.arn)
        policy = aws.iam.RolePolicy(
            self._name, role=role.name, policy=arns.apply(self._write_controller_policy), opts=self._aws
        )
        association = aws.eks.PodIdentityAssociation(
            self._name,
            cluster_name=self._cluster.name,
            namespace=plan.namespace,
            service_account=plan.service_account,
            role_arn=role.arn,
            opts=self._aws,
        )
        return role, [policy, association]

    def _write_controller_policy(self, arns: Mapping[str, str]) -> str:
        plan = self._plan
        policy = controller_policy(
            plan.region, plan.cluster, arns["node_role_arn"], arns["queue_arn"], plan.disk_keys
        )
        return json.dumps(policy, separators=(",", ":"))

    def _install(
        self, chart: str, values: Mapping[str, object], opts: pulumi.ResourceOptions
    ) -> k8s.helm.v3.Release:
        plan = self._plan
        return k8s.helm.v3.Release(
            chart,
            k8s.helm.v3.ReleaseArgs(
                name=chart,
                chart=f"{plan.repository}/{chart}",
                version=plan.version,
                namespace=plan.namespace,
                values=dict(values),
                # Helm never upgrades CRDs in a chart's crds folder, so a separate chart installs the CRDs.
                skip_crds=True,
                atomic=True,
                timeout=_HELM_TIMEOUT_SECONDS,
            ),
            opts=opts,
        )


def _write_queue_policy(arns: Sequence[str]) -> str:
    queue_arn, *rule_arns = arns
    return json.dumps(queue_policy(queue_arn, rule_arns), separators=(",", ":"))
