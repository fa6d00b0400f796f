"""Nodes of a plan with the resources that pods can request on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extensions.capacity.scheduling.model import CPU, MEMORY, PODS, Amounts, Node, quota_resource
from gpu_platform.api.capacity import AGENT, HUGE_PAGES, free_node, numa, units_of_gpu
from gpu_platform.api.plans import EnvironmentPlan, PoolPlan
from gpu_platform.base import names
from gpu_platform.base.quantity import amount_of
from gpu_platform.catalog import Catalog

_MIB: Final = 2**20


def planned_nodes(plan: EnvironmentPlan, catalog: Catalog) -> tuple[Node, ...]:
    """Return the nodes of all pools at their desired size, without the resources that DaemonSets request."""
    return tuple(
        planned_node(pool, catalog, name) for pool in plan.pools for name in _names(pool, pool.nodes.desired)
    )


def planned_node(pool: PoolPlan, catalog: Catalog, name: str) -> Node:
    """Return one node of a pool.

    CPU and memory are the amounts that the kubelet leaves for pods on the machine type
    (`planning/nodes/allocatable.py`), minus the requests of DaemonSets. With DRA, the GPUs are devices of the
    driver's device class.
    """
    if pool.devices:
        gpus: tuple[Amounts, ...] = ({names.GPU_DEVICE_CLASS: 1},) * pool.gpus_per_node
    else:
        gpus = tuple(dict(units_of_gpu(pool.sharing, index)) for index in range(pool.gpus_per_node))
    aligned, machine = numa.of_pool(pool, catalog), catalog.machine_types.get(pool.machine_type)
    return Node(
        name=name,
        pool=pool.name,
        allocatable=_allocatable(pool, catalog, gpus),
        labels={
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": pool.architecture,
            names.INSTANCE_TYPE_LABEL: pool.machine_type,
            **pool.node_expectation.labels,
            **pool.labels,
            **pool.node_selector,
            names.HOSTNAME_LABEL: name,
        },
        taints=pool.all_taints,
        gpus=gpus,
        numa=() if aligned is None or machine is None else machine.numa_nodes or (),
        single_numa=aligned is not None and aligned.policy == "single-numa-node",
    )


def daemonsets_text(plan: EnvironmentPlan) -> str:
    """Describe the resources that are reserved for DaemonSets on the nodes."""
    pools = [pool.daemonsets for pool in plan.pools]
    if all(daemonsets == (AGENT,) for daemonsets in pools):
        return (
            f"{AGENT.cpu_millicores}m CPU and {AGENT.memory_mib} MiB of each node are reserved for the node agent"
        )
    cpu = _range({sum(one.cpu_millicores for one in daemonsets) for daemonsets in pools})
    memory = _range({sum(one.memory_mib for one in daemonsets) for daemonsets in pools})
    return f"{cpu}m CPU and {memory} MiB of each node are reserved for DaemonSets"


def _range(amounts: set[int]) -> str:
    return f"{min(amounts)}" if len(amounts) == 1 else f"{min(amounts)} to {max(amounts)}"


def quotas_of(plan: EnvironmentPlan) -> dict[str, dict[str, int]]:
    """Return the amounts that the pods of each team may request in total, by ResourceQuota key."""
    return {
        team.namespace: {
            key: amount_of(resource, quantity)
            for key, quantity in {**team.quota, **team.object_quota}.items()
            if (resource := quota_resource(key)) is not None
        }
        for team in plan.teams
    }


def _names(pool: PoolPlan, count: int) -> Iterator[str]:
    if pool.nodes.names:
        yield from pool.nodes.names[:count]
    else:
        yield from (f"{pool.name}-{number}" for number in range(1, count + 1))


def _allocatable(pool: PoolPlan, catalog: Catalog, gpus: tuple[Amounts, ...]) -> dict[str, int]:
    free, pages = free_node(pool, catalog), pool.huge_pages_mib
    found = {
        CPU: free.cpu_millicores,
        MEMORY: free.memory_mib * _MIB,
        PODS: free.pods,
        **({HUGE_PAGES: pages * _MIB} if pages else {}),
        **{
            name: count
            for name, count in pool.node_expectation.allocatable.items()
            if not names.is_gpu_resource(name)
        },
    }
    for gpu in gpus:
        for name, count in gpu.items():
            found[name] = found.get(name, 0) + count
    return {name: max(0, amount) for name, amount in found.items()}
