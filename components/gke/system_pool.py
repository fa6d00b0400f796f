"""System nodes of a new GKE cluster, which have no GPUs."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_gcp as gcp

from components._options import custom_timeouts
from components.gke._nodes import INTEGRITY_MONITORING, METADATA_MODE, OAUTH_SCOPES
from gpu_platform.planning.clouds.gke.create import SYSTEM_POOL
from gpu_platform.planning.clouds.gke.plan import SYSTEM_SURGE, CreateGkePlan, GkeClusterPlan

# GKE cannot create a cluster without a node pool. This first pool is deleted within minutes.
FIRST_POOL_NODES = 1
# With Secure Boot, Container-Optimized OS loads only signed modules. System nodes need no GPU driver.
SECURE_BOOT = True
_IMAGE_TYPE = "COS_CONTAINERD"
# The following values are GKE's defaults. They are set explicitly, so that a changed default replaces no nodes.
FIRST_DISK_TYPE = "pd-balanced"  # for the first pool, whose machine type is GKE's default, e2-medium
_LOCATION_POLICY = "BALANCED"
_AUTO_REPAIR = True
_AUTO_UPGRADE = True
_UPGRADE_STRATEGY = "SURGE"
_MAX_UNAVAILABLE = 0
_GVNIC = True
# Legacy metadata endpoints answer requests without a header, which can leak credentials.
_METADATA = {"disable-legacy-endpoints": "true"}


def node_settings(create: CreateGkePlan, account: pulumi.Input[str], disk_type: str) -> dict[str, Any]:
    """Return the settings that the first pool and the system nodes share, so that both follow company policies."""
    return {
        "image_type": _IMAGE_TYPE,
        "disk_type": disk_type,
        "boot_disk_kms_key": create.system_kms_key,
        "service_account": account,
        "oauth_scopes": OAUTH_SCOPES,
        "metadata": _METADATA,
        "shielded_instance_config": {
            "enable_secure_boot": SECURE_BOOT,
            "enable_integrity_monitoring": INTEGRITY_MONITORING,
        },
    }


def create_system_pool(
    args: GkeClusterPlan,
    create: CreateGkePlan,
    cluster: gcp.container.Cluster,
    account: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> gcp.container.NodePool:
    """Create the nodes without GPUs, for pods that must run before any GPU node exists."""
    container = gcp.container
    lowest, highest = create.system_nodes
    fixed = create.system_nodes_in_zone
    return container.NodePool(
        f"{args.name}-{SYSTEM_POOL}",
        name=SYSTEM_POOL,
        cluster=cluster.id,
        location=args.location,
        project=args.project,
        initial_node_count=FIRST_POOL_NODES if fixed is None else None,
        node_count=fixed,
        autoscaling=container.NodePoolAutoscalingArgs(
            total_min_node_count=lowest, total_max_node_count=highest, location_policy=_LOCATION_POLICY
        )
        if fixed is None
        else None,
        management=container.NodePoolManagementArgs(auto_repair=_AUTO_REPAIR, auto_upgrade=_AUTO_UPGRADE),
        upgrade_settings=container.NodePoolUpgradeSettingsArgs(
            strategy=_UPGRADE_STRATEGY, max_surge=SYSTEM_SURGE, max_unavailable=_MAX_UNAVAILABLE
        ),
        node_config=container.NodePoolNodeConfigArgs(
            machine_type=create.system_machine_type,
            disk_size_gb=create.system_disk_gb,
            gvnic=container.NodePoolNodeConfigGvnicArgs(enabled=_GVNIC),
            workload_metadata_config=container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode=METADATA_MODE),
            resource_labels=dict(args.resource_labels),
            **node_settings(create, account, create.system_disk_type),
        ),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                ignore_changes=["initial_node_count"], custom_timeouts=custom_timeouts(create.system_timeouts)
            ),
        ),
    )
