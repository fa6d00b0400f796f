"""Annotations of a simulated Node object. The sandbox's simulator reads the node's hardware from them."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_platform.base import names
from gpu_platform.planning.nodes.section import Kubelet, Taint


def simulated_annotations(
    machine_type: str, taints: Iterable[Taint], driver_version: str | None, kubelet: Kubelet | None
) -> dict[str, str]:
    """Return the annotations of a simulated node. `taints` are all taints that the node starts with."""
    annotations = {
        names.SANDBOX_MACHINE_ANNOTATION: machine_type,
        names.TAINTS_ANNOTATION: ",".join(map(str, taints)),
    }
    if driver_version is not None:
        annotations[names.SANDBOX_DRIVER_ANNOTATION] = driver_version
    if kubelet is not None and kubelet.topology_scope != "container":
        annotations[names.SANDBOX_TOPOLOGY_SCOPE_ANNOTATION] = kubelet.topology_scope
    return annotations
