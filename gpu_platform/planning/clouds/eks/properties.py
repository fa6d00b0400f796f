"""Properties of EKS pools, using the names of the APIs. A change to one of them replaces the pool or its nodes.

The effects of a change are documented in catalog/facts/pool_changes.yaml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.planning.clouds.eks.blocks import BlockPlan
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.launch_plan import UserData
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.eks.zones import is_local_zone
from gpu_platform.planning.clouds.section import ALL_ZONES, NOT_SET, CloudCluster, listed
from gpu_platform.planning.config_maps import content_hash
from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.planning.pools.section import PoolPlan

_ZONE = "topology.kubernetes.io/zone"
_OUTSIDE = "outside open reservations"


def pool_properties(pool: PoolPlan, cluster: CloudCluster) -> Mapping[str, str]:
    """Return the properties of a managed node group, or of a Karpenter NodePool and its EC2NodeClass."""
    plan = pool.cloud
    assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
    assert isinstance(plan, EksPoolPlan | KarpenterPoolPlan)  # noqa: S101 - its pools are, too
    if isinstance(plan, KarpenterPoolPlan):
        return _karpenter_properties(plan, pool.machine_type, pool.capacity["type"], cluster)
    return {**_cluster(cluster), **_node_group(plan, cluster)}


def _karpenter_properties(
    pool: KarpenterPoolPlan, machine_type: str, capacity_type: str, cluster: EksClusterPlan
) -> Mapping[str, str]:
    """Return the properties of a Karpenter NodePool and its EC2NodeClass.

    Only the template of the NodePool is compared, because changes to budgets and consolidation do not replace
    nodes.
    """
    everywhere = [zone for zone in cluster.known_subnets if not is_local_zone(zone)]
    return {
        **_cluster(cluster),
        "node_role": cluster.karpenter_node_role or cluster.iam.new_role,
        "subnets": _subnets(cluster, pool.zones or everywhere),
        # The owner upgrades an existing cluster, so its nodes can change before the stack file is edited.
        "version": NOT_SET if pool.keeps_version or cluster.create is None else cluster.kubernetes or NOT_SET,
        **_karpenter(pool, machine_type, capacity_type),
    }


def _cluster(cluster: EksClusterPlan) -> Mapping[str, str]:
    return {
        "cluster_name": cluster.name,
        "region": cluster.region,
        "vpc": cluster.create.vpc.shown if cluster.create is not None else NOT_SET,
        "services_cidr": (cluster.create.services_cidr if cluster.create is not None else None) or NOT_SET,
        "cluster_role": cluster.iam.new_role if cluster.create is not None else NOT_SET,
        "security_groups": listed(cluster.security_groups),
        "tags": _tags(cluster.company_tags),
    }


def _subnets(cluster: EksClusterPlan, zones: Sequence[str]) -> str:
    return listed(f"{zone}={subnet}" for zone, subnet in cluster.known_subnets.items() if zone in zones)


def _tags(tags: Mapping[str, str]) -> str:
    return listed(f"{key}={value}" for key, value in sorted(tags.items()))


def _interfaces(pool: EksPoolPlan) -> str:
    if not pool.interfaces:
        return NOT_SET
    counts = Counter(one.interface_type for one in pool.interfaces)
    readable = listed(f"{count} x {kind}" for kind, count in counts.items())
    return f"{readable} ({content_hash(plan_to_json(pool.interfaces))})"


def _node_group(pool: EksPoolPlan, cluster: EksClusterPlan) -> Mapping[str, str]:
    return {
        # Only groups with reserved capacity have a fixed name.
        # A group that is switched to reserved capacity keeps its old name.
        "node_group_name": pool.node_group if pool.delete_before_replace else NOT_SET,
        "node_role": cluster.iam.node_role or cluster.iam.new_role,
        # A group without zones stays in the subnets where it was created.
        "subnets": _subnets(cluster, pool.zones) if pool.zones else NOT_SET,
        "tags": _tags({**cluster.company_tags, **pool.company_tags}),
        "ami_type": pool.ami_type,
        "version": NOT_SET if pool.ami is not None else cluster.kubernetes or NOT_SET,
        "release_version": pool.release_version or NOT_SET,
        "capacity_type": pool.capacity_type,
        # With several blocks, each block has a node group in its own zone.
        "subnet_ids": listed(pool.zones[:1] if pool.several_blocks else pool.zones) or ALL_ZONES,
        "instance_type": pool.instance_type,
        "instance_types": listed(pool.instance_types),
        "image_id": pool.ami or NOT_SET,
        "capacity_reservation": pool.capacity_reservation or (_OUTSIDE if pool.avoids_reservations else NOT_SET),
        "capacity_blocks": _blocks(pool.blocks) if pool.several_blocks else NOT_SET,
        "placement_group": pool.placement_group.name if pool.placement_group is not None else NOT_SET,
        "network_interfaces": _interfaces(pool),
        "block_device_mappings": listed(
            listed(
                (
                    f"{one.device_name} {one.size_gib} GiB {one.volume_type}",
                    *([f"{one.iops} IOPS"] if one.iops else ()),
                    *([f"{one.throughput_mibps} MiB/s"] if one.throughput_mibps else ()),
                    *([one.kms_key] if one.kms_key else ()),
                    *([one.snapshot] if one.snapshot else ()),
                )
            )
            for one in pool.block_devices
        ),
        "desired_size": str(pool.desired_size),
        "user_data": _user_data_hash(pool.user_data) if pool.user_data is not None else NOT_SET,
    }


def _blocks(blocks: Sequence[BlockPlan]) -> str:
    return listed(f"{block.window.reservation} {block.window.shown}" for block in blocks)


def _user_data_hash(user_data: UserData) -> str:
    # Do not rename these keys.
    # A different hash would make the preview of a deployed stack show a replacement of all nodes.
    return content_hash(
        {
            "format": user_data.format,
            "settings": plan_to_json(user_data.settings),
            "joins": user_data.needs_cluster_access,
            # These keys are omitted if they are empty, so that existing pools keep their hash.
            **({"sysctls": dict(user_data.sysctls)} if user_data.sysctls else {}),
            **({"commands": list(user_data.commands)} if user_data.commands else {}),
        }
    )


def _karpenter(pool: KarpenterPoolPlan, machine_type: str, capacity_type: str) -> Mapping[str, str]:
    template: Mapping[str, Any] = _spec(pool.node_pool).get("template", {})
    requirements = template.get("spec", {}).get("requirements", ())
    rest = {
        **template,
        "spec": {key: val for key, val in template.get("spec", {}).items() if key != "requirements"},
    }
    node_class, zones = _spec(pool.node_class), pool.zones
    if pool.several_blocks:
        # A new block in another zone does not change the nodes of other blocks.
        # Karpenter compares each node with the blocks and zones that the pool selects at this time.
        # Source: Karpenter docs, disruption, drift; read 2026-11-23.
        requirements = [one for one in requirements if one["key"] != _ZONE]
        node_class = {key: val for key, val in node_class.items() if key != "capacityReservationSelectorTerms"}
        zones = ()
    readable = listed([machine_type, capacity_type, *zones])
    blocks = (f"{window.reservation} {window.shown}" for window in pool.reservations)
    return {
        "requirements": f"{readable} ({content_hash(plan_to_json(requirements))})",
        "template": content_hash(plan_to_json(rest)),
        "node_class": content_hash(plan_to_json(node_class)),
        "capacity_blocks": listed(blocks) if pool.several_blocks else NOT_SET,
    }


def _spec(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of a Kubernetes object, or the object itself if it has no key `spec`."""
    return resource.get("spec", resource)
