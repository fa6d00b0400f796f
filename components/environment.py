"""`Environment`: a whole platform out of the components of this folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import pulumi
import pulumi_kubernetes as k8s

from components.cluster import Cluster
from components.device_claims import DeviceClasses
from components.gpu_operator import GpuOperator
from components.monitoring import Monitoring
from components.node_pool import NodePool
from components.node_validation import NodeValidation, NodeValidationArgs
from components.priority_classes import PriorityClasses
from components.tenant import Tenant
from gpu_platform.planning.changes.pool_facts import pool_facts, protected
from gpu_platform.planning.operator.allocation import allocation
from gpu_platform.planning.plan import EnvironmentPlan

PoolsMaker = Callable[[pulumi.ResourceOptions], list[pulumi.Resource]]


class _Reached(Protocol):
    """Any component that reaches a cluster."""

    provider: k8s.Provider
    kubeconfig: Any
    context: Any


def _cluster_and_pools(plan: EnvironmentPlan) -> tuple[_Reached, PoolsMaker]:
    """Register the cluster; return it with what registers its pools. A cloud's SDK is imported for it alone."""
    cloud = plan.cluster.cloud
    if cloud is not None:
        return importlib.import_module(f"components.{cloud.kind}").build(cloud, plan.pools)
    cluster = Cluster(plan.cluster.name, plan.cluster)
    return cluster, lambda opts: [NodePool(pool.name, pool, opts) for pool in plan.pools]


def build_environment(plan: EnvironmentPlan) -> dict[str, Any]:
    """Register every component of an environment, in the order in which they need each other.

    Teams come last: their workloads start on nodes that are proven.
    """
    cluster, make_pools = _cluster_and_pools(plan)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider])
    priorities = PriorityClasses("priority-classes", plan.priority_classes, on_cluster)
    pools = make_pools(on_cluster)
    operator = GpuOperator("gpu-operator", plan.operator, on_cluster)
    platform: list[pulumi.Resource] = [priorities, *pools, operator]
    if plan.device_classes:
        DeviceClasses("device-classes", plan.device_classes, on_cluster)
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
        # What the next preview and a destroy are held against.
        "allocation": allocation(plan.pools),
        "pools": dict(pool_facts(plan)),
        "protected": list(protected(plan)),
    }
