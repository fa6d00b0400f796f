"""A team's stack: one tenant on an environment that another stack deployed."""

from __future__ import annotations

from typing import Any

import pulumi

from components.cluster import Cluster
from components.tenant import Tenant
from gpu_platform.planning.plan import TeamPlan


def build_team(plan: TeamPlan) -> dict[str, Any]:
    """Register a team's tenant on the cluster of its environment, reached by a stack reference."""
    name = plan.environment_stack
    if "/" not in name:
        name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{name}"
    environment = pulumi.StackReference(plan.environment_stack, stack_name=name)
    kubeconfig = environment.get_output("kubeconfig")
    cluster = Cluster(plan.cluster.name, plan.cluster, kubeconfig)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider])
    tenants = [Tenant(tenant.namespace, tenant, on_cluster) for tenant in plan.tenants]
    return {"namespaces": [tenant.namespace for tenant in tenants]}
