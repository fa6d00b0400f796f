"""Plan claims for all NICs of a node, for workloads whose pods use all GPUs of a node.

Pods with fewer GPUs communicate within their node. The claims use `ExactCount`, because Kueue does not admit
claims with the allocation mode All.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_platform.base import names
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import WorkloadPlan


def nic_claim_of(pool: PoolPlan) -> str:
    """Return the name of the ResourceClaimTemplate for the NICs of a node in a pool."""
    return f"{pool.name}-nics"


def claims_nics(pool: PoolPlan, resource: str, units: int) -> bool:
    """Return whether pods with `units` of a resource use all GPUs of their node, and therefore claim the node's
    NICs.
    """
    whole = resource == names.GPU_DEVICE_CLASS or pool.sharing.mode == "none"
    return whole and units == pool.gpus_per_node and pool.cloud_nodes.nic_devices is not None


def plan_nic_claims(workloads: Iterable[WorkloadPlan], pools: Iterable[PoolPlan]) -> tuple[ClaimPlan, ...]:
    """Return the ResourceClaimTemplates for the NICs that a team's workloads use."""
    used = {workload.nic_claim for workload in workloads}
    return tuple(
        ClaimPlan(name=nic_claim_of(pool), device_class=nics.device_class, count=nics.per_node, selectors=())
        for pool in pools
        if (nics := pool.cloud_nodes.nic_devices) is not None and nic_claim_of(pool) in used
    )
