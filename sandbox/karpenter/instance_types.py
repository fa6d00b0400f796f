"""The machine types that Karpenter may create in a sandbox: those of EC2 in the catalogue, in one region.

Karpenter's KWOK provider reads them from a file (kwok/README.md of sigs.k8s.io/karpenter v1.14.1, "Specifying
Instance Types"). What pods can use of a node is computed as the sandbox's kubelet does it, so that the node turns
out as Karpenter expects it. Capacity is on-demand or spot; there are no reservations.
"""

from __future__ import annotations

from typing import Any, Final

from gpu_platform import names
from gpu_platform.catalog import Catalog, MachineType
from sandbox.simulator.allocatable import MAX_PODS, node_allocatable

REGION: Final = "us-east-2"
_PRICED: Final = (REGION, "us-east-1")  # prices only say which machine type is cheaper
ZONES: Final = tuple(f"{REGION}{letter}" for letter in "abc")
# What the provider takes off the capacity of every node (kwok/cloudprovider/helpers.go, newInstanceType).
_KWOK_CPU_MILLICORES: Final = 100
_KWOK_MEMORY_MIB: Final = 10
_DISK: Final = "90Gi"
# Spot nodes are cheaper than others: Karpenter takes the cheapest that a NodePool allows. Not a price of AWS.
_SPOT_PART: Final = 0.4


def instance_types(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the content of the file: every EC2 machine type with a known list price."""
    found: list[dict[str, Any]] = []
    for machine in catalog.machine_types.values():
        prices = (catalog.price(machine, region) for region in _PRICED if machine.vendor == "aws")
        price = next((one for one in prices if one is not None), None)
        if price is not None:
            found.append(_instance_type(machine, price.usd_per_hour))
    return found


def _instance_type(machine: MachineType, usd_per_hour: float) -> dict[str, Any]:
    usable = node_allocatable(machine)
    resources = {
        "cpu": f"{usable.cpu_millicores + _KWOK_CPU_MILLICORES}m",
        "memory": f"{usable.memory_mib + _KWOK_MEMORY_MIB}Mi",
        "ephemeral-storage": _DISK,
        "pods": str(MAX_PODS),
    }
    if machine.has_gpus:
        resources[names.GPU_RESOURCE] = str(machine.gpu_count)
    return {
        "name": machine.name,
        "architecture": machine.arch,
        "operatingSystems": ["linux"],
        "resources": resources,
        "offerings": [
            _offering(zone, capacity, usd)
            for zone in ZONES
            for capacity, usd in (("on-demand", usd_per_hour), ("spot", usd_per_hour * _SPOT_PART))
        ],
    }


def _offering(zone: str, capacity: str, usd_per_hour: float) -> dict[str, Any]:
    wanted = {"karpenter.sh/capacity-type": capacity, "topology.kubernetes.io/zone": zone}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    return {"Price": round(usd_per_hour, 6), "Available": True, "Requirements": requirements}
