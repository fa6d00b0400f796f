"""Nodes of a plan with what pods can request on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_platform import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS, eks_max_pods
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.scheduling.model import CPU, MEMORY, PODS, Amounts, Node, quota_resource
from gpu_platform.planning.sharing.sharing import units_of_gpu
from gpu_platform.planning.teams.admission_defaults import DAEMONSETS_MILLICORES, HUGE_PAGES_MIB
from gpu_platform.quantity import parse_quantity

_MIB: Final = 2**20
# DaemonSets of GKE request up to 596 MiB, and the node agent 64 MiB (source: admission_defaults.py).
DAEMONSETS_MIB: Final = 660
DAEMONSETS_PODS: Final = 18
"""Pods of DaemonSets on a GPU node: the operator's operands and those of the cloud."""
AGENT_MILLICORES: Final = 50
AGENT_MIB: Final = 64
"""Requests of the node agent, the only DaemonSet that takes CPU where the program creates the Node objects."""
_HUGE_PAGES: Final = "hugepages-2Mi"


def planned_nodes(plan: EnvironmentPlan, catalog: Catalog) -> tuple[Node, ...]:
    """Return the nodes of all pools at their desired size, less what DaemonSets request."""
    return tuple(
        planned_node(pool, catalog, name) for pool in plan.pools for name in _names(pool, pool.nodes.desired)
    )


def planned_node(pool: PoolPlan, catalog: Catalog, name: str) -> Node:
    """Return one node of a pool.

    CPU and memory: what the kubelet leaves of the machine type (`nodes/allocatable.py`), less requests of
    DaemonSets. With DRA the GPUs are units of the driver's class.
    """
    if pool.devices:
        gpus: tuple[Amounts, ...] = ({names.GPU_DEVICE_CLASS: 1},) * pool.gpus_per_node
    else:
        gpus = tuple(dict(units_of_gpu(pool.sharing, index)) for index in range(pool.gpus_per_node))
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
    )


def daemonsets_text(plan: EnvironmentPlan) -> str:
    """Return what is left for DaemonSets on the nodes, as text."""
    if all(pool.nodes.ownership == "created" for pool in plan.pools):
        return f"{AGENT_MILLICORES}m CPU and {AGENT_MIB} MiB of each node are left for the node agent"
    return f"{DAEMONSETS_MILLICORES}m CPU and {DAEMONSETS_MIB} MiB of each node are left for DaemonSets"


def quotas_of(plan: EnvironmentPlan) -> dict[str, dict[str, int]]:
    """Return what pods of each team may request together, by key of its ResourceQuota."""
    return {
        tenant.namespace: {
            key: amount_of(resource, quantity)
            for key, quantity in {**tenant.quota, **tenant.object_quota}.items()
            if (resource := quota_resource(key)) is not None
        }
        for tenant in plan.tenants
    }


def amount_of(resource: str, quantity: str | int | float) -> int:
    """Return a quantity in the unit of its resource, rounded up; raises ValueError."""
    amount = parse_quantity(quantity) * (1000 if resource == CPU else 1)
    return int(-(-amount // 1))


def _names(pool: PoolPlan, count: int) -> Iterator[str]:
    if pool.nodes.names:
        yield from pool.nodes.names[:count]
    else:
        yield from (f"{pool.name}-{number}" for number in range(1, count + 1))


def _allocatable(pool: PoolPlan, catalog: Catalog, gpus: tuple[Amounts, ...]) -> dict[str, int]:
    created = pool.nodes.ownership == "created"
    machine = catalog.machine_types.get(pool.machine_type)
    most_pods = eks_max_pods(machine) if machine is not None and machine.vendor == "aws" else DEFAULT_MAX_PODS
    pages = 0 if created else _huge_pages_mib(pool)
    found = {
        CPU: pool.cpu_millicores - (AGENT_MILLICORES if created else DAEMONSETS_MILLICORES),
        MEMORY: (pool.memory_mib - (AGENT_MIB if created else DAEMONSETS_MIB) - pages) * _MIB,
        PODS: (DEFAULT_MAX_PODS - 1) if created else most_pods - DAEMONSETS_PODS,
        **({_HUGE_PAGES: pages * _MIB} if pages else {}),
        **{
            name: count
            for name, count in pool.node_expectation.allocatable.items()
            if not name.startswith(names.NVIDIA_PREFIX)
        },
    }
    for gpu in gpus:
        for name, count in gpu.items():
            found[name] = found.get(name, 0) + count
    return {name: max(0, amount) for name, amount in found.items()}


def _huge_pages_mib(pool: PoolPlan) -> int:
    if pool.cloud is None:
        return 0
    requests = pool.cloud.pod_requests(pool.gpus_per_node, pool.gpus_per_node)
    return HUGE_PAGES_MIB if _HUGE_PAGES in requests else 0
