"""Defaults that the API server sets on team pods with GPU requests.

A pod that requests a GPU gets the toleration of the GPU taint, the team's priority class, and CPU and memory in
proportion to its share of the node's GPUs. Fields that the pod itself sets keep their values.
`admission_mutations.py` contains the expressions.

The API server applies the defaults with a MutatingAdmissionPolicy. This API is v1 of admissionregistration.k8s.io
and has been enabled by default since Kubernetes 1.36. Kubernetes 1.34 and 1.35 have v1beta1, which is off by
default and which managed clouds do not turn on. Sources: kubernetes/enhancements, KEP-3962 (stable v1.36);
kubernetes v1.36.3, apiserver/pkg/features/kube_features.go; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning.clouds.storage import VolumeSidecar
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.nodes.allocatable import NodeResources
from gpu_platform.planning.nodes.section import Labels
from gpu_platform.planning.pools.free import free_resources
from gpu_platform.planning.pools.section import PoolPlan

MINIMUM_KUBERNETES: Final = "1.36"

# An operating system reports up to 7.5 % less memory than its machine type advertises, and DaemonSets need memory.
# Source: aws/karpenter-provider-aws, VM_MEMORY_OVERHEAD_PERCENT, read 2026-11-23.
MEMORY_PART: Final = Fraction(9, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultToleration:
    """Toleration of a GPU taint, which is added to pods that request one of `resources`.

    `claims` indicates whether it is also added to pods with resource claims.
    """

    taint: str
    value: str
    effect: str
    resources: tuple[str, ...]
    claims: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShares:
    """CPU and memory that a pod gets for one unit of each GPU resource on the nodes of a pool."""

    pool: str
    node_selector: Labels
    units: Mapping[str, NodeResources]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """Defaults of a team's pods that request GPUs.

    `cpu_limit_millicores` is the CPU limit of containers without a limit. It is the CPU of the largest node, so
    that the default limit of the namespace is not below the request.
    """

    priority_class: str
    tolerations: tuple[DefaultToleration, ...]
    shares: tuple[PoolShares, ...]
    cpu_limit_millicores: int
    read_only: tuple[str, ...] = ()
    """Host paths of a fabric that pods always mount read-only. Google's test pods do not set `readOnly`."""
    sidecar: VolumeSidecar | None = None
    """A container that the cloud adds to pods with certain annotations, after these defaults are applied."""


def plan_pod_defaults(
    team: str,
    priority: str,
    quota: Mapping[str, int],
    limits: tuple[str | None, str | None],
    pools: Sequence[PoolPlan],
    kubernetes: str | None,
    read_only: tuple[str, ...] = (),
    sidecar: VolumeSidecar | None = None,
) -> Decided[PodDefaults | None]:
    """Return the defaults for a team's pods. Return None if no pool has GPUs, or if it is not certain that the
    cluster supports defaults.

    `quota` contains the team's GPU quota in units by resource. `limits` are its CPU and memory quotas, or None.
    `kubernetes` is the cluster's minor version, or None if it is unknown. `read_only` are host paths that the
    team's pods may only read. `sidecar` is the container that the cloud adds to pods that mount buckets.
    """
    with_gpus = [pool for pool in pools if pool.has_gpus]
    if not with_gpus:
        return Decided(None)
    lacks = _lacks(kubernetes)
    if lacks is not None:
        why = f"{lacks}; members set tolerations, priority class, CPU and memory themselves"
        return Decided(
            None, (Decision(subject=f"team {team}", what="defaults of GPU pods", chosen="none", why=why),)
        )
    defaults = PodDefaults(
        priority_class=priority,
        tolerations=_tolerations(with_gpus),
        shares=_shares(with_gpus, quota, limits),
        cpu_limit_millicores=max(pool.cpu_millicores for pool in with_gpus),
        read_only=read_only,
        sidecar=sidecar,
    )
    return Decided(
        defaults,
        (
            Decision(
                subject=f"team {team}",
                what="defaults of GPU pods",
                chosen=", ".join(
                    (
                        "toleration",
                        f"priorityClassName {priority}",
                        *_share_texts(defaults.shares, quota),
                        *(("readOnly for fabric libraries",) if read_only else ()),
                    )
                ),
                why=f"values that a pod does not set; Kubernetes {kubernetes} adds them at admission",
            ),
        ),
    )


def _lacks(kubernetes: str | None) -> str | None:
    """Return why the cluster may lack the API for admission defaults, or None if it has the API."""
    if kubernetes is None:
        return (
            f"the cluster's Kubernetes version is unknown, and defaults need {MINIMUM_KUBERNETES}: "
            "declare the version as cluster.kubernetes"
        )
    if minor(kubernetes) < minor(MINIMUM_KUBERNETES):
        return (
            f"Kubernetes {kubernetes} sets no defaults (MutatingAdmissionPolicy has been on by default since "
            f"{MINIMUM_KUBERNETES})"
        )
    return None


def _tolerations(pools: Sequence[PoolPlan]) -> tuple[DefaultToleration, ...]:
    """Return the tolerations of GPU taints.

    Pods do not tolerate other taints of a pool by default, because these reserve its nodes or mark a missing
    feature.
    """
    taints = dict.fromkeys(
        taint
        for pool in pools
        for taint in pool.taints
        if taint.key == names.GPU_TAINT_KEY and taint.effect != "PreferNoSchedule"
    )
    return tuple(
        DefaultToleration(
            taint=taint.key,
            value=taint.value,
            effect=taint.effect,
            resources=tuple(
                sorted({name for pool in pools if taint in pool.taints for name in _extended_resources(pool)})
            ),
            claims=any(pool.devices for pool in pools if taint in pool.taints),
        )
        for taint in taints
    )


def _extended_resources(pool: PoolPlan) -> Mapping[str, Fraction]:
    """Return the fraction of a node's GPUs that one unit of each extended resource takes. The result is empty with
    DRA.
    """
    if pool.devices:
        return {}
    offers = [offer for offer in pool.resources if offer.per_node and names.is_gpu_resource(offer.name)]
    gpus = sum((Fraction(offer.gpus) for offer in offers), Fraction(0))
    return {offer.name: Fraction(offer.gpus) / gpus / offer.per_node for offer in offers}


def _shares(
    pools: Sequence[PoolPlan], quota: Mapping[str, int], limits: tuple[str | None, str | None]
) -> tuple[PoolShares, ...]:
    cpu, memory = limits
    exact = {
        pool.name: {name: _exact_share(pool, part) for name, part in _extended_resources(pool).items()}
        for pool in pools
    }
    most_cpu = None if cpu is None else Fraction(parse_quantity(cpu)) * 1000
    most_memory = None if memory is None else Fraction(parse_quantity(memory)) / 2**20
    cpu_scale = _scale(most_cpu, quota, exact.values(), 0)
    memory_scale = _scale(most_memory, quota, exact.values(), 1)
    return tuple(
        PoolShares(
            pool=pool.name,
            node_selector=pool.node_selector,
            units={
                name: NodeResources(int(share[0] * cpu_scale), int(share[1] * memory_scale))
                for name, share in exact[pool.name].items()
            },
        )
        for pool in pools
        if exact[pool.name]
    )


def share_of_node(pool: PoolPlan, part: Fraction) -> NodeResources:
    """Return the CPU and memory of a fraction of a node, excluding resources that are reserved for the node
    itself.
    """
    cpu, memory = _exact_share(pool, part)
    return NodeResources(int(cpu), int(memory))


def _exact_share(pool: PoolPlan, part: Fraction) -> tuple[Fraction, Fraction]:
    """Return the exact millicores and MiB of a fraction of a node, before rounding."""
    return (
        part * free_resources(pool).cpu_millicores,
        part * min(free_resources(pool).memory_mib, pool.memory_mib * MEMORY_PART - pool.huge_pages_mib),
    )


def _scale(
    most: Fraction | None,
    quota: Mapping[str, int],
    pools: Collection[Mapping[str, tuple[Fraction, Fraction]]],
    index: int,
) -> Fraction:
    """Return the factor that scales the shares of all of a team's GPUs so that they fit its CPU or memory
    quota.
    """
    if most is None:
        return Fraction(1)
    needed = sum(
        (
            count * max((shares[name][index] for shares in pools if name in shares), default=Fraction(0))
            for name, count in quota.items()
        ),
        Fraction(0),
    )
    return min(Fraction(1), most / needed) if needed else Fraction(1)


def _share_texts(shares: Sequence[PoolShares], quota: Mapping[str, int]) -> list[str]:
    return [
        f"{share.cpu_millicores / 1000:.1f} CPU and {share.memory_mib / 1024:.1f} GiB per {name} of {one.pool}"
        for one in shares
        for name, share in one.units.items()
        if quota.get(name)
    ]
