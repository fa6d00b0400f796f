"""Check compute classes: their pools must exist, be in no other class, and offer the same GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_platform.base.errors import did_you_mean
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools.section import BOTH_ADD_NODES, PoolPlan
from gpu_platform.planning.problems import Problems, check_unique
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import Pool


def check(classes: Sequence[ComputeClass], cloud: Cloud, pools: Sequence[Pool]) -> Problems:
    """Return problems with compute classes, with their pools, and with their use on the cloud."""
    problems = Problems()
    check_unique("compute class", [(_path(index), one.name) for index, one in enumerate(classes)], problems)
    by_name = {pool.name: pool for pool in pools}
    taken: dict[str, str] = {}
    for index, one in enumerate(classes):
        here = problems.at(_path(index))
        if not cloud.creates_nodes:
            here.add(
                f"a class on provider {cloud.cluster.provider}",
                "compute_classes only on EKS and GKE, because other clusters add no nodes",
                "remove it",
            )
            continue
        for place, name in enumerate(one.pools):
            at = here.at("pools").at(f"[{place}]")
            if name not in by_name:
                at.add(f"{name!r}", f"a pool: {', '.join(by_name)}", did_you_mean(name, list(by_name)) or "add it")
            elif name in taken:
                at.add(
                    f"{name!r} again",
                    f"each pool only once and in one class (it is already in class {taken[name]}), because nodes "
                    "have one label for the class",
                    "remove the pool from one of the two places",
                )
            taken.setdefault(name, one.name)
        members = [by_name[name] for name in one.pools if name in by_name]
        cloud.classes.check(one, members, here)
    return problems


def check_offers(context: CompleteContext, pools: Sequence[PoolPlan]) -> None:
    """Record a problem for each compute class whose planned pools offer different GPUs to pods."""
    by_name = {pool.name: pool for pool in pools}
    for index, one in enumerate(context.environment.compute_classes):
        first, *others = (by_name[name] for name in one.pools)
        for place, other in enumerate(others, start=1):
            if _offer(other) != _offer(first):
                context.at(_path(index)).at("pools").at(f"[{place}]").add(
                    f"{other.name!r} with {_offer_text(other)}",
                    f"{_offer_text(first)}, like pool {first.name!r}, because a pod that selects the class can "
                    "run on any of its pools",
                    "name only pools with GPUs in the class, or only pools without GPUs"
                    if first.has_gpus != other.has_gpus
                    else "give the pools the same GPU model and sharing, or make two classes",
                )


def decisions(context: CompleteContext, pools: Sequence[PoolPlan]) -> Iterator[Decision]:
    """Yield a warning if pools with the same resource and taints have different autoscalers, and no queue selects
    a pool.

    Both autoscalers may then create a node for the same pending pod.
    """
    if context.environment.queueing is not None:
        return
    growing: dict[tuple[str, tuple[Taint, ...]], list[PoolPlan]] = {}
    for pool in pools:
        if pool.cloud is not None and pool.autoscaled:
            for resource in [offer.name for offer in pool.resources] or ["cpu"]:
                growing.setdefault((resource, pool.taints), []).append(pool)
    for (resource, _), offering in growing.items():
        if len({pool.by_karpenter for pool in offering}) > 1:
            yield Decision(
                subject="pools",
                what=f"warning: {resource}",
                chosen=f"on {', '.join(pool.name for pool in offering)}",
                why=f"{BOTH_ADD_NODES} that names no pool: set the same provisioner in all these pools, or use "
                "`queueing`, whose queues name the pool",
            )


def _offer(pool: PoolPlan) -> tuple[str, dict[str, float]]:
    """Return the GPU model of a pool, and the fraction of a GPU that one unit of each resource represents."""
    return pool.gpu_model, {offer.name: offer.gpus / offer.per_node for offer in pool.resources if offer.per_node}


def _offer_text(pool: PoolPlan) -> str:
    if not pool.has_gpus:
        return "no GPUs"
    shares = f" with {pool.sharing.replicas} shares" if pool.sharing.replicas > 1 else ""
    offered = ", ".join(offer.name for offer in pool.resources) or "devices that pods claim"
    return f"{offered} on {pool.gpu_model}{shares}"


def _path(index: int) -> str:
    return f"compute_classes[{index}]"
