"""The kubelet's part: a node's capacity and allocatable, and the refusal of pods that a device plugin refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_platform.catalog import MachineType
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS
from gpu_platform.planning.nodes.allocatable import allocatable
from gpu_platform.quantity import parse_quantity
from sandbox.simulator.device_plugin import Advertised, allocate_error

REJECTED: Final = "UnexpectedAdmissionError"
_DEVICES: Final = "nvidia.com/"
# A root disk of 100 GiB less the kubelet's default eviction threshold, nodefs.available 10 %.
_DISK_GIB: Final = 100
_DISK_LEFT_GIB: Final = 90

Quantities = Mapping[str, str]


def node_status(
    machine: MachineType, advertised: Mapping[str, Advertised], present: Mapping[str, Quantities]
) -> dict[str, dict[str, str]]:
    """Return the capacity and allocatable of a node, given those `present` in its status.

    A device resource that is no longer advertised stays with 0, as the kubelet leaves it (nodestatus/setters.go);
    the five minutes for which a kubelet keeps the capacity of a plugin that went away are left out.
    """
    left = allocatable(machine)
    capacity = {
        "cpu": str(machine.vcpu),
        "memory": f"{machine.memory_mib}Mi",
        "ephemeral-storage": f"{_DISK_GIB}Gi",
        "pods": str(DEFAULT_MAX_PODS),
    }
    usable = {
        "cpu": f"{left.cpu_millicores}m",
        "memory": f"{left.memory_mib}Mi",
        "ephemeral-storage": f"{_DISK_LEFT_GIB}Gi",
        "pods": str(DEFAULT_MAX_PODS),
    }
    gone = {name for held in present.values() for name in held if name.startswith(_DEVICES)} - set(advertised)
    none_left = dict.fromkeys(sorted(gone), "0")
    return {
        "capacity": capacity | {name: str(offer.count) for name, offer in advertised.items()} | none_left,
        "allocatable": usable | {name: str(offer.healthy) for name, offer in advertised.items()} | none_left,
    }


def status_patch(wanted: Mapping[str, Quantities], present: Mapping[str, Quantities]) -> dict[str, dict[str, str]]:
    """Return what has to change for `present` to equal `wanted`; empty when nothing."""
    patch: dict[str, dict[str, str]] = {}
    for field, quantities in wanted.items():
        held = present.get(field, {})
        differing = {
            name: value
            for name, value in quantities.items()
            if name not in held or parse_quantity(held[name]) != parse_quantity(value)
        }
        if differing:
            patch[field] = differing
    return patch


def rejection(pod: Mapping[str, Any], advertised: Mapping[str, Advertised]) -> str | None:
    """Return why the kubelet refuses a pod that was bound to the node, or None when it takes it.

    The device plugin is asked container by container. Message as the kubelet words it (pkg/kubelet/lifecycle
    and cm/admission).
    """
    for resource, amount in _device_requests(pod):
        offer = advertised.get(resource)
        if offer is not None and offer.single_only and amount > 1:
            error = f"rpc error: code = Unknown desc = {allocate_error(resource, amount)}"
            return f"Pod was rejected: Allocate failed due to {error}, which is unexpected"
    return None


def holds_devices(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod that was bound to a node has devices of it; it gives them back when it has ended."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and any(amount for _, amount in _device_requests(pod))


def _device_requests(pod: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each container's device requests. Extended resources are whole numbers, requests equal limits."""
    spec = pod["spec"]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        limits: Quantities = container.get("resources", {}).get("limits", {})
        for name, value in limits.items():
            if name.startswith(_DEVICES):
                yield name, int(parse_quantity(value))
