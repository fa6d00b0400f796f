"""The machine types that Karpenter may create in a sandbox: the catalogue's EC2 types, in one region.

Karpenter's KWOK provider reads them from a file (kwok/README.md of sigs.k8s.io/karpenter v1.14.1, "Specifying
Instance Types"). The allocatable resources of a node are computed as in the sandbox's kubelet, so that the node
has the resources that Karpenter expects. Capacity is on-demand or spot. There are no reservations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType
from sandbox.simulator.allocatable import MAX_PODS, node_allocatable

REGION: Final = "us-east-2"
_PRICED: Final = (REGION, "us-east-1")  # prices only determine which of two machine types is cheaper
ZONES: Final = tuple(f"{REGION}{letter}" for letter in "abc")
# Amount that the provider subtracts from the capacity of every node.
# Source: kwok/cloudprovider/helpers.go, newInstanceType.
_KWOK_CPU_MILLICORES: Final = 100
_KWOK_MEMORY_MIB: Final = 10
_DISK: Final = "90Gi"
# Price of spot nodes as a fraction of the on-demand price, so that Karpenter prefers spot nodes.
# The fraction does not come from AWS prices.
_SPOT_PART: Final = 0.4
_UNPRICED: Final = 1.0  # price of a machine type without a list price


def instance_types(
    catalog: Catalog, offers: Mapping[str, Mapping[str, int]] | None = None
) -> list[dict[str, Any]]:
    """Return the content of the file: every EC2 machine type with a known list price, and the types in `offers`.

    `offers` contains the extended resources of a node for each machine type of the autoscaled pools. These
    resources already reflect GPU sharing.
    """
    offers = offers or {}
    found: list[dict[str, Any]] = []
    for machine in catalog.machine_types.values():
        prices = (catalog.price(machine, region) for region in _PRICED if machine.vendor == "aws")
        price = next((one.usd_per_hour for one in prices if one is not None), None)
        if machine.name in offers:
            # The price does not matter, because an autoscaled pool names its machine type.
            found.append(_instance_type(machine, price or _UNPRICED, offers[machine.name]))
        elif price is not None:
            whole = {names.GPU_RESOURCE: machine.gpu_count} if machine.has_gpus else {}
            found.append(_instance_type(machine, price, whole))
    return found


def _instance_type(machine: MachineType, usd_per_hour: float, offers: Mapping[str, int]) -> dict[str, Any]:
    usable = node_allocatable(machine)
    resources = {
        "cpu": f"{usable.cpu_millicores + _KWOK_CPU_MILLICORES}m",
        "memory": f"{usable.memory_mib + _KWOK_MEMORY_MIB}Mi",
        "ephemeral-storage": _DISK,
        "pods": str(MAX_PODS),
    }
    resources |= {name: str(count) for name, count in offers.items()}
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
