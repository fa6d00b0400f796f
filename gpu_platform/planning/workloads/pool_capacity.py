"""Count the pods of a declared workload that its pool can run at the same time, and the pods that must start
together.

Kueue starts a workload as a whole. An indexed Job therefore starts with all pods that run at the same time. The
Job is not ready until this number of pods are ready or have finished. After queueing.pods_ready_timeout, Kueue
stops a Job that is not ready, including its running pods. Source: kubernetes-sigs/kueue v0.19.2,
pkg/controller/jobs/job/job_controller.go (PodsReady); read 2026-11-28.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.dra.claims import demands_of, meets
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.claims import claim_of
from gpu_platform.planning.teams.declared_pods import DeclaredPods
from gpu_platform.planning.teams.quota_of_pods import held
from gpu_platform.stack.team import Team

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCapacity:
    """The number of a workload's pods that fit on an empty node of its pool, and the maximum number of nodes in
    the pool.

    `limit` is the field of the pool's `count` that limits the number of nodes.
    """

    on_node: int
    nodes: int
    limit: Literal["desired", "max"]

    @property
    def most(self) -> int:
        """Maximum number of pods that can run at the same time if the pool is otherwise empty."""
        return self.on_node * self.nodes


def pool_capacity(one: DeclaredPods, team: Team, pool: PoolPlan, available: Available) -> PoolCapacity:
    """Return how many pods of a workload fit on a pool's nodes, given their GPUs or claimed devices, CPU and
    memory.
    """
    on_node = _on_a_node(one, team, pool, available)
    return PoolCapacity(on_node=on_node, nodes=max_nodes(pool), limit="desired" if pool.has_fixed_nodes else "max")


def max_nodes(pool: PoolPlan) -> int:
    """Return the maximum number of nodes of a pool."""
    return pool.nodes.desired if pool.has_fixed_nodes else pool.nodes.max


def pods_at_once(one: DeclaredPods, *, queues: bool) -> int:
    """Return how many pods of a declared workload must run at the same time."""
    whole = one.together or one.runs == "always" or (queues and one.runs == "to-the-end")
    return one.spec.replicas if whole else 1


def _on_a_node(one: DeclaredPods, team: Team, pool: PoolPlan, available: Available) -> int:
    free = free_resources(pool)
    found = [free.cpu_millicores // max(1, int(parse_quantity(one.spec.cpu) * 1000))]
    found.append(free.memory_mib // max(1, int(parse_quantity(one.spec.memory) / _MIB)))
    claim = claim_of(one.spec, team)
    if pool.devices and claim is not None:
        kind, demands = demands_of(claim, available.classes)
        offered = (dev.per_node for dev in pool.devices if meets(dev, kind, demands, available.catalog))
        found.append(max(offered, default=0) // claim.count)
    elif pool.has_gpus and not pool.devices:
        resource, units = held(one.spec, team, pool)
        found.append(pool.units_per_node.get(resource, 0) // max(1, units))
    return min(1, *found) if one.nodes > 1 else min(found)
