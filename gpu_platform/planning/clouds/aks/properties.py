"""Properties of AKS agent pools, with the names of the AKS API. A change to one of them may replace the pool, or
replace or remove nodes.

The effects of a change are documented in catalog/facts/pool_changes.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from gpu_platform.planning.clouds.aks.plan import AksClusterPlan, AksPoolPlan
from gpu_platform.planning.clouds.section import ALL_ZONES, NOT_SET, CloudCluster, listed
from gpu_platform.planning.pools.section import PoolPlan


def pool_properties(pool: PoolPlan, cluster: CloudCluster) -> Mapping[str, str]:
    """Return the properties of an agent pool, by their names in the AKS API."""
    assert isinstance(cluster, AksClusterPlan)  # noqa: S101 - the plan is of this cloud
    assert isinstance(pool.cloud, AksPoolPlan)  # noqa: S101 - its pools are, too
    return {**_cluster(cluster), **_agent_pool(pool.cloud)}


def _cluster(cluster: AksClusterPlan) -> Mapping[str, str]:
    created = cluster.create
    return {
        "cluster": cluster.name,
        "subscription": cluster.subscription,
        "resource_group": cluster.resource_group,
        "region": cluster.region,
        "vnet_subnet_id": (created.subnet or NOT_SET) if created is not None else NOT_SET,
        "disk_encryption_set": (created.disk_encryption_set or NOT_SET) if created is not None else NOT_SET,
        "private": ("true" if created.private else "false") if created is not None else NOT_SET,
        "pods_cidr": created.pods_cidr if created is not None else NOT_SET,
        "services_cidr": created.services_cidr if created is not None else NOT_SET,
    }


def _agent_pool(pool: AksPoolPlan) -> Mapping[str, str]:
    group, kubelet = pool.proximity_group, pool.kubelet
    limits = asdict(pool.kubelet_limits) if pool.kubelet_limits is not None else {}
    return {
        "vm_size": pool.vm_size,
        "orchestrator_version": pool.orchestrator_version or NOT_SET,
        "gpu_profile": pool.gpu_driver or NOT_SET,
        "os_sku": pool.os_sku,
        "os_disk": f"{pool.os_disk_size_gb} GB {pool.os_disk_type}",
        "availability_zones": listed(pool.zones) or ALL_ZONES,
        "scale_set_priority": pool.priority,
        "capacity_reservation_group": pool.capacity_reservation_group or NOT_SET,
        "proximity_placement_group": (group.id or group.name or NOT_SET) if group is not None else NOT_SET,
        "kubelet_config": listed(
            [
                *([kubelet.cpu_manager_policy, kubelet.topology_manager_policy] if kubelet is not None else []),
                *(f"{name}={value}" for name, value in limits.items() if value is not None),
            ]
        ),
        "linux_os_config": listed(f"{name}={value}" for name, value in sorted(pool.sysctls.items())),
        "count": NOT_SET if pool.autoscaled else str(pool.nodes),
    }
