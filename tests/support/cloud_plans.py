"""Cloud plans for tests that do not examine them: every field that a test does not set has a placeholder value."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.clouds.eks.cloud_nodes import karpenter_nodes, node_group_nodes, surge_nodes
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.cluster_settings import cluster_settings as eks_settings
from gpu_platform.planning.clouds.eks.launch_plan import BlockDevice
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from gpu_platform.planning.clouds.eks.properties import pool_properties as eks_properties
from gpu_platform.planning.clouds.gke.cloud_nodes import node_pool_nodes
from gpu_platform.planning.clouds.gke.cluster_settings import cluster_settings as gke_settings
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.clouds.gke.prerequisites import gke_prerequisites
from gpu_platform.planning.clouds.gke.properties import pool_properties as gke_properties
from gpu_platform.planning.clouds.section import CloudNodes, ClusterPlan
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.loaded import plan_platform

_Plan = TypeVar("_Plan")


def filled(kind: type[_Plan], **given: Any) -> _Plan:
    """Return a dataclass instance. Required fields that are not given have placeholders of the right type."""
    hints = get_type_hints(kind)
    values = {
        field.name: _filler(hints[field.name])
        for field in dataclasses.fields(kind)  # pyrefly: ignore[bad-argument-type]
        if field.name not in given and field.default is dataclasses.MISSING
    }
    return kind(**values, **given)


def _filler(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        return None if type(None) in get_args(hint) else _filler(get_args(hint)[0])
    if origin is Literal:
        return get_args(hint)[0]
    if origin is tuple:
        return () if Ellipsis in get_args(hint) else tuple(_filler(inner) for inner in get_args(hint))
    if origin is Mapping:
        return {}
    if dataclasses.is_dataclass(hint):
        return filled(hint)
    return hint()


def environment(pools: Mapping[str, int], **rest: Any) -> EnvironmentPlan:
    """Return the plan of a sandbox with p4de.24xlarge pools, which have eight GPUs per node.

    `pools` maps the name of each pool to its desired number of nodes.
    """
    entries = [
        {"name": name, "machine_type": "p4de.24xlarge", "count": {"desired": count}, "workload": "training"}
        for name, count in pools.items()
    ]
    plan = plan_platform(
        {"kind": "environment", "cluster": {"provider": "sandbox"}, "pools": entries, **rest}, "test"
    )
    assert plan.kind == "environment"
    return plan


def on_cloud(
    plan: EnvironmentPlan,
    cluster: EksClusterPlan | GkeClusterPlan,
    **clouds: EksPoolPlan | KarpenterPoolPlan | GkePoolPlan,
) -> EnvironmentPlan:
    """Return the plan with its cluster and pools moved to a cloud. `clouds` maps each pool to its cloud plan."""
    pools = tuple(_cloud_pool(pool, clouds[pool.name]) for pool in plan.pools)
    on_it = dataclasses.replace(plan.cluster, provider=cluster.kind, name=cluster.name, access="outputs")
    return dataclasses.replace(plan, cluster=with_cloud(on_it, cluster, pools), pools=pools)


def with_cloud(
    plan: ClusterPlan, cluster: EksClusterPlan | GkeClusterPlan, pools: Iterable[PoolPlan]
) -> ClusterPlan:
    """Return a cluster plan with the plan of its cloud and all values that are derived from the cloud's plan."""
    on_eks = isinstance(cluster, EksClusterPlan)
    properties = eks_properties if on_eks else gke_properties
    return dataclasses.replace(
        plan,
        cloud=cluster,
        surge_nodes={pool.name: _surge_nodes(pool, cluster) for pool in pools},
        pool_properties={pool.name: properties(pool, cluster) for pool in pools},
        settings=eks_settings(cluster) if on_eks else gke_settings(cluster),
        prerequisites=partial(eks_prerequisites if on_eks else gke_prerequisites, cluster),
    )


def _surge_nodes(pool: PoolPlan, cluster: EksClusterPlan | GkeClusterPlan) -> int:
    if isinstance(pool.cloud, GkePoolPlan):
        return pool.cloud.surge
    if isinstance(pool.cloud, KarpenterPoolPlan):
        pool = dataclasses.replace(pool, cloud=_complete(pool.cloud))
    return surge_nodes(pool, cluster)


def _cloud_pool(pool: PoolPlan, cloud: EksPoolPlan | KarpenterPoolPlan | GkePoolPlan) -> PoolPlan:
    nodes = dataclasses.replace(pool.nodes, ownership="cloud", names=())
    return dataclasses.replace(pool, cloud=cloud, cloud_nodes=cloud_nodes(cloud), nodes=nodes)


def cloud_nodes(cloud: EksPoolPlan | KarpenterPoolPlan | GkePoolPlan) -> CloudNodes:
    """Return the nodes of a pool, with placeholder values for the inputs that they are built from."""
    catalog = load_catalog()
    cluster = EksCluster.model_validate({"provider": "eks", "name": "ml", "region": "us-east-2"})
    if isinstance(cloud, GkePoolPlan):
        return node_pool_nodes(cloud, catalog)
    if isinstance(cloud, EksPoolPlan):
        disks = cloud.block_devices or (filled(BlockDevice),)
        return node_group_nodes(dataclasses.replace(cloud, block_devices=disks), cluster, catalog)
    return karpenter_nodes(_complete(cloud), cluster, catalog)


def _complete(cloud: KarpenterPoolPlan) -> KarpenterPoolPlan:
    """Return the plan with placeholders for missing fields that every real plan contains."""
    node_pool, node_class = (one.get("spec", one) for one in (cloud.node_pool, cloud.node_class))
    given = node_pool.get("template", {}).get("spec", {})
    requirements = [{"key": key, "values": ["filler"]} for key in _REQUIREMENTS] + given.get("requirements", [])
    template = {"terminationGracePeriod": "1h", "expireAfter": "Never", **given, "requirements": requirements}
    return dataclasses.replace(
        cloud,
        node_pool={
            "limits": {"nodes": "1"},
            **node_pool,
            "template": {"spec": template},
            "disruption": {"budgets": [], **node_pool.get("disruption", {})},
        },
        node_class={"blockDeviceMappings": [{"ebs": {"volumeSize": "1Gi"}}], **node_class},
    )


_REQUIREMENTS = ("node.kubernetes.io/instance-type", "karpenter.sh/capacity-type")
"""Keys of the requirements that every NodePool of the program contains."""
