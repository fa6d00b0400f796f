"""`KarpenterNodePool`: a pool in which Karpenter creates nodes for pending pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options, custom_timeouts
from components.eks.outputs import EksOutputs
from components.eks.placement_group import create_placement_group
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from gpu_platform.planning.pools.section import PoolPlan

# With this annotation, the deployment fails if an image or subnet is missing.
# Without the annotation, a missing image would be noticed only when the first pod is pending.
# The Ready condition does not cover the reservation, which validators/reservations.py checks.
_WAIT_UNTIL_READY = {"pulumi.com/waitFor": "condition=Ready"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterNodePoolArgs:
    """Plan for the pool, and the cluster with the IAM role of Karpenter's nodes."""

    pool: PoolPlan
    cluster: EksOutputs


class KarpenterNodePool(pulumi.ComponentResource):
    """A Karpenter NodePool and its EC2NodeClass, with a placement group if the plan creates one.

    Outputs: `node_pool`, the NodePool's name.
    """

    node_pool: pulumi.Output[str]

    def __init__(self, name: str, args: KarpenterNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:KarpenterNodePool", name, None, opts)
        pool, cluster = args.pool, args.cluster
        plan, self._timeouts = pool.cloud, custom_timeouts(pool.cloud_nodes.timeouts)
        assert isinstance(plan, KarpenterPoolPlan)  # noqa: S101 - managed pools have their own component
        on_aws = pulumi.ResourceOptions(parent=self, provider=cluster.provider)
        group = create_placement_group(plan.placement_group, plan.node_tags, on_aws)
        node_class = self._create_node_class(plan, cluster, child_options(self, opts, *cluster.ready, *group))
        self._create_node_pool(plan, node_class)
        self.node_pool = pulumi.Output.from_input(plan.name)
        self.register_outputs({"node_pool": self.node_pool})

    def _create_node_class(
        self, plan: KarpenterPoolPlan, cluster: EksOutputs, opts: pulumi.ResourceOptions
    ) -> KubernetesObject:
        groups = [cluster.cluster_security_group_id, *cluster.security_groups]
        if plan.efa and cluster.efa_security_group_id is not None:
            groups.append(cluster.efa_security_group_id)
        opts.protect = plan.protect
        opts.custom_timeouts = self._timeouts
        return KubernetesObject(
            plan.name,
            "karpenter.k8s.aws/v1/EC2NodeClass",
            metadata={"name": plan.name, "annotations": _WAIT_UNTIL_READY},
            spec={
                **plan.node_class,
                "tags": {**cluster.tags, **plan.node_tags},
                "role": cluster.node_role_name,
                "subnetSelectorTerms": _subnets(plan, cluster),
                "securityGroupSelectorTerms": _by_id(groups),
            },
            opts=opts,
        )

    def _create_node_pool(self, plan: KarpenterPoolPlan, node_class: KubernetesObject) -> None:
        KubernetesObject(
            plan.name,
            "karpenter.sh/v1/NodePool",
            metadata={"name": plan.name, "annotations": _WAIT_UNTIL_READY},
            spec=plan.node_pool,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[node_class],
                protect=plan.protect,
                custom_timeouts=self._timeouts,
            ),
        )


def _subnets(plan: KarpenterPoolPlan, cluster: EksOutputs) -> pulumi.Input[list[dict[str, Any]]]:
    if plan.zones:
        return _by_id([cluster.subnet_ids[zone] for zone in plan.zones])
    return cluster.all_subnet_ids.apply(_by_id)


def _by_id(ids: Sequence[pulumi.Input[str]]) -> list[dict[str, Any]]:
    return [{"id": one} for one in ids]
