"""`GkeNodePool`: the nodes of one pool as a GKE node pool."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._options import child_options, custom_timeouts
from components.gke._nodes import INTEGRITY_MONITORING, METADATA_MODE, OAUTH_SCOPES
from components.gke.outputs import GkeOutputs
from components.mig_guard import guarded
from gpu_platform.planning.clouds.gke.plan import (
    Accelerator,
    CompactPlacement,
    GkeKubelet,
    GkePoolPlan,
    UpgradeSettings,
)
from gpu_platform.planning.nodes.section import KubeletLimits, NodeScript
from gpu_platform.planning.pools.section import PoolPlan

# Fields that GKE sets itself. The stack's labels are not included, because changes to them must be applied.
_DRIFTS = [
    "initialNodeCount",
    'nodeConfig.resourceLabels["goog-gke-accelerator-type"]',
    'nodeConfig.resourceLabels["goog-gke-node-pool-provisioning-model"]',
]

_CONTAINER_IMAGES = "CONTAINER_IMAGE_CACHE"
# The only collocation value for compact placement. It places nodes close together in one zone.
_COLLOCATION = "COLLOCATED"
# The only workload policy type that supports an accelerator topology.
_THROUGHPUT = "HIGH_THROUGHPUT"
# GKE does not upgrade the pool's nodes until their version is out of support.
_UPGRADES_EXCLUDED = [
    gcp.container.NodePoolMaintenancePolicyArgs(
        exclusion_until_end_of_supports=[
            gcp.container.NodePoolMaintenancePolicyExclusionUntilEndOfSupportArgs(enabled=True)
        ]
    )
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeNodePoolArgs:
    """Plan for the pool, and the cluster that it joins."""

    pool: PoolPlan
    cluster: GkeOutputs


class GkeNodePool(pulumi.ComponentResource):
    """A GKE node pool with the nodes of one pool and, if planned, the resource policy for their placement.

    Pulumi adds a suffix to the name, so that a new node pool can exist before the old one is deleted.

    Outputs: `node_pool`, the name of the node pool.
    """

    node_pool: pulumi.Output[str]

    def __init__(self, name: str, args: GkeNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeNodePool", name, None, opts)
        pool, cluster = args.pool, args.cluster
        plan, self._timeouts = pool.cloud, custom_timeouts(pool.cloud_nodes.timeouts)
        assert isinstance(plan, GkePoolPlan)  # noqa: S101 - pools of other clouds have their own components
        first = child_options(self, opts, *cluster.ready)
        first.provider = cluster.provider
        self._guard = guarded(pool)
        policy = self._create_resource_policy(plan, first)
        node_pool = self._create_node_pool(plan, cluster, policy, first)
        self.node_pool = node_pool.name
        self.register_outputs({"node_pool": self.node_pool})

    def _create_resource_policy(
        self, plan: GkePoolPlan, opts: pulumi.ResourceOptions
    ) -> gcp.compute.ResourcePolicy | None:
        """Create the resource policy in the provider's project and region, which are also the cluster's."""
        if plan.placement is None or not plan.placement.create:
            return None
        return gcp.compute.ResourcePolicy(
            plan.placement.policy,
            group_placement_policy=(
                gcp.compute.ResourcePolicyGroupPlacementPolicyArgs(collocation=_COLLOCATION)
                if plan.placement.topology is None
                else None
            ),
            workload_policy=(
                gcp.compute.ResourcePolicyWorkloadPolicyArgs(
                    type=_THROUGHPUT, accelerator_topology=plan.placement.topology
                )
                if plan.placement.topology is not None
                else None
            ),
            opts=opts,
        )

    def _create_node_pool(
        self,
        plan: GkePoolPlan,
        cluster: GkeOutputs,
        policy: gcp.compute.ResourcePolicy | None,
        opts: pulumi.ResourceOptions,
    ) -> gcp.container.NodePool:
        return gcp.container.NodePool(
            plan.node_pool,
            cluster=cluster.cluster,
            version=plan.version,
            maintenance_policies=_UPGRADES_EXCLUDED if plan.upgrades_excluded else None,
            node_locations=list(plan.node_locations) or None,
            initial_node_count=plan.nodes_per_location if plan.autoscaled else None,
            node_count=None if plan.autoscaled else plan.nodes_per_location,
            autoscaling=_autoscaling(plan),
            management=gcp.container.NodePoolManagementArgs(
                auto_repair=plan.auto_repair, auto_upgrade=plan.auto_upgrade
            ),
            upgrade_settings=_upgrade(plan.upgrade),
            placement_policy=_placement(plan.placement, policy),
            queued_provisioning=(
                gcp.container.NodePoolQueuedProvisioningArgs(enabled=True) if plan.queued_provisioning else None
            ),
            network_config=_network(plan, cluster),
            node_config=_node_config(plan, cluster),
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    ignore_changes=_DRIFTS,
                    delete_before_replace=plan.delete_before_replace,
                    protect=plan.protect,
                    custom_timeouts=self._timeouts,
                    hooks=self._guard.hooks,
                ),
            ),
        )


def _node_config(plan: GkePoolPlan, cluster: GkeOutputs) -> gcp.container.NodePoolNodeConfigArgs:
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=plan.machine_type,
        image_type=plan.image_type,
        guest_accelerators=[_accelerator(plan.accelerator)] if plan.accelerator is not None else None,
        disk_type=plan.disk_type,
        disk_size_gb=plan.disk_size_gb,
        boot_disk_kms_key=plan.kms_key,
        ephemeral_storage_local_ssd_config=_local_ssds(plan.local_ssd_count),
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=plan.gvnic),
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=True) if plan.image_streaming else None,
        secondary_boot_disks=[
            gcp.container.NodePoolNodeConfigSecondaryBootDiskArgs(
                disk_image=plan.image_cache, mode=_CONTAINER_IMAGES
            )
        ]
        if plan.image_cache is not None
        else None,
        spot=plan.spot,
        flex_start=plan.flex_start,
        max_run_duration=None if plan.max_run_duration_seconds is None else f"{plan.max_run_duration_seconds}s",
        reservation_affinity=gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type=plan.reservation.type,
            key=plan.reservation.key,
            values=list(plan.reservation.values) or None,
        ),
        shielded_instance_config=gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
            enable_secure_boot=plan.secure_boot, enable_integrity_monitoring=INTEGRITY_MONITORING
        ),
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode=METADATA_MODE),
        service_account=cluster.node_service_account,
        oauth_scopes=OAUTH_SCOPES,
        kubelet_config=_kubelet(plan),
        linux_node_config=_linux(plan),
        labels=plan.labels,
        taints=[
            gcp.container.NodePoolNodeConfigTaintArgs(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in plan.taints
        ],
        resource_labels=plan.resource_labels,
    )


def _accelerator(accelerator: Accelerator) -> gcp.container.NodePoolNodeConfigGuestAcceleratorArgs:
    sharing = None
    if accelerator.sharing_strategy is not None:
        sharing = gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
            gpu_sharing_strategy=accelerator.sharing_strategy,
            max_shared_clients_per_gpu=accelerator.max_shared_clients or 1,
        )
    return gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=accelerator.type,
        count=accelerator.count,
        gpu_driver_installation_config=(
            gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
                gpu_driver_version=accelerator.driver_version
            )
        ),
        gpu_sharing_config=sharing,
        gpu_partition_size=accelerator.partition_size,
    )


def _local_ssds(count: int) -> gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs | None:
    if count == 0:
        return None
    return gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(local_ssd_count=count)


def _kubelet(plan: GkePoolPlan) -> gcp.container.NodePoolNodeConfigKubeletConfigArgs | None:
    kubelet, limits = plan.kubelet, plan.kubelet_limits or KubeletLimits()
    if kubelet is None and plan.kubelet_limits is None:
        return None
    return gcp.container.NodePoolNodeConfigKubeletConfigArgs(
        cpu_manager_policy=kubelet.cpu_manager_policy if kubelet is not None else None,
        topology_manager=_topology(kubelet),
        memory_manager=_memory(kubelet),
        pod_pids_limit=limits.pod_pids_limit,
        container_log_max_size=limits.container_log_max_size,
        container_log_max_files=limits.container_log_max_files,
        image_gc_high_threshold_percent=limits.image_gc_high_percent,
        image_gc_low_threshold_percent=limits.image_gc_low_percent,
        # Older provider versions send false if the value is unset, and the kubelet then ignores CPU limits.
        cpu_cfs_quota=limits.cpu_cfs_quota is not False,
    )


def _topology(
    kubelet: GkeKubelet | None,
) -> gcp.container.NodePoolNodeConfigKubeletConfigTopologyManagerArgs | None:
    if kubelet is None:
        return None
    return gcp.container.NodePoolNodeConfigKubeletConfigTopologyManagerArgs(
        policy=kubelet.topology_policy, scope=kubelet.topology_scope
    )


def _memory(kubelet: GkeKubelet | None) -> gcp.container.NodePoolNodeConfigKubeletConfigMemoryManagerArgs | None:
    if kubelet is None or kubelet.memory_policy is None:
        return None
    return gcp.container.NodePoolNodeConfigKubeletConfigMemoryManagerArgs(policy=kubelet.memory_policy)


def _linux(plan: GkePoolPlan) -> gcp.container.NodePoolNodeConfigLinuxNodeConfigArgs | None:
    script = plan.init_script
    if not plan.sysctls and not plan.huge_pages and script is None:
        return None
    pages = None
    if plan.huge_pages:
        pages = gcp.container.NodePoolNodeConfigLinuxNodeConfigHugepagesConfigArgs(hugepage_size2m=plan.huge_pages)
    return gcp.container.NodePoolNodeConfigLinuxNodeConfigArgs(
        sysctls=plan.sysctls or None,
        hugepages_config=pages,
        custom_node_init=_init_script(script) if script is not None else None,
    )


def _init_script(script: NodeScript) -> gcp.container.NodePoolNodeConfigLinuxNodeConfigCustomNodeInitArgs:
    return gcp.container.NodePoolNodeConfigLinuxNodeConfigCustomNodeInitArgs(
        init_script=gcp.container.NodePoolNodeConfigLinuxNodeConfigCustomNodeInitInitScriptArgs(
            gcs_uri=script.gcs,
            gcs_generation=script.generation,
            gcp_secret_manager_secret_uri=script.secret,
        )
    )


def _upgrade(upgrade: UpgradeSettings | None) -> gcp.container.NodePoolUpgradeSettingsArgs | None:
    if upgrade is None:
        return None
    return gcp.container.NodePoolUpgradeSettingsArgs(
        strategy=upgrade.strategy, max_surge=upgrade.max_surge, max_unavailable=upgrade.max_unavailable
    )


def _autoscaling(plan: GkePoolPlan) -> gcp.container.NodePoolAutoscalingArgs | None:
    """Return autoscaling limits for all locations together. GKE multiplies limits per location by the number of
    locations.
    """
    if not plan.autoscaled:
        return None
    return gcp.container.NodePoolAutoscalingArgs(
        total_min_node_count=plan.min_nodes,
        total_max_node_count=plan.max_nodes,
        location_policy=plan.location_policy,
    )


def _placement(
    placement: CompactPlacement | None, policy: gcp.compute.ResourcePolicy | None
) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    if placement is None:
        return None
    return gcp.container.NodePoolPlacementPolicyArgs(
        type="COMPACT", policy_name=policy.name if policy is not None else placement.policy
    )


def _network(plan: GkePoolPlan, cluster: GkeOutputs) -> gcp.container.NodePoolNetworkConfigArgs | None:
    """Return the networks for GPU NICs. All other network settings come from the cluster."""
    if plan.network == "none":
        return None
    return gcp.container.NodePoolNetworkConfigArgs(
        accelerator_network_profile="auto" if plan.network == "profile" else None,
        additional_node_network_configs=[
            gcp.container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs(
                network=network, subnetwork=subnetwork
            )
            for network, subnetwork in cluster.gpu_networks[: plan.gpu_networks]
        ]
        or None,
    )
