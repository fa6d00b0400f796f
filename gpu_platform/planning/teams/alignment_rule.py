"""The admission rule that refuses pods whose GPUs and whole CPUs no kubelet can align by NUMA nodes.

kube-scheduler binds such a pod, and the kubelet ends it (`TopologyAffinityError`), each pod of a Job in turn. The
rule refuses a pod only where that is certain: a container's GPUs and exclusive CPUs (whole ones of a Guaranteed
pod) need different numbers of NUMA nodes on each node that has so many GPUs and that it may run on, whatever else
runs there (`pools/numa.py`). With scope `pod` pods of several containers are left to the kubelet; so are all MIG
instances, shares, claims and memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog
from gpu_platform.planning.pools import numa
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.admission_rule import AdmissionSubject, PodRule, units_of
from gpu_platform.planning.teams.cel import text

_GPUS: Final = names.GPU_RESOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPool:
    """NUMA nodes of a pool whose kubelets refuse what they cannot align.

    `needed`: by number of GPUs, from 0 on, how few NUMA nodes have as many. `cpus`: of one NUMA node. `single`: no
    pod may be on several. `whole_pods`: containers are aligned together.
    """

    needed: tuple[int, ...]
    cpus: int
    single: bool
    whole_pods: bool


def aligned_pools(pools: Sequence[PoolPlan], catalog: Catalog) -> Mapping[str, AlignedPool]:
    """Return the pools of which it is certain what their kubelets refuse, by name."""
    found = {pool.name: _aligned(pool, catalog) for pool in pools}
    return {name: one for name, one in found.items() if one is not None}


def _aligned(pool: PoolPlan, catalog: Catalog) -> AlignedPool | None:
    own = pool.nodes.ownership in ("created", "cloud")  # the kubelets of existing nodes are known by hearsay
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


def alignment_rules(
    of: AdmissionSubject, pools: Sequence[PoolPlan], aligned: Mapping[str, AlignedPool], *, alone: bool
) -> tuple[PodRule, ...]:
    """Return the rule, or none where no pool aligns what pods get.

    `alone`: no other nodes of the cluster have GPUs; else a pod that selects no pool may run on one of these.
    """
    offers = {pool.name: pool.units_per_node.get(_GPUS, 0) for pool in pools}
    if not any(name in aligned for name in offers):
        return ()
    selected = f"{of.spec}.?nodeSelector[?{text(names.POOL_LABEL)}]"
    runs = {
        name: f"({selected}.orValue({text(name if alone else '')}) == {text(name)} && gpus <= {most})"
        for name, most in sorted(offers.items())
        if most
    }
    somewhere = " || ".join(one for name, one in runs.items() if name in aligned)
    nowhere = " && ".join(
        f"(!{one} || {_misaligned(of, aligned[name])})" if name in aligned else f"!{one}"
        for name, one in runs.items()
    )
    gpus, cpus = units_of(_GPUS), _exclusive(of)
    judged = f"[{gpus}].all(gpus, gpus == 0 || [{cpus}].all(cpus, !(({somewhere}) && {nowhere})))"
    texts = "; ".join(_text(name, one) for name, one in sorted(aligned.items()) if name in offers)
    return (
        PodRule(
            id="gpu-numa-alignment",
            expression=f"{_containers(of)}.all(one, {judged})",
            message="GPUs and whole CPUs of a container are on the same NUMA nodes, or the kubelet ends the pod "
            f"(TopologyAffinityError): {texts}; write such a number, or CPUs that are not whole, as 15500m",
        ),
    )


def _containers(of: AdmissionSubject) -> str:
    return f"({of.spec}.?containers.orValue([]) + {of.spec}.?initContainers.orValue([]))"


def _misaligned(of: AdmissionSubject, pool: AlignedPool) -> str:
    """Return that a container with `gpus` and exclusive `cpus` cannot be aligned on a node of the pool."""
    table = f"[{', '.join(str(one) for one in pool.needed)}][gpus]"
    if pool.single:
        found = f"({table} > 1 || cpus > {pool.cpus})"
    else:
        found = f"(cpus > 0 && {table} != (cpus + {pool.cpus - 1}) / {pool.cpus})"
    if not pool.whole_pods:
        return found
    return f"(size({of.spec}.containers) == 1 && size({of.spec}.?initContainers.orValue([])) == 0 && {found})"


def _exclusive(of: AdmissionSubject) -> str:
    """Return the whole CPUs of the container `one` of a Guaranteed pod, else 0."""
    cpu = "quantity(string(one.resources.limits['cpu'])).asApproximateFloat()"
    limit, request = (f"quantity(string(other.resources.{kind}[name]))" for kind in ("limits", "requests"))
    guaranteed = (
        f"{_containers(of)}.all(other, has(other.resources) && has(other.resources.limits) && "
        "['cpu', 'memory'].all(name, name in other.resources.limits && "
        f"{limit}.isGreaterThan(quantity('0')) && (!has(other.resources.requests) || "
        f"!(name in other.resources.requests) || {request}.compareTo({limit}) == 0)))"
    )
    return (
        "has(one.resources) && has(one.resources.limits) && 'cpu' in one.resources.limits && "
        f"double(int({cpu})) == {cpu} && !has({of.spec}.resources) && {guaranteed} ? int({cpu}) : 0"
    )


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
