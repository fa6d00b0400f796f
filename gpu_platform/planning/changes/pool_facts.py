"""What defines each pool of an environment, as a stack output: the next preview holds its own plan against it.

Properties are texts under the names that their platform's API has for them (`catalog/facts/pool_changes.yaml`), so
that they come back from any engine's state as they went in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_platform.planning.clouds.eks.plan import EksClusterPlan, EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.config_maps import content_hash
from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan

NOTHING = ""
ALL_ZONES = "all of the cluster's"


def pool_facts(plan: EnvironmentPlan) -> Mapping[str, Any]:
    """Return the stack output `pools`: by pool, its platform, size, protection and properties, as plain JSON."""
    return {pool.name: _facts(pool, plan) for pool in plan.pools}


def protected(plan: EnvironmentPlan) -> tuple[str, ...]:
    """Return what the engine refuses to delete, for a reader: the stack output `protected`."""
    cluster = plan.cluster.cloud
    return (
        *([f"cluster {cluster.name}"] if cluster is not None and cluster.protect else ()),
        *(f"pool {pool.name}" for pool in plan.pools if pool.cloud is not None and pool.cloud.protect),
    )


def platform_of(pool: PoolPlan) -> str:
    """Return who makes a pool's nodes: eks, karpenter, gke, sandbox, or existing where somebody else does."""
    if pool.cloud is not None:
        return pool.cloud.kind
    return "sandbox" if pool.nodes.ownership == "created" else "existing"


def properties(pool: PoolPlan, plan: EnvironmentPlan) -> Mapping[str, str]:
    """Return the properties whose change replaces a pool or its nodes; `NOTHING` where one is not set."""
    cluster = plan.cluster.cloud
    match pool.cloud:
        case EksPoolPlan() as cloud:
            assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
            return {**_eks_cluster(cluster), **_eks(cloud, cluster)}
        case KarpenterPoolPlan() as cloud:
            assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - its pools are of the same cloud
            return {**_eks_cluster(cluster), **_karpenter(pool, cloud)}
        case GkePoolPlan() as cloud:
            assert isinstance(cluster, GkeClusterPlan)  # noqa: S101 - its pools are of the same cloud
            return {**_gke_cluster(cluster), **_gke(cloud, cluster)}
        case None:
            if platform_of(pool) == "existing":
                return {}
            return {"machine_type": pool.machine_type, "nodes": str(pool.nodes.desired)}


def _facts(pool: PoolPlan, plan: EnvironmentPlan) -> Mapping[str, Any]:
    return {
        "platform": platform_of(pool),
        "nodes": pool.nodes.desired,
        # In the sandbox there is no autoscaler.
        "most_nodes": pool.nodes.max if pool.cloud is not None else pool.nodes.desired,
        "gpus_per_node": pool.gpus_per_node,
        "protected": pool.cloud is not None and pool.cloud.protect,
        "properties": dict(properties(pool, plan)),
    }


def _eks_cluster(cluster: EksClusterPlan) -> Mapping[str, str]:
    return {
        "cluster_name": cluster.name,
        "region": cluster.region,
        "vpc": cluster.create.vpc.cidr if cluster.create is not None else NOTHING,
        "security_groups": _listed(cluster.security_groups),
    }


def _interfaces(cloud: EksPoolPlan) -> str:
    if not cloud.interfaces:
        return NOTHING
    counts = Counter(one.interface_type for one in cloud.interfaces)
    readable = _listed(f"{count} x {kind}" for kind, count in counts.items())
    return f"{readable} ({content_hash(plan_to_json(cloud.interfaces))})"


def _eks(cloud: EksPoolPlan, cluster: EksClusterPlan) -> Mapping[str, str]:
    return {
        "ami_type": cloud.ami_type,
        "version": (cluster.kubernetes or NOTHING) if cloud.ami is None else NOTHING,
        "capacity_type": cloud.capacity_type,
        "subnet_ids": _listed(cloud.zones) or ALL_ZONES,
        "instance_type": cloud.instance_type,
        "image_id": cloud.ami or NOTHING,
        "capacity_reservation": cloud.capacity_reservation or NOTHING,
        "placement_group": cloud.placement_group.name if cloud.placement_group is not None else NOTHING,
        "network_interfaces": _interfaces(cloud),
        "block_device_mappings": _listed(
            _listed(
                (
                    f"{one.device_name} {one.size_gib} GiB {one.volume_type}",
                    *([f"{one.iops} IOPS"] if one.iops else ()),
                    *([f"{one.throughput_mibps} MiB/s"] if one.throughput_mibps else ()),
                    *([one.kms_key] if one.kms_key else ()),
                )
            )
            for one in cloud.block_devices
        ),
        "user_data": content_hash(plan_to_json(cloud.user_data)) if cloud.user_data is not None else NOTHING,
    }


def _karpenter(pool: PoolPlan, cloud: KarpenterPoolPlan) -> Mapping[str, str]:
    """Budgets and consolidation replace no node, so only the template of the NodePool is looked at."""
    template: Mapping[str, Any] = _spec(cloud.node_pool).get("template", {})
    requirements = template.get("spec", {}).get("requirements", ())
    rest = {
        **template,
        "spec": {key: val for key, val in template.get("spec", {}).items() if key != "requirements"},
    }
    readable = _listed([pool.machine_type, pool.capacity["type"], *cloud.zones])
    return {
        "requirements": f"{readable} ({content_hash(plan_to_json(requirements))})",
        "template": content_hash(plan_to_json(rest)),
        "node_class": content_hash(plan_to_json(_spec(cloud.node_class))),
    }


def _spec(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of an object of Kubernetes, whether or not it stands under that key."""
    return resource.get("spec", resource)


def _gke_cluster(cluster: GkeClusterPlan) -> Mapping[str, str]:
    created = cluster.create
    return {
        "cluster": cluster.name,
        "project": cluster.project,
        "location": cluster.location,
        "pods_cidr": created.pods_cidr if created is not None else NOTHING,
        "services_cidr": created.services_cidr if created is not None else NOTHING,
        "control_plane_cidr": created.control_plane_cidr if created is not None else NOTHING,
    }


def _gke(cloud: GkePoolPlan, cluster: GkeClusterPlan) -> Mapping[str, str]:
    accelerator, kubelet = cloud.accelerator, cloud.kubelet
    sharing = (
        f"{accelerator.sharing_strategy}, {accelerator.max_shared_clients}"
        if accelerator.sharing_strategy is not None
        else NOTHING
    )
    networks = _listed(f"{network.vpc}/{network.subnet}" for network in cluster.networks[: cloud.gpu_networks])
    return {
        "guest_accelerator": f"{accelerator.count} x {accelerator.type}",
        "provisioning": _listed(
            [
                "spot" if cloud.spot else "flex-start" if cloud.flex_start else "standard",
                cloud.reservation.type,
            ]
        ),
        "queued_provisioning": "true" if cloud.queued_provisioning else "false",
        "max_run_duration": f"{cloud.max_run_duration_seconds}s" if cloud.max_run_duration_seconds else NOTHING,
        "reservation_affinity": _listed(cloud.reservation.values),
        "placement_policy": cloud.placement.policy if cloud.placement is not None else NOTHING,
        "additional_networks": _listed([cloud.network, *([networks] if networks else [])]),
        "local_ssd": str(cloud.local_ssd_count),
        "boot_disk_kms_key": cloud.kms_key or NOTHING,
        "shielded_instance_config": "secure boot" if cloud.secure_boot else NOTHING,
        "gpu_driver_installation_config": accelerator.driver_version,
        "gpu_sharing_config": sharing,
        "gpu_partition_size": accelerator.partition_size or NOTHING,
        "machine_type": cloud.machine_type,
        "image_type": cloud.image_type,
        "disk": f"{cloud.disk_size_gb} GB {cloud.disk_type}",
        "kubelet_config": _listed(
            [
                kubelet.cpu_manager_policy,
                kubelet.topology_policy,
                kubelet.topology_scope,
                kubelet.memory_policy or "",
            ]
            if kubelet is not None
            else []
        ),
        "node_locations": _listed(cloud.node_locations) or ALL_ZONES,
    }


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)
