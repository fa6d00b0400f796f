"""Free capacity of nodes, and the pods that would use all team quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog import Catalog
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.free import free_node
from gpu_platform.planning.pools.numa import NumaNodes
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams import is_for
from gpu_platform.planning.teams.section import DEFAULT_REQUEST, TeamPlan, WorkloadPlan
from gpu_platform.planning.workloads import TeamWorkloadsPlan, workloads_of

QUOTA = "quota"
"""Name of the assumed workload whose pods use a team's remaining quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """The resources of one node, minus the requests of DaemonSets. The pool has `count` identical nodes.

    `units` contains the number of units of each extended resource on a node, and `gpus_each` the number of GPUs in
    one unit. With DRA, `gpus` is the number of GPUs that the units of all device classes share. It is 0 if each
    resource has separate GPUs. `numa` are the NUMA nodes to which the kubelet aligns pods with several units, or
    None if it does not align pods.
    """

    pool: str
    count: int
    units: Mapping[str, int]
    gpus_each: Mapping[str, float]
    cpu_millicores: int
    memory_mib: int
    pods: int
    gpus: int = 0
    numa: NumaNodes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A group of `count` identical pods of one owner.

    `needs` contains the CPU and memory that one pod requests, for each pool that the pod may run on. If `units` is
    0, the pods use no GPU, and `resource` is empty.
    """

    owner: str
    name: str
    resource: str
    units: int
    count: int
    needs: Mapping[str, NodeResources]


def node_capacities(
    pools: Sequence[PoolPlan], catalog: Catalog, *, most: bool = False
) -> tuple[NodeCapacity, ...]:
    """Return the nodes of the pools at their desired size or, if `most` is set, at the autoscaler's maximum size.

    Without an autoscaler, the number of nodes that the program creates or labels is fixed.
    """
    return tuple(
        NodeCapacity(
            pool=pool.name,
            count=pool.nodes.max if most and not pool.has_fixed_nodes else pool.nodes.desired,
            units=pool.units_per_node,
            gpus_each={offer.name: offer.gpus / offer.per_node for offer in pool.resources if offer.per_node},
            cpu_millicores=free.cpu_millicores,
            memory_mib=free.memory_mib,
            pods=free.pods,
            gpus=pool.gpus_per_node if pool.devices else 0,
            numa=numa.of_pool(pool, catalog),
        )
        for pool in pools
        for free in [free_node(pool, catalog)]
    )


def groups_of(plan: EnvironmentPlan, catalog: Catalog) -> tuple[PodGroup, ...]:
    """Return the pods that use every team's whole GPU quota at once.

    A team's declared workloads are included unchanged. For the rest of its quota, one-unit pods are added. A unit
    is a GPU, a share or an instance. The team's remaining CPU and memory are divided among these pods in
    proportion to their GPUs. If the team has no quota for CPU or memory, each pod gets the default request of the
    LimitRange. A pod requests at most the share of the node's CPU and memory that is proportional to its GPU. A
    CPU quota is a limit for all pods of a team, and pods without a GPU need no GPU node.

    With queues, each quota applies to a pool, and its pods run on this pool. Without queues, a pool for training
    or inference serves only teams that may use the priority class with the same name. If no such pool offers the
    resource, every pool that offers it serves the team. Without this rule, four nodes with small GPUs for
    inference might cover a quota of 16 GPUs for training.
    """
    capacities = node_capacities(plan.pools, catalog)
    purposes = {pool.name: pool.workload for pool in plan.pools}
    queues = {one.namespace: one for one in plan.queues.teams} if plan.queues is not None else {}
    return tuple(
        group
        for team in plan.teams
        for group in _groups(
            team,
            workloads_of(team.namespace, plan.workloads),
            queues.get(team.namespace),
            capacities,
            purposes,
        )
    )


def _groups(
    team: TeamPlan,
    run: TeamWorkloadsPlan | None,
    queue: TeamQueuePlan | None,
    capacities: Sequence[NodeCapacity],
    purposes: Mapping[str, str],
) -> Iterator[PodGroup]:
    left = _quota_units(team, capacities)
    spent: dict[tuple[str, str], int] = {}
    spent_cpu = spent_memory = 0
    for workload in (*team.workloads, *(run.always if run is not None else ())):
        cpu, memory = _millicores(workload.cpu), _mib(workload.memory)
        resource = _offered_as(workload, capacities)
        units = workload.units * workload.replicas
        left[resource] = left.get(resource, 0) - units
        spent[workload.pool, resource] = spent.get((workload.pool, resource), 0) + units
        spent_cpu += cpu * workload.replicas
        spent_memory += memory * workload.replicas
        if workload.replicas:
            yield PodGroup(
                owner=team.namespace,
                name=workload.name,
                resource=resource,
                units=workload.units,
                count=workload.replicas,
                needs={workload.pool: NodeResources(cpu, memory)},
            )
    weights = {name: _weight(name, capacities) for name, count in left.items() if count > 0}
    all_gpus = sum(weights[name] * left[name] for name in weights)
    for name, weight in weights.items():
        part = weight / all_gpus
        cpu = _part(team.quota.get("requests.cpu"), spent_cpu, part, _millicores)
        memory = _part(team.quota.get("requests.memory"), spent_memory, part, _mib)
        places = (
            [(left[name], _serving(team, name, capacities, purposes))]
            if queue is None
            else _queued(name, left[name], queue, spent, capacities)
        )
        for count, serving in places:
            yield PodGroup(
                owner=team.namespace,
                name=QUOTA,
                resource=name,
                units=1,
                count=count,
                needs={
                    capacity.pool: NodeResources(
                        min(_millicores(DEFAULT_REQUEST["cpu"]) if cpu is None else cpu, most.cpu_millicores),
                        min(_mib(DEFAULT_REQUEST["memory"]) if memory is None else memory, most.memory_mib),
                    )
                    for capacity in serving
                    for most in [part_of_node(capacity, name)]
                },
            )


def _queued(
    resource: str,
    left: int,
    queue: TeamQueuePlan,
    spent: Mapping[tuple[str, str], int],
    capacities: Sequence[NodeCapacity],
) -> Iterator[tuple[int, Sequence[NodeCapacity]]]:
    """Yield the units of a resource that remain in a team's quota on each pool, with the capacity of the pool."""
    for capacity in capacities:
        limits = queue.limits(capacity.pool).get(resource)
        nominal = 0 if limits is None else int(parse_quantity(limits.nominal))
        units = min(left, nominal - spent.get((capacity.pool, resource), 0))
        if units > 0:
            yield units, (capacity,)
            left -= units


def _serving(
    team: TeamPlan, resource: str, capacities: Sequence[NodeCapacity], purposes: Mapping[str, str]
) -> list[NodeCapacity]:
    """Return the nodes that serve a team's quota for a resource.

    These are the nodes of pools whose purpose matches a priority class of the team or, if there are none, all
    nodes that offer the resource.
    """
    having = [capacity for capacity in capacities if capacity.units.get(resource)]
    own = [one for one in having if is_for(purposes[one.pool], team.priorities)]
    return own or having


def part_of_node(capacity: NodeCapacity, resource: str) -> NodeResources:
    """Return the share of a node's CPU and memory that belongs to one unit of a resource, in proportion to the
    unit's GPUs.
    """
    gpus = capacity.gpus or sum(
        capacity.gpus_each[name] * count for name, count in capacity.units.items() if count
    )
    part = capacity.gpus_each[resource] / gpus
    return NodeResources(int(capacity.cpu_millicores * part), int(capacity.memory_mib * part))


def _offered_as(workload: WorkloadPlan, capacities: Sequence[NodeCapacity]) -> str:
    """Return the resource of the pool that a workload uses. For a device class from the stack file, this is the
    pool's first resource.
    """
    capacity = next(capacity for capacity in capacities if capacity.pool == workload.pool)
    return (
        workload.resource if workload.resource in capacity.units else next(iter(capacity.units), workload.resource)
    )


def _quota_units(team: TeamPlan, capacities: Sequence[NodeCapacity]) -> dict[str, int]:
    offered = dict.fromkeys(name for capacity in capacities for name in capacity.units)
    return {name: int(team.quota.get(names.quota_key(name), "0")) for name in offered}


def _weight(resource: str, capacities: Sequence[NodeCapacity]) -> float:
    """Return the number of GPUs in one unit of a resource, as an average over the pools that offer it."""
    each = [capacity.gpus_each[resource] for capacity in capacities if capacity.units.get(resource)]
    return sum(each) / len(each)


def _part(quota: str | None, spent: int, part: float, amount_of: Callable[[str], int]) -> int | None:
    return None if quota is None else int(max(0, amount_of(quota) - spent) * part)


def _millicores(quantity: str) -> int:
    return int(parse_quantity(quantity) * 1000)


def _mib(quantity: str) -> int:
    return int(parse_quantity(quantity) / 2**20)
