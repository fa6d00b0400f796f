"""Pods of a node as a drain sees them: who holds GPUs, who leaves, who stays, whom nobody would start again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpu_platform.engine.objects import annotation, items_at, mapping_at
from gpu_platform.quantity import parse_quantity

_VENDOR: Final = "nvidia.com/"
_MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_ENDED: Final = ("Succeeded", "Failed")

Pod = Mapping[str, Any]
Fate = Literal["leaves", "stays", "alone"]


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that holds GPUs: units by extended resource."""

    name: str
    """With its namespace."""
    units: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{count} x {resource}' for resource, count in self.units.items())})"

    def to_json(self) -> dict[str, Any]:
        """Return it for a JSON report."""
        return {"name": self.name, "units": dict(self.units)}


def pod_name(pod: Pod) -> str:
    """Return `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def gpu_pods(pods: Iterable[Pod]) -> tuple[GpuPod, ...]:
    """Return those of the pods that hold GPUs, by name; one that has ended holds none."""
    held = [(pod, _units(pod)) for pod in pods if mapping_at(pod, "status").get("phase") not in _ENDED]
    return tuple(sorted((GpuPod(pod_name(pod), units) for pod, units in held if units), key=lambda one: one.name))


def eviction_action(pod: Pod) -> Fate:
    """Return what a drain does to a pod, as `kubectl drain` decides it.

    Pods of a DaemonSet, static pods and pods that have ended stay; one without a controller is left `alone`, since
    nobody would start it again.
    """
    if annotation(pod, _MIRROR_ANNOTATION) or mapping_at(pod, "status").get("phase") in _ENDED:
        return "stays"
    owner = next((one for one in items_at(pod, "metadata", "ownerReferences") if one.get("controller")), None)
    if owner is None:
        return "alone"
    return "stays" if owner.get("kind") == "DaemonSet" else "leaves"


def _units(pod: Pod) -> Mapping[str, int]:
    units: dict[str, int] = {}
    for container in items_at(pod, "spec", "containers"):
        for name, count in mapping_at(container, "resources", "limits").items():
            if name.startswith(_VENDOR):
                units[name] = units.get(name, 0) + int(parse_quantity(count))
    return units
