"""Plan the GKE features that queues need: node labels for the network topology, and queued provisioning.

Sources: AI Hypercomputer docs, "Schedule GKE workloads with Topology Aware Scheduling" and "Run NCCL on custom GKE
clusters that use A3 Mega or A3 High"; GKE docs, "Run a large-scale workload with flex-start with queued
provisioning"; read 2026-11-23. Sources for the node label of a ProvisioningRequest, and for the detail of the
request that contains the label's value: GoogleCloudPlatform/cluster-autoscaler, ProvisioningRequestLabelKey, and
the queues of xpk; read 2026-11-26. GKE admits only one PodSet in a ProvisioningRequest (ray-project/ray#57839);
read 2026-11-29.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_duration
from gpu_platform.planning.clouds.gke.capacity import MAX_FLEX_START_SECONDS
from gpu_platform.planning.clouds.section import Provisioning
from gpu_platform.planning.pools.section import PoolPlan

ADDED_RESOURCES: Final = ("networking.gke.io.networks/",)
"""Prefix of the resources that GKE's webhook adds to pods with network interfaces.

The webhook adds `networking.gke.io.networks/NAME` and `NAME.IP` to pods with the interfaces annotation. Source:
llm-d/llm-d#1738, and SkyPilot's guide for Kueue, which excludes these resources from quotas; read 2026-11-29.
"""
PROVISIONING_CLASS: Final = "queued-provisioning.gke.io"
_REQUEST_LABEL: Final = "autoscaling.gke.io/provisioning-request"
# Name of the detail in a ProvisioningRequest's status that contains the value of the label.
_REQUEST_DETAIL: Final = "ResizeRequestName"
# The label gce-topology-host is left out, because it identifies a single machine, which is one node.
# Source: Compute Engine docs; read 2026-11-28.
_LEVELS: Final = tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock"))
_FAMILIES: Final = ("a3-highgpu-8g", "a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")


def topology_levels(pool: PoolPlan) -> tuple[str, ...]:
    """Return the topology levels of a pool.

    Network levels are known only for training pools of some machine families, with compact placement or a
    reservation.
    """
    placed = pool.placement == "compact" or pool.capacity["type"] == "reservation"
    known = pool.machine_type.startswith(_FAMILIES) and pool.workload == "training" and placed
    return (*(_LEVELS if known else ()), names.HOSTNAME_LABEL)


def provisioning(pool: PoolPlan) -> Provisioning | None:
    """Return how to request nodes for a pool with queued provisioning, or None for other pools."""
    if not pool.capacity.get("queued"):
        return None
    declared = pool.capacity.get("max_run_duration")
    return Provisioning(
        provisioning_class=PROVISIONING_CLASS,
        node_seconds=MAX_FLEX_START_SECONDS if declared is None else parse_duration(str(declared)),
        own_nodes={_REQUEST_LABEL: _REQUEST_DETAIL},
    )
