"""What queues need of GKE: labels of the network's topology, and the class of queued provisioning.

Sources: AI Hypercomputer docs, "Schedule GKE workloads with Topology Aware Scheduling" and "Run NCCL on custom GKE
clusters that use A3 Mega or A3 High"; GKE docs, "Run a large-scale workload with flex-start with queued
provisioning"; read 2026-11-23.
"""

from __future__ import annotations

from typing import Final

from gpu_platform import names
from gpu_platform.planning.pools.section import PoolPlan

PROVISIONING_CLASS: Final = "queued-provisioning.gke.io"
_LEVELS: Final = tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host"))
_FAMILIES: Final = ("a3-highgpu-8g", "a3-megagpu-", "a3-ultragpu-", "a4-", "a4x-")


def topology_levels(pool: PoolPlan) -> tuple[str, ...]:
    """Return the levels of a pool: those of the network where its nodes are placed compactly or reserved."""
    placed = pool.placement == "compact" or pool.capacity["type"] == "reservation"
    known = pool.machine_type.startswith(_FAMILIES) and pool.workload == "training" and placed
    return (*(_LEVELS if known else ()), names.HOSTNAME_LABEL)


def provisioning_class(pool: PoolPlan) -> str | None:
    """Return the class of a pool with queued provisioning, else None."""
    return PROVISIONING_CLASS if pool.capacity.get("queued") else None
