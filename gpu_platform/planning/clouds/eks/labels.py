"""Labels and taints of EKS nodes, using EKS API names."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_platform.base import names
from gpu_platform.planning.clouds.eks.plan import EksTaint
from gpu_platform.planning.nodes.section import Taint

EFA_PRESENT_LABEL = "vpc.amazonaws.com/efa.present"
_EFFECTS: Mapping[str, str] = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


def eks_labels(labels: Mapping[str, str], *, has_gpus: bool, efa: bool, dranet: bool = False) -> Mapping[str, str]:
    """Return the labels of a pool, plus the labels that GPU software and an EFA driver use to select nodes.

    Only one EFA driver may run on a node, because the EFA device plugin and the EFA DRA driver would both allocate
    the same interfaces to pods.
    """
    present = {names.GPU_PRESENT_LABEL: "true"} if has_gpus else dict[str, str]()
    if dranet:
        present[names.EFA_DRIVER_LABEL] = "dranet"
    elif efa:
        present[EFA_PRESENT_LABEL] = "true"
    return {**labels, **present}


def eks_taints(taints: tuple[Taint, ...]) -> tuple[EksTaint, ...]:
    """Return taints using EKS API names."""
    return tuple(EksTaint(key=one.key, value=one.value, effect=_EFFECTS[one.effect]) for one in taints)
