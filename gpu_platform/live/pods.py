"""Classifies the pods of a node for a drain: pods that use GPUs, and pods that are evicted, kept or unmanaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpu_platform.live.objects import annotation, items_at, mapping_at
from gpu_platform.live.usage import gpu_units

_MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_ENDED: Final = ("Succeeded", "Failed")

Pod = Mapping[str, Any]
EvictionAction = Literal["evict", "keep", "unmanaged"]


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that uses GPUs. `name` is its `namespace/name`. `units` contains the quantity of each GPU resource
    that the pod uses.
    """

    name: str
    units: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{count} x {resource}' for resource, count in self.units.items())})"

    def to_json(self) -> dict[str, Any]:
        """Return the pod for a JSON report."""
        return {"name": self.name, "units": dict(self.units)}


def pod_name(pod: Pod) -> str:
    """Return the name of a pod as `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def gpu_pods(pods: Iterable[Pod]) -> tuple[GpuPod, ...]:
    """Return the pods that use GPUs and have not ended, sorted by name."""
    held = [(pod, gpu_units(pod)) for pod in pods if mapping_at(pod, "status").get("phase") not in _ENDED]
    return tuple(sorted((GpuPod(pod_name(pod), units) for pod, units in held if units), key=lambda one: one.name))


def eviction_action(pod: Pod) -> EvictionAction:
    """Return what a drain does with a pod, according to the rules of `kubectl drain`.

    `keep` applies to pods of a DaemonSet, static pods and pods that have ended. `unmanaged` applies to pods
    without a controller, which nothing would start again. An owner counts as a DaemonSet only if its API group
    is `apps`. Whoever creates a pod can name any owner, but the garbage collector deletes the pod if an owner
    of a known kind does not exist.
    """
    if annotation(pod, _MIRROR_ANNOTATION) or mapping_at(pod, "status").get("phase") in _ENDED:
        return "keep"
    if _controller(pod) is None:
        return "unmanaged"
    return "keep" if daemon_set_of(pod) else "evict"


def daemon_set_of(pod: Pod) -> str:
    """Return the DaemonSet of a pod as `namespace/name`, or an empty string."""
    owner = _controller(pod) or {}
    if owner.get("kind") != "DaemonSet" or not str(owner.get("apiVersion")).startswith("apps/"):
        return ""
    return f"{pod['metadata']['namespace']}/{owner.get('name')}"


def daemon_gpu_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the DaemonSet pods that have GPUs. A drain leaves them running even if their GPUs must become free.

    Pods that have GPUs only through claims are left out, because the node agent's claim has admin access and uses
    no GPU.
    """
    running = (pod for pod in pods if mapping_at(pod, "status").get("phase") not in _ENDED)
    return tuple(pod for pod in running if daemon_set_of(pod) and gpu_units(pod))


def _controller(pod: Pod) -> Mapping[str, Any] | None:
    return next((one for one in items_at(pod, "metadata", "ownerReferences") if one.get("controller")), None)
