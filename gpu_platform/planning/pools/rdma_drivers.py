"""Check the driver of machines whose NICs support GPUDirect RDMA only with older driver branches.

With a newer driver, only jobs that use the NICs fail, because NCCL aborts. The default driver of an operator
release must not cause that, but the stack file may choose a newer driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base.versions import version_numbers
from gpu_platform.catalog import OperatorRelease
from gpu_platform.catalog.models import RdmaDrivers
from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.context import Context
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.nodes.software import branch_of, node_software
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.pool import Pool


def check_default_driver(context: Context, pool: Pool, operator: Operator, release: OperatorRelease) -> None:
    """Record a problem if the default driver of a release rules out GPUDirect RDMA on a pool's machines."""
    limit, default = _limit(context, pool), release.default_driver
    software = node_software(pool, context.cloud, operator, context.catalog)
    if limit is None or operator.driver.version is not None or software.driver != "operator":
        return
    if context.cloud is not None and gpu_parts(context.cloud.cluster).gpu_operator == "present":
        return  # the owner of the operator chooses the driver
    if branch_of(default) < limit.first_without:
        return
    older = [one for one in release.drivers if branch_of(one) < limit.first_without]
    context.at("operator.driver.version").add(
        f"nothing, so {default} for pool {pool.name} of {pool.machine_type}",
        f"a driver older than {limit.first_without} for GPUDirect RDMA over the NICs ({limit.source})",
        f"write version: {max(older, key=version_numbers)}, or {default} if no job uses the NICs",
    )


def rdma_driver_decision(context: Context, pool: Pool, plan: PoolPlan) -> Iterator[Decision]:
    """Yield a warning if the stack file or the image has a driver that rules out GPUDirect RDMA on a pool's
    machines.
    """
    limit, version = _limit(context, pool), plan.driver_version
    branch = branch_of(version) if version is not None else plan.software.driver_branch
    if limit is not None and branch is not None and branch >= limit.first_without:
        yield Decision(
            subject=f"pool {pool.name}",
            what="warning: driver",
            chosen=f"{version or branch}; with this driver, jobs cannot use the NICs of {pool.machine_type}",
            why=f"NCCL aborts; GPUDirect RDMA needs a driver older than {limit.first_without} ({limit.source})",
        )


def _limit(context: Context, pool: Pool) -> RdmaDrivers | None:
    """Return which drivers support the NICs of a pool. Return None if all drivers support them, or if no pod can
    use the NICs.
    """
    machine = context.catalog.machine_types.get(pool.machine_type)
    simulated = context.cloud is None or context.cloud.access == "sandbox"
    if machine is None or simulated or pool.network.rdma is False:
        return None
    return context.catalog.rdma_drivers(machine)
