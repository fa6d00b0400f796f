"""Derive properties of a GKE pool's nodes from the pool's plan. The properties include zones, NICs, how nodes are
rolled or replaced, and why pods on them may be terminated.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.endings import PodEnding, reclaimed, window_endings
from gpu_platform.planning.clouds.gke.plan import (
    RDMA_DEVICE_CLASS,
    RDMA_MTU,
    TCPX_MTU,
    GkePoolPlan,
    UpgradeSettings,
    node_pool_timeouts,
)
from gpu_platform.planning.clouds.section import CloudNodes, FabricNics, NicDevices, NodeFabric, RollLimits
from gpu_platform.planning.nodes.section import HUGE_PAGE_MIB


def node_pool_nodes(plan: GkePoolPlan, catalog: Catalog) -> CloudNodes:
    """Return how GKE creates, rolls, replaces and deletes the nodes of a node pool."""
    fabric = _node_fabric(plan)
    limits = _roll_limits(plan.upgrade)
    return CloudNodes(
        platform=plan.kind,
        protect=plan.protect,
        zones=plan.node_locations,
        several_zones=len(plan.node_locations) != 1,
        placement="compact" if plan.placement is not None else "none",
        replaced_delete_first=plan.delete_before_replace,
        rolled_delete_first=plan.upgrade is None
        or (plan.upgrade.strategy != "BLUE_GREEN" and not plan.upgrade.max_surge),
        timeouts=node_pool_timeouts(plan.max_nodes, limits.at_a_time),
        roll_limits=limits,
        created_on_demand="created by GKE when it has the capacity" if plan.flex_start else None,
        huge_pages_mib=plan.huge_pages * HUGE_PAGE_MIB,
        os_release=catalog.os_release("gcp", plan.image_type),
        autoscaled=plan.autoscaled,
        sets_size="on-creation" if plan.autoscaled else "always",
        equal_zones=True,
        # Flex-start nodes are too short-lived for upgrades.
        keeps_version=plan.upgrades_excluded or plan.upgrade is None,
        nodes_by_request=plan.queued_provisioning,
        # The driver name of GKE's managed DRANET is not documented.
        nic_devices=NicDevices(device_class=RDMA_DEVICE_CLASS, per_node=plan.claimed_nics, driver=None)
        if plan.claimed_nics
        else None,
        fabric_nics=_fabric_nics(plan, fabric),
        node_fabric=fabric,
        replacement="GKE node pool of the node: drain the node and recreate its instance (gcloud compute "
        "instance-groups managed recreate-instances GROUP --instances NODE)",
        local_nvme=plan.local_ssd_count > 0,
        disk_gib=plan.disk_size_gb,
        windows=plan.windows,
        pod_endings=_pod_endings(plan, catalog),
        # Ray documents that the autoscaler evicts a Ray head from an underused node.
        # Source: ray-project/ray#64907; read 2026-11-30.
        # The autoscaler does not consolidate nodes that queued provisioning created for one workload.
        moves_pods="GKE's autoscaler removes underused nodes"
        if plan.autoscaled and not plan.queued_provisioning
        else "",
    )


def _roll_limits(upgrade: UpgradeSettings | None) -> RollLimits:
    """Return how GKE rolls the nodes. A blue-green upgrade replaces all nodes at the same time."""
    if upgrade is None:
        return RollLimits(new_nodes_only=True)
    if upgrade.strategy == "BLUE_GREEN":
        return RollLimits()
    return RollLimits(at_a_time=(upgrade.max_surge or 0) + (upgrade.max_unavailable or 0))


def _node_fabric(plan: GkePoolPlan) -> NodeFabric | None:
    """Return the GPUDirect fabric of the pool's NICs, or None.

    Pods read the GPUDirect libraries on the node, and some pods write to the node's devices.
    """
    if plan.fabric == "none":
        return None
    accelerator = {} if plan.accelerator is None else {names.GKE_ACCELERATOR_LABEL: plan.accelerator.type}
    return NodeFabric(
        name=plan.fabric,
        labels={**accelerator, names.INSTANCE_TYPE_LABEL: plan.machine_type},
        networks=tuple(
            # With RDMA, the network at index 0 is the gVNIC network.
            f"rdma-{index - 1}" if plan.fabric == "rdma" else f"vpc{index + 1}"
            for index in range(plan.gpu_networks)
            if plan.fabric != "rdma" or index
        ),
    )


def _fabric_nics(plan: GkePoolPlan, fabric: NodeFabric | None) -> FabricNics | None:
    """Return the NICs for GPU traffic, such as NVIDIA NICs with RDMA or additional gVNIC interfaces."""
    if plan.fabric == "rdma":
        count = plan.claimed_nics or len(fabric.networks if fabric is not None else ())
        # The MTU of networks that GKE creates from a network profile is not documented.
        mtu = None if plan.claimed_nics else RDMA_MTU
        return FabricNics(kind="mlx5", count=count, mtu=mtu) if count else None
    if not plan.gpu_networks:
        return None
    return FabricNics(kind="gvnic", count=plan.gpu_networks + 1, mtu=TCPX_MTU)


def _pod_endings(plan: GkePoolPlan, catalog: Catalog) -> tuple[PodEnding, ...]:
    """Return why pods may be terminated. Spot nodes can be reclaimed, flex-start nodes have a maximum lifetime,
    and reservations end.
    """
    if plan.max_run_duration_seconds is not None:
        return (
            PodEnding(
                why="flex-start: GKE deletes the nodes after this time", after=plan.max_run_duration_seconds
            ),
        )
    if plan.spot:
        return (reclaimed("gke", catalog),)
    # The grace period of pods at the end of a reservation is not documented.
    return window_endings(plan.windows, "the nodes of a reservation are deleted when it ends", None)
