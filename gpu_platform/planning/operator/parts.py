"""Check and explain GPU software that the owner of an existing cluster has installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform.planning.clouds.gpu_parts import gpu_parts
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.context import Context
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.sharing import ResolvedPool

_NEEDS: Final[Mapping[str, str]] = {
    "gpu_operator": "the DaemonSets must tolerate the pools' taints, and the device plugin must offer whole GPUs",
    "device_plugin": "the device plugin must tolerate the taints of the pools, and offer whole GPUs",
    "node_feature_discovery": "its pods must tolerate the taints of the pools, and label GPUs by PCI vendor",
    "dcgm_exporter": "the exporter must run on nodes with the taints of the pools",
}


def check_parts(context: Context, resolved_pools: Sequence[ResolvedPool]) -> None:
    """Record a problem for GPU software that a new cluster cannot have yet. Also record a problem for pools whose
    settings the program cannot apply, because the cluster's owner configures the installed software.
    """
    if context.cloud is None:
        return
    parts = gpu_parts(context.cloud.cluster)
    present = [name for name in _NEEDS if getattr(parts, name) == "present"]
    for name in present if context.cloud.creates_cluster else ():
        context.at(f"cluster.parts.{name}").add(
            "present on a new cluster",
            "present only on an existing cluster; a new cluster has no such software yet",
            "write install, or remove create",
        )
    for name in present if parts.gpu_operator == "present" else ():
        if name != "gpu_operator":
            context.at(f"cluster.parts.{name}").add(
                "present together with gpu_operator: present",
                "install, because the operator's owner decides what it installs",
                "remove it",
            )
    owner = next((name for name in ("gpu_operator", "device_plugin") if name in present), None)
    for resolved in resolved_pools if owner is not None else ():
        mode = resolved.pool.sharing.mode
        if mode != "none":
            context.at(f"{resolved.sharing_path}.mode").add(
                f"{mode!r} with cluster.parts.{owner}: present",
                "none, because the owner's device plugin configures how GPUs are shared",
                f"write cluster.parts.{owner}: install, or mode: none",
            )


def part_decisions(parts: Sequence[PartPlan]) -> tuple[Decision, ...]:
    """Return the decisions about GPU software that the cluster's owner has installed."""
    return tuple(
        Decision(
            subject="operator",
            what=part.title,
            chosen="present",
            why=f"the cluster's owner installs and upgrades this software; {_NEEDS[part.name]}",
        )
        for part in parts
        if not part.install
    )
