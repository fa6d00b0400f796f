"""Check the declared cluster, and plan how clients reach it. The module for the cluster's cloud adds its settings
to the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpu_platform.planning.clouds import documents
from gpu_platform.planning.clouds.controllers import ControllerPods
from gpu_platform.planning.clouds.identities import CloudIdentities
from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.clouds.storage import StoragePlan
from gpu_platform.planning.context import CompleteContext, Context
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing import ResolvedPool
from gpu_platform.stack.cluster import ExistingCluster


def check(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record problems with the declared cluster on its cloud, if the section `cluster` could be parsed."""
    if context.cloud is not None:
        pools = [resolved.pool for resolved in resolved_pools]
        context.cloud.control_plane.check(pools, context.operator, context.catalog, context.at("cluster"))


def plan(context: CompleteContext, pools: Sequence[PoolPlan]) -> Decided[ClusterPlan]:
    """Return the cluster plan for the planned pools."""
    cluster, cloud = context.cloud.cluster, context.cloud
    release = context.catalog.operator_releases[context.operator.release]
    planned = cloud.control_plane.plan(context.stack, pools, release, context.catalog)
    existing = cluster if isinstance(cluster, ExistingCluster) else None
    return Decided(
        ClusterPlan(
            provider=cluster.provider,
            name=cluster.name,
            kubeconfig=existing.kubeconfig if existing else None,
            context=existing.context if existing else None,
            kubernetes=planned.value.kubernetes if planned.value is not None else cloud.kubernetes,
            access=cloud.access,
            scheduler=cloud.scheduler,
            cloud=planned.value,
        ),
        planned.decisions,
    )


def plan_controllers(
    context: CompleteContext,
    cluster: ClusterPlan,
    pools: Sequence[PoolPlan],
    controllers: Sequence[ControllerPods],
) -> Decided[ClusterPlan]:
    """Return the cluster's plan with nodes for the controllers. Record a problem if the controllers do not fit on
    the nodes.
    """
    control_plane = context.cloud.control_plane
    sized = control_plane.plan_controllers(
        cluster.cloud, pools, controllers, context.catalog, context.at("cluster")
    )
    if sized.value is None:
        return Decided(cluster, sized.decisions)
    ask = control_plane.prerequisites
    of_pools, on_cloud = context.cloud.pools, [pool for pool in pools if pool.cloud is not None]
    complete = replace(
        cluster,
        cloud=sized.value,
        surge_nodes={pool.name: of_pools.surge_nodes(pool, sized.value) for pool in on_cloud},
        pool_properties={pool.name: of_pools.properties(pool, sized.value) for pool in on_cloud},
        settings=control_plane.settings(sized.value),
        prerequisites=partial(ask, sized.value) if ask is not None else None,
    )
    return Decided(complete, sized.decisions)


def check_documents(
    context: CompleteContext,
    cluster: ClusterPlan,
    pools: Sequence[PoolPlan],
    storage: StoragePlan,
    identities: CloudIdentities | None,
) -> None:
    """Record a problem for each cloud document, such as an IAM policy, that exceeds its size limit."""
    measured = context.cloud.control_plane.documents(cluster.cloud, pools, storage, identities)
    documents.check_documents(measured, context.catalog, context.problems)
