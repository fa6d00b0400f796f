"""Check team workloads on CPU pools. Their pods have no GPUs and only need enough CPU and memory."""

from __future__ import annotations

from gpu_platform.base.quantity import counted, parse_quantity
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.team import Workload

_MIB = 2**20


def check_on_cpu_pool(workload: Workload, pool: PoolPlan, here: Problems) -> None:
    """Record a problem if a workload requests GPUs on nodes without GPUs, or more CPU or memory than the pool's
    fixed nodes have.
    """
    if workload.gpus:
        here.at("gpus").add(
            str(workload.gpus) if "gpus" in workload.model_fields_set else f"{workload.gpus}, the default",
            f"0 on pool {pool.name}: {pool.machine_type} has no GPUs",
            "write gpus: 0, or name a pool with GPUs",
        )
    for field in ("profile", "gpu_memory"):
        if getattr(workload, field) is not None:
            here.at(field).add(
                f"{field} on pool {pool.name}, whose {pool.machine_type} has no GPUs",
                f"{field} only with a GPU",
                f"remove {field}, or name a pool with GPUs",
            )
    if pool.has_fixed_nodes:
        _check_replicas(workload, pool, here)


def _check_replicas(workload: Workload, pool: PoolPlan, here: Problems) -> None:
    """Record a problem if not all pods fit on the nodes. If not even one pod fits, the problem reports its CPU and
    memory.
    """
    cpu, memory = parse_quantity(workload.cpu) * 1000, parse_quantity(workload.memory) / _MIB
    free = free_resources(pool)
    if cpu > free.cpu_millicores or memory > free.memory_mib:
        return
    on_node = [int(free.cpu_millicores // cpu)] if cpu else []
    on_node += [int(free.memory_mib // memory)] if memory else []
    most = min(on_node, default=workload.replicas) * pool.nodes.desired
    if workload.replicas > most:
        here.at("replicas").add(
            f"{workload.replicas} of {workload.cpu} CPU and {workload.memory}",
            f"at most {most}, because pool {pool.name} has {counted(pool.nodes.desired, 'node')}, and no "
            "autoscaler adds any",
            "lower replicas or the requests, or raise the pool's count.desired",
        )
