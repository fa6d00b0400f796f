"""Find the pools whose kubelets reject pods that they cannot align to NUMA nodes (`pools/numa.py`).

The rule `gpu-numa-alignment` is in gpu_platform/catalog/rules/pods.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.admission_rules import Value
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.section import PoolPlan

_GPUS: Final = names.GPU_RESOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPool:
    """NUMA nodes of a pool whose kubelets reject pods that they cannot align.

    `needed` is the minimum number of NUMA nodes for each number of GPUs, starting with 0 GPUs. `cpus` is the
    number of CPUs of one NUMA node. `single` indicates whether a pod must fit on one NUMA node. `whole_pods`
    indicates whether the containers of a pod are aligned together.
    """

    needed: tuple[int, ...]
    cpus: int
    single: bool
    whole_pods: bool


def aligned_pools(pools: Sequence[PoolPlan], catalog: Catalog) -> Mapping[str, AlignedPool]:
    """Return the pools whose kubelets are known to reject pods that they cannot align, by name."""
    found = {pool.name: _aligned(pool, catalog) for pool in pools}
    return {name: one for name, one in found.items() if one is not None}


def _aligned(pool: PoolPlan, catalog: Catalog) -> AlignedPool | None:
    own = pool.nodes.ownership in ("created", "cloud")  # the kubelet settings of existing nodes are not certain
    whole = pool.sharing.mode == "none" and pool.units_per_node.get(_GPUS) == pool.gpus_per_node
    others = pool.cloud_nodes.alternatives
    nodes = numa.of_pool(pool, catalog) if own and whole else None
    if nodes is None or pool.kubelet is None:
        return None
    if any(catalog.machine_types[name].vcpu != nodes.cpus * nodes.count for name in others):
        return None
    return AlignedPool(
        needed=(0, *(numa.fewest(gpus, nodes.gpus) or 0 for gpus in range(1, pool.gpus_per_node + 1))),
        cpus=nodes.cpus,
        single=nodes.policy == "single-numa-node",
        whole_pods=pool.kubelet.topology_scope == "pod",
    )


def alignment_values(
    pools: Sequence[PoolPlan], aligned: Mapping[str, AlignedPool], *, no_other_gpus: bool
) -> Mapping[str, Value]:
    """Return the parameters of the admission rule for pods that no kubelet of the pools can align."""
    gpus = {pool.name: pool.units_per_node.get(_GPUS, 0) for pool in pools}
    here = {name: one for name, one in sorted(aligned.items()) if name in gpus}
    return {
        "pool_gpus": {name: count for name, count in sorted(gpus.items()) if count},
        "pool_label": names.POOL_LABEL,
        "no_other_gpus": no_other_gpus,
        "aligned_pools": list(here),
        "single_numa_pools": [name for name, one in here.items() if one.single],
        "whole_pod_pools": [name for name, one in here.items() if one.whole_pods],
        "numa_nodes_of_gpus": {name: one.needed for name, one in here.items()},
        "numa_cpus": {name: one.cpus for name, one in here.items()},
        "alignment_text": "; ".join(_text(name, one) for name, one in here.items()),
    }


def _text(name: str, pool: AlignedPool) -> str:
    if pool.single:
        most = sum(1 for one in pool.needed if one == 1)
        return f"pool {name}: at most {counted(most, 'GPU')} and {pool.cpus} CPUs of one"
    ranges: list[str] = []
    for nodes in sorted({one for one in pool.needed if one}):
        gpus = [index for index, one in enumerate(pool.needed) if one == nodes]
        cpus = f"{pool.cpus * (nodes - 1) + 1} to {pool.cpus * nodes}"
        of_gpus = f"{gpus[0]} to {gpus[-1]} GPUs" if len(gpus) > 1 else counted(gpus[0], "GPU")
        ranges.append(f"{of_gpus} with {cpus} CPUs")
    return f"pool {name}: {', '.join(ranges)}"
