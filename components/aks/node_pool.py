"""`AksNodePool`: the nodes of one pool as an AKS agent pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_azure as azure

from components._options import child_options, custom_timeouts
from components.aks.outputs import AksOutputs
from components.mig_guard import guarded
from gpu_platform.base.quantity import parse_memory_mib
from gpu_platform.planning.clouds.aks.plan import MAX_PODS, AksPoolPlan, AksUpgrade
from gpu_platform.planning.nodes.section import KubeletLimits
from gpu_platform.planning.pools.section import PoolPlan

# Spot nodes pay at most the on-demand price, and are deleted when Azure reclaims them.
_SPOT_MAX_PRICE = -1
_EVICTION = "Delete"
_MODE = "User"
# The provider changes these only by moving all nodes to a temporary pool and back. The program replaces the pool
# instead, so that a preview announces it and no second set of GPU nodes is needed.
_REPLACED = [
    "kubeletConfig",
    "linuxOsConfig",
    "maxPods",
    "osDiskSizeGb",
    "osDiskType",
    "vmSize",
    "vnetSubnetId",
    "zones",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AksNodePoolArgs:
    """Plan for the pool, and the cluster that it joins."""

    pool: PoolPlan
    cluster: AksOutputs


class AksNodePool(pulumi.ComponentResource):
    """An AKS agent pool with the nodes of one pool and, if planned, its proximity placement group.

    Outputs: `agent_pool`, the name of the agent pool.
    """

    agent_pool: pulumi.Output[str]

    def __init__(self, name: str, args: AksNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:AksNodePool", name, None, opts)
        pool, cluster = args.pool, args.cluster
        plan, self._timeouts = pool.cloud, custom_timeouts(pool.cloud_nodes.timeouts)
        assert isinstance(plan, AksPoolPlan)  # noqa: S101 - pools of other clouds have their own components
        first = child_options(self, opts, *cluster.ready)
        first.provider = cluster.provider
        self._guard = guarded(pool)
        group = self._proximity_group(plan, cluster, first)
        agent_pool = self._create_node_pool(plan, cluster, group, first)
        self.agent_pool = agent_pool.name
        self.register_outputs({"agent_pool": self.agent_pool})

    def _proximity_group(
        self, plan: AksPoolPlan, cluster: AksOutputs, opts: pulumi.ResourceOptions
    ) -> pulumi.Input[str] | None:
        """Return the ID of the pool's proximity placement group, which may have to be created."""
        group = plan.proximity_group
        if group is None or group.name is None:
            return group.id if group is not None else None
        return azure.proximity.PlacementGroup(
            group.name,
            name=group.name,
            location=cluster.region,
            resource_group_name=cluster.resource_group,
            tags=plan.tags,
            opts=opts,
        ).id

    def _create_node_pool(
        self,
        plan: AksPoolPlan,
        cluster: AksOutputs,
        group: pulumi.Input[str] | None,
        opts: pulumi.ResourceOptions,
    ) -> azure.containerservice.KubernetesClusterNodePool:
        spot = plan.priority == "Spot"
        return azure.containerservice.KubernetesClusterNodePool(
            plan.agent_pool,
            name=plan.agent_pool,
            kubernetes_cluster_id=cluster.cluster_id,
            mode=_MODE,
            vm_size=plan.vm_size,
            orchestrator_version=plan.orchestrator_version,
            gpu_driver=plan.gpu_driver,
            os_sku=plan.os_sku,
            os_disk_type=plan.os_disk_type,
            os_disk_size_gb=plan.os_disk_size_gb,
            zones=list(plan.zones) or None,
            vnet_subnet_id=cluster.subnet_id,
            max_pods=MAX_PODS,
            capacity_reservation_group_id=plan.capacity_reservation_group,
            priority=plan.priority,
            eviction_policy=_EVICTION if spot else None,
            spot_max_price=_SPOT_MAX_PRICE if spot else None,
            auto_scaling_enabled=plan.autoscaled,
            node_count=plan.nodes,
            min_count=plan.min_nodes if plan.autoscaled else None,
            max_count=plan.max_nodes if plan.autoscaled else None,
            proximity_placement_group_id=group,
            upgrade_settings=_upgrade(plan.upgrade),
            kubelet_config=_kubelet(plan),
            linux_os_config=_linux(plan),
            node_labels=plan.labels,
            node_taints=list(plan.taints),
            tags=plan.tags,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    ignore_changes=["nodeCount"] if plan.autoscaled else None,
                    replace_on_changes=_REPLACED,
                    delete_before_replace=True,
                    protect=plan.protect,
                    custom_timeouts=self._timeouts,
                    hooks=self._guard.hooks,
                ),
            ),
        )


def _upgrade(
    upgrade: AksUpgrade | None,
) -> azure.containerservice.KubernetesClusterNodePoolUpgradeSettingsArgs | None:
    if upgrade is None:
        return None
    # The provider refuses both, even if one of them is 0, and sends 0 for the other.
    return azure.containerservice.KubernetesClusterNodePoolUpgradeSettingsArgs(
        max_surge=str(upgrade.max_surge) if upgrade.max_surge else None,
        max_unavailable=str(upgrade.max_unavailable) if upgrade.max_unavailable else None,
        drain_timeout_in_minutes=upgrade.drain_minutes,
    )


def _kubelet(plan: AksPoolPlan) -> azure.containerservice.KubernetesClusterNodePoolKubeletConfigArgs | None:
    kubelet, limits = plan.kubelet, plan.kubelet_limits or KubeletLimits()
    if kubelet is None and plan.kubelet_limits is None:
        return None
    size = limits.container_log_max_size
    return azure.containerservice.KubernetesClusterNodePoolKubeletConfigArgs(
        cpu_manager_policy=kubelet.cpu_manager_policy if kubelet is not None else None,
        topology_manager_policy=kubelet.topology_manager_policy if kubelet is not None else None,
        pod_max_pid=limits.pod_pids_limit,
        container_log_max_size_mb=parse_memory_mib(size) if size is not None else None,
        container_log_max_files=limits.container_log_max_files,
        image_gc_high_threshold=limits.image_gc_high_percent,
        image_gc_low_threshold=limits.image_gc_low_percent,
        # The provider sends false if the value is unset, and the kubelet then ignores CPU limits.
        cpu_cfs_quota_enabled=limits.cpu_cfs_quota is not False,
    )


def _linux(plan: AksPoolPlan) -> azure.containerservice.KubernetesClusterNodePoolLinuxOsConfigArgs | None:
    if not plan.sysctls:
        return None
    settings: dict[str, Any] = {
        name.replace(".", "_").replace("-", "_"): int(value) for name, value in plan.sysctls.items()
    }
    return azure.containerservice.KubernetesClusterNodePoolLinuxOsConfigArgs(
        sysctl_config=azure.containerservice.KubernetesClusterNodePoolLinuxOsConfigSysctlConfigArgs(**settings)
    )
