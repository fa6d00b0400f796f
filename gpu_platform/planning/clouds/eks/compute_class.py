"""Plan the order in which pools of a compute class get nodes on EKS.

Karpenter uses the NodePool with the highest weight first. It uses the next NodePool while the first one has
reached its limits or its capacity is unavailable. The Cluster Autoscaler uses the priority expander, which reads
patterns of Auto Scaling group names from a ConfigMap, highest priority first. After a group turns out to have no
capacity, the autoscaler skips the group for a few minutes.

Sources: Karpenter 1.14 docs, NodePools, "spec.weight" (1 to 100); kubernetes/autoscaler,
cluster-autoscaler/expander/priority/readme.md; EKS user guide, managed node groups (names of Auto Scaling groups);
read 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform.planning.clouds.eks.cluster_autoscaler import scaled
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan
from gpu_platform.planning.pools.section import BOTH_ADD_NODES
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import ClassPlace
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import Pool

_HIGHEST: Final = 100
_STEP: Final = 10  # a compute class has at most ten pools
_OTHERS: Final = 1


def priority(place: ClassPlace) -> int:
    """Return the weight of a NodePool, or the priority of a node group.

    The value of the first pool in a class is 100.
    """
    return _HIGHEST - _STEP * place.rank


def group_priorities(pools: Mapping[str, EksPoolPlan]) -> Mapping[int, Sequence[str]]:
    """Return patterns of Auto Scaling group names by priority. The result is empty if no pool is in a compute
    class.
    """
    found: dict[int, list[str]] = {}
    for name, pool in pools.items():
        if pool.compute_class is not None and pool.autoscaled:
            found.setdefault(priority(pool.compute_class), []).append(_group_pattern(name))
    # The expander skips groups that match no pattern if another group matches one.
    return {**found, _OTHERS: [".*"]} if found else {}


def _group_pattern(pool: str) -> str:
    """Return the pattern for the names of a node group's Auto Scaling groups.

    EKS names a group eks-<node group>-<UUID>. Pulumi may append seven hexadecimal digits to the node group's name.
    """
    return f"^eks-{re.escape(pool)}(-[0-9a-f]{{7}})?-[0-9a-f]{{8}}-[0-9a-f-]+$"


def check_compute_class(cluster: EksCluster, pools: Sequence[Pool], problems: Problems) -> None:
    """Record a problem if the pools of a compute class have different autoscalers, or if the program's autoscaler
    does not scale them.
    """
    here = problems.at("pools")
    by_karpenter = [pool.name for pool in pools if pool.provisioner == "karpenter"]
    managed = [pool for pool in pools if pool.provisioner == "managed"]
    if by_karpenter and managed:
        here.add(
            f"{', '.join(by_karpenter)} with provisioner: karpenter, and "
            f"{', '.join(pool.name for pool in managed)} with provisioner: managed",
            f"pools with the same provisioner: {BOTH_ADD_NODES}",
            "write the same provisioner in all pools of the class",
        )
    elif cluster.parts.cluster_autoscaler != "install" and any(pool.count.is_range for pool in managed):
        here.add(
            f"managed pools with cluster.parts.cluster_autoscaler: {cluster.parts.cluster_autoscaler}",
            "the program's own Cluster Autoscaler, or Karpenter: the order is part of their configuration",
            "write cluster.parts.cluster_autoscaler: install, or provisioner: karpenter",
        )
    elif managed and not any(scaled(pool, cluster) for pool in managed):
        here.add(
            f"{', '.join(pool.name for pool in managed)}, which no autoscaler scales",
            "at least one pool whose count has a range: the order decides which pool gets new nodes first",
            "write count: {min: 0, desired: 0, max: N} in one of the pools",
        )
