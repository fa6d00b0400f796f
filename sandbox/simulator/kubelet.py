"""The kubelet: a node's capacity and allocatable, and the rejection of pods that a device plugin refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubernetes.utils.quantity import parse_quantity

from gpu_platform.catalog import MachineType
from sandbox.simulator.admission import Rejection, allocation_error
from sandbox.simulator.allocatable import MAX_PODS, node_allocatable
from sandbox.simulator.device_plugin import Advertised, allocate_error

_DEVICES: Final = "nvidia.com/"
# A root disk of 100 GiB minus the kubelet's default eviction threshold, nodefs.available 10 %.
_DISK_GIB: Final = 100
_DISK_LEFT_GIB: Final = 90

Quantities = Mapping[str, str]


def node_status(
    machine: MachineType, advertised: Mapping[str, Advertised], present: Mapping[str, Quantities]
) -> dict[str, dict[str, str]]:
    """Return the capacity and allocatable of a node. `present` contains the values in its current status.

    A device resource that is no longer advertised stays in the status with quantity 0, as in the kubelet
    (nodestatus/setters.go). A real kubelet keeps the capacity of a stopped plugin for five minutes, which is not
    simulated.
    """
    allocatable = node_allocatable(machine)
    capacity = {
        "cpu": str(machine.vcpu),
        "memory": f"{machine.memory_mib}Mi",
        "ephemeral-storage": f"{_DISK_GIB}Gi",
        "pods": str(MAX_PODS),
    }
    usable = {
        "cpu": f"{allocatable.cpu_millicores}m",
        "memory": f"{allocatable.memory_mib}Mi",
        "ephemeral-storage": f"{_DISK_LEFT_GIB}Gi",
        "pods": str(MAX_PODS),
    }
    gone = {name for held in present.values() for name in held if name.startswith(_DEVICES)} - set(advertised)
    none_left = dict.fromkeys(sorted(gone), "0")
    return {
        "capacity": capacity | {name: str(offer.count) for name, offer in advertised.items()} | none_left,
        "allocatable": usable | {name: str(offer.healthy) for name, offer in advertised.items()} | none_left,
    }


def status_patch(wanted: Mapping[str, Quantities], present: Mapping[str, Quantities]) -> dict[str, dict[str, str]]:
    """Return the patch that changes `present` to `wanted`, or an empty mapping if they are equal."""
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


def rejection(pod: Mapping[str, Any], advertised: Mapping[str, Advertised]) -> Rejection | None:
    """Return why a device plugin prevents the start of a pod on the node, or None if it does not.

    The device plugin is called for each container.
    """
    for resource, amount in _device_requests(pod):
        offer = advertised.get(resource)
        if offer is not None and offer.single_only and amount > 1:
            return allocation_error(f"rpc error: code = Unknown desc = {allocate_error(resource, amount)}")
    return None


def holds_devices(pod: Mapping[str, Any]) -> bool:
    """Return whether devices are allocated to a pod on a node. A terminated pod holds none."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and any(amount for _, amount in _device_requests(pod))


def _device_requests(pod: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the device requests of each container. Extended resources are integers, and requests equal limits."""
    spec = pod["spec"]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        limits: Quantities = container.get("resources", {}).get("limits", {})
        for name, value in limits.items():
            if name.startswith(_DEVICES):
                yield name, int(parse_quantity(value))
