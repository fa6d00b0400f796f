"""Plan ComputeClasses. A ComputeClass sets the order in which GKE's autoscaler adds nodes to node pools that can
run the same pods.

Manually created node pools belong to a class if they have its label and taint. GKE adds the toleration to pods
that select the label. Each node pool has its own rule, because the node pools of one rule have no order. GKE's
automatic creation of node pools is off, because such node pools would lack the driver and the planned settings.
GKE does not move running pods.

Sources: GKE docs, "About custom ComputeClasses" (manual node pools, whenUnsatisfiable) and the ComputeClass CRD
(priorities, nodePoolAutoCreation, activeMigration); google/skills, gke-compute-classes; read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_platform.planning.clouds.gke.plan import ComputeClassPlan, GkePoolPlan
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import FlexStart, Pool

CLASS_KEY: Final = "cloud.google.com/compute-class"
# A ComputeClass with this name applies to pods that select no class.
_DEFAULT: Final = "default"
# GKE reserves names with these prefixes for itself.
_RESERVED: Final = ("gke", "autopilot")
_SPEC: Final[Mapping[str, Any]] = {
    "activeMigration": {"optimizeRulePriority": False},
    "nodePoolAutoCreation": {"enabled": False},
    # The default of this field depends on the GKE version.
    # With the value ScaleUpAnyway, GKE would add nodes without GPUs.
    "whenUnsatisfiable": "DoNotScaleUp",
}


def class_taint(name: str) -> Taint:
    """Return the taint of the nodes in the compute class `name`."""
    return Taint(key=CLASS_KEY, value=name, effect="NoSchedule")


def check_compute_class(compute_class: ComputeClass, pools: Sequence[Pool], problems: Problems) -> None:
    """Record a problem for a name that GKE uses, a pool with queued provisioning, or a compute class without
    autoscaled pools.
    """
    name = compute_class.name
    if name == _DEFAULT or name.startswith(_RESERVED):
        problems.at("name").add(
            f"{name!r}",
            f"a name other than {_DEFAULT!r}, which is for pods that select no class, and without GKE's own "
            "prefixes: " + ", ".join(f"{one}*" for one in _RESERVED),
            "name the class after the GPU",
        )
    for pool in pools:
        if isinstance(pool.capacity, FlexStart) and pool.capacity.queued:
            problems.at("pools").at(f"[{compute_class.pools.index(pool.name)}]").add(
                f"{pool.name!r} with queued provisioning",
                "pools without queued provisioning, which reserves their nodes for pods of a ProvisioningRequest",
                "write queued: false, or remove the pool from the class",
            )
    if pools and not any(pool.count.is_range or isinstance(pool.capacity, FlexStart) for pool in pools):
        problems.at("pools").add(
            f"{', '.join(pool.name for pool in pools)}, without an autoscaled pool",
            "at least one pool whose count has a range, because the order applies when nodes are added",
            "write count: {min: 0, desired: 0, max: N} in one of the pools",
        )


def plan_compute_classes(pools: Sequence[tuple[PoolPlan, GkePoolPlan]]) -> tuple[ComputeClassPlan, ...]:
    """Return the ComputeClasses of planned pools."""
    members: dict[str, dict[int, str]] = {}
    for pool, cloud in pools:
        if cloud.compute_class is not None:
            members.setdefault(cloud.compute_class.name, {})[cloud.compute_class.rank] = pool.name
    return tuple(
        ComputeClassPlan(name=name, pools=tuple(found[rank] for rank in sorted(found)), spec=_SPEC)
        for name, found in sorted(members.items())
    )
