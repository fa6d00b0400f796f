"""Check that the kubelet can place the GPUs, whole CPUs and memory of a declared pod on the same NUMA nodes.

Declared pods are Guaranteed, so whole CPUs are exclusive. A node would reject a pod whose CPUs fit on fewer NUMA
nodes than its GPUs (`pools/numa.py`). Such a pod therefore requests a thousandth of a CPU less, because the
kubelet does not align fractional CPUs. Memory requests cannot be changed in this way.
"""

from __future__ import annotations

from gpu_platform.base.quantity import counted, parse_quantity
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.numa import NumaNodes
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import DeclaredPods, declared_pods
from gpu_platform.planning.teams.quota_of_pods import held
from gpu_platform.stack.team import Team

_MIB = 2**20


def cpu_decisions(team: Team, available: Available) -> tuple[Decision, ...]:
    """Return a decision, with its reason, for each team pod that requests fewer CPUs than declared."""
    return tuple(
        Decision(
            subject=f"{team.name}/{one.spec.name}",
            what="CPUs",
            chosen=planned,
            why=f"{one.spec.cpu} whole CPUs would be exclusive, and not on the same NUMA nodes as the pod's "
            f"GPUs; the kubelets of pool {pool.name} reject such pods (Topology Manager)",
        )
        for one in declared_pods(team, available)
        for pool in available.pools
        if pool.name == one.spec.pool and one.spec.gpus
        for planned in [numa.alignable_cpu(one.spec.cpu, *held(one.spec, team, pool), pool, available.catalog)]
        if planned != one.spec.cpu
    )


def check_alignment(one: DeclaredPods, team: Team, available: Available, here: Problems) -> None:
    """Record a problem if no kubelet of a pool could ever start a declared pod."""
    pool = next((pool for pool in available.pools if pool.name == one.spec.pool), None)
    if pool is None or not pool.has_gpus or not one.spec.gpus:
        return
    nodes = numa.of_pool(pool, available.catalog)
    if nodes is None:
        return
    resource, units = held(one.spec, team, pool)
    parts = nodes.units(pool.units_per_node.get(resource, 0))
    fewest = numa.fewest(units, parts)
    if fewest is None:
        return  # another check refuses a request for more GPUs or shares than a node has
    if nodes.policy == "single-numa-node" and fewest > 1:
        here.at("gpus").add(
            str(units),
            f"at most {max(parts)}; the Topology Manager of pool {pool.name} rejects pods on several NUMA nodes "
            "(single-numa-node)",
            f"lower gpus, or write `topology: {{policy: restricted}}` for pool {pool.name}",
        )
        return
    if nodes.memory_aligned:
        _check_memory(one, pool, nodes, units, fewest, here.at("memory"))


def _check_memory(
    one: DeclaredPods, pool: PoolPlan, nodes: NumaNodes, units: int, fewest: int, here: Problems
) -> None:
    on = numa.fewest(int(parse_quantity(one.spec.memory) / _MIB), (nodes.memory_mib,) * nodes.count)
    if on is None or on == fewest:
        return
    below, above = nodes.memory_mib * (fewest - 1) // 1024, nodes.memory_mib * fewest // 1024
    here.add(
        f"{one.spec.memory}, memory of {counted(on, 'NUMA node')}",
        f"more than {below}Gi and at most {above}Gi; {counted(units, 'GPU')} of pool {pool.name} are on "
        f"{counted(fewest, 'NUMA node')}, and its kubelets reject a pod with memory on other NUMA nodes "
        f"(Memory Manager static, Topology Manager {nodes.policy})",
        f"change it, or write `topology: {{policy: {nodes.policy}}}` without static memory for pool {pool.name}",
    )
