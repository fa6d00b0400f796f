"""Properties of GKE node pools, with the names of the GKE API. A change to one of them may replace the pool, or
replace or remove nodes.

The effects of a change are documented in catalog/facts/pool_changes.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from gpu_platform.planning.clouds.gke.plan import ExistingVpcPlan, GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.clouds.section import ALL_ZONES, NOT_SET, CloudCluster, listed, per_zone_text
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from gpu_platform.planning.pools.section import PoolPlan


def pool_properties(pool: PoolPlan, cluster: CloudCluster) -> Mapping[str, str]:
    """Return the properties of a node pool, by their names in the GKE API."""
    assert isinstance(cluster, GkeClusterPlan)  # noqa: S101 - the plan is of this cloud
    assert isinstance(pool.cloud, GkePoolPlan)  # noqa: S101 - its pools are, too
    return {**_cluster(cluster), **_node_pool(pool.cloud, cluster)}


def _cluster(cluster: GkeClusterPlan) -> Mapping[str, str]:
    created = cluster.create
    return {
        "cluster": cluster.name,
        "project": cluster.project,
        "location": cluster.location,
        "network": _network(created.existing_vpc) if created is not None else NOT_SET,
        "service_account": cluster.node_email or NOT_SET,
        "nodes_cidr": created.nodes_cidr if created is not None and created.existing_vpc is None else NOT_SET,
        "pods_cidr": created.pods_cidr if created is not None else NOT_SET,
        "services_cidr": created.services_cidr if created is not None else NOT_SET,
        "control_plane_cidr": created.control_plane_cidr if created is not None else NOT_SET,
    }


def _network(vpc: ExistingVpcPlan | None) -> str:
    if vpc is None:
        return NOT_SET
    return listed([vpc.subnetwork, vpc.pods_range, vpc.services_range, vpc.network])


def _node_pool(pool: GkePoolPlan, cluster: GkeClusterPlan) -> Mapping[str, str]:
    accelerator, kubelet = pool.accelerator, pool.kubelet
    sharing = (
        f"{accelerator.sharing_strategy}, {accelerator.max_shared_clients}"
        if accelerator is not None and accelerator.sharing_strategy is not None
        else NOT_SET
    )
    networks = listed(f"{network.vpc}/{network.subnet}" for network in cluster.networks[: pool.gpu_networks])
    return {
        "guest_accelerator": f"{accelerator.count} x {accelerator.type}" if accelerator is not None else NOT_SET,
        "provisioning": listed(
            [
                "spot" if pool.spot else "flex-start" if pool.flex_start else "standard",
                pool.reservation.type,
            ]
        ),
        "queued_provisioning": "true" if pool.queued_provisioning else "false",
        "max_run_duration": f"{pool.max_run_duration_seconds}s" if pool.max_run_duration_seconds else NOT_SET,
        "reservation_affinity": listed(pool.reservation.values),
        "placement_policy": pool.placement.policy if pool.placement is not None else NOT_SET,
        "additional_networks": listed([pool.network, *([networks] if networks else [])]),
        "gpu_network_ranges": listed(network.cidr for network in cluster.networks[: pool.gpu_networks]),
        "local_ssd": str(pool.local_ssd_count),
        "boot_disk_kms_key": pool.kms_key or NOT_SET,
        "shielded_instance_config": "secure boot" if pool.secure_boot else NOT_SET,
        "gpu_driver_installation_config": accelerator.driver_version if accelerator is not None else NOT_SET,
        "gpu_sharing_config": sharing,
        "gpu_partition_size": (accelerator.partition_size if accelerator is not None else None) or NOT_SET,
        "version": pool.version or NOT_SET,
        "machine_type": pool.machine_type,
        "image_type": pool.image_type,
        "disk": f"{pool.disk_size_gb} GB {pool.disk_type}",
        "kubelet_config": listed(
            [
                *(
                    (
                        kubelet.cpu_manager_policy,
                        kubelet.topology_policy,
                        kubelet.topology_scope,
                        kubelet.memory_policy or "",
                    )
                    if kubelet is not None
                    else ()
                ),
                *_limits(pool.kubelet_limits),
            ]
        ),
        "linux_node_config": listed(
            [
                *(f"{name}={value}" for name, value in sorted(pool.sysctls.items())),
                *([f"{pool.huge_pages} huge pages"] if pool.huge_pages else []),
                *([_script(pool.init_script)] if pool.init_script is not None else []),
            ]
        ),
        "gcfs_config": "image streaming" if pool.image_streaming else NOT_SET,
        "secondary_boot_disks": pool.image_cache or NOT_SET,
        "node_locations": listed(pool.node_locations) or ALL_ZONES,
        "node_count": NOT_SET if pool.autoscaled else per_zone_text(pool.nodes_per_location),
    }


def _limits(limits: KubeletLimits | None) -> list[str]:
    named = asdict(limits) if limits is not None else {}
    return [f"{name}={value}" for name, value in named.items() if value is not None]


def _script(script: NodeScript) -> str:
    return f"script {script.secret or f'{script.gcs}#{script.generation}'}"
