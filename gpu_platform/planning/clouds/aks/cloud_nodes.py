"""Derive properties of an AKS pool's nodes from the pool's plan."""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.aks.plan import AksPoolPlan, agent_pool_timeouts
from gpu_platform.planning.clouds.endings import reclaimed
from gpu_platform.planning.clouds.section import CloudNodes, RollLimits


def agent_pool_nodes(plan: AksPoolPlan, region: str, catalog: Catalog) -> CloudNodes:
    """Return how AKS creates, rolls, replaces and deletes the nodes of an agent pool.

    An agent pool is deleted before its replacement is created, because both have the same name.
    """
    upgrade = plan.upgrade
    at_a_time = 1 if upgrade is None else upgrade.max_surge + upgrade.max_unavailable
    return CloudNodes(
        platform=plan.kind,
        protect=plan.protect,
        zones=tuple(f"{region}-{zone}" for zone in plan.zones),
        several_zones=len(plan.zones) > 1,
        # Without zones, Azure chooses no zone at all.
        leaves_zones=len(plan.zones) > 1 and plan.nodes < len(plan.zones),
        placement="proximity" if plan.proximity_group is not None else "none",
        replaced_delete_first=True,
        rolled_delete_first=upgrade is None or upgrade.max_surge == 0,
        timeouts=agent_pool_timeouts(plan.max_nodes, at_a_time),
        roll_limits=RollLimits(
            at_a_time=at_a_time,
            image="the newest node image",
        ),
        os_release=catalog.os_release("azure", plan.os_sku),
        autoscaled=plan.autoscaled,
        sets_size="on-creation" if plan.autoscaled else "always",
        replacement="AKS agent pool of the node: az aks nodepool delete-machines --machine-names NODE deletes it, "
        "and az aks nodepool scale creates another",
        disk_gib=plan.os_disk_size_gb,
        pod_endings=(reclaimed("aks", catalog),) if plan.priority == "Spot" else (),
        moves_pods="AKS's autoscaler removes underused nodes" if plan.autoscaled else "",
    )
