"""`Environment`: a whole platform out of the components of this folder."""

from __future__ import annotations

from typing import Any

import pulumi

from components.cluster import Cluster
from components.gpu_operator import GpuOperator
from components.monitoring import Monitoring
from components.node_pool import NodePool
from components.node_validation import NodeValidation, NodeValidationArgs
from components.priority_classes import PriorityClasses
from components.tenant import Tenant
from gpu_platform.planning.plan import EnvironmentPlan


def build_environment(plan: EnvironmentPlan) -> dict[str, Any]:
    """Register every component of an environment, in the order in which they need each other.

    Teams come last: their workloads start on nodes that are proven.
    """
    cluster = Cluster(plan.cluster.name, plan.cluster)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider])
    priorities = PriorityClasses("priority-classes", plan.priority_classes, on_cluster)
    pools = [NodePool(pool.name, pool, on_cluster) for pool in plan.pools]
    operator = GpuOperator("gpu-operator", plan.operator, on_cluster)
    platform: list[pulumi.Resource] = [priorities, *pools, operator]
    after_operator = pulumi.ResourceOptions(providers=[cluster.provider], depends_on=[operator])
    if plan.monitoring is not None:
        Monitoring("monitoring", plan.monitoring, after_operator)
    validation = NodeValidation(
        "node-validation",
        NodeValidationArgs(validation=plan.validation, pools=plan.pools),
        pulumi.ResourceOptions(providers=[cluster.provider], depends_on=platform),
    )
    proven = pulumi.ResourceOptions(providers=[cluster.provider], depends_on=[validation.proof])
    tenants = [Tenant(tenant.namespace, tenant, proven) for tenant in plan.tenants]
    return {
        "kubeconfig": cluster.kubeconfig,
        "context": cluster.context,
        "operator": operator.release,
        "namespaces": [tenant.namespace for tenant in tenants],
        "allocatable": {pool.name: dict(pool.node_expectation.allocatable) for pool in plan.pools},
        "cost_usd_per_hour": plan.cost.usd_per_hour,
    }
