"""Resources that teams can use on the pools, with the names that quotas use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpu_platform.base import names
from gpu_platform.catalog import Catalog
from gpu_platform.planning.dra.claims import meets, type_of
from gpu_platform.planning.pools.section import PoolPlan, claimed_with_gpus
from gpu_platform.stack.claims import DeviceClass, DeviceRequirements


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """The pools, and the units of each extended resource or device class at the pools' maximum size."""

    pools: Sequence[PoolPlan]
    classes: Mapping[str, DeviceClass]
    units: Mapping[str, int]
    catalog: Catalog

    @property
    def of_dra(self) -> bool:
        """Whether pods claim devices through DRA."""
        return any(pool.devices for pool in self.pools)

    @property
    def limited(self) -> Sequence[str]:
        """All resources that a quota must name. A resource that it does not name would be unlimited."""
        drivers = names.DRIVERS_DEVICE_CLASSES if self.of_dra else ()
        return sorted({*self.units, *drivers})

    @property
    def claimed_with_gpus(self) -> Sequence[str]:
        """Device classes that pods claim in addition to GPUs. Team quotas do not name them."""
        return claimed_with_gpus(self.pools)


def available_resources(
    pools: Sequence[PoolPlan], classes: Mapping[str, DeviceClass], catalog: Catalog
) -> Available:
    """Return the resources of the pools. `classes` are the device classes that the environment declares."""
    units: dict[str, int] = {}
    for pool in pools:
        for name, count in pool.max_units.items():
            units[name] = units.get(name, 0) + count
    for name, declared in classes.items():
        units[name] = max_at_once(type_of(declared), [declared], pools, catalog)
    return Available(pools=pools, classes=classes, units=units, catalog=catalog)


def max_at_once(
    kind: Literal["gpu", "mig"], demands: Sequence[DeviceRequirements], pools: Sequence[PoolPlan], catalog: Catalog
) -> int:
    """Return the maximum number of devices that meet the requirements and can be used at once.

    Each pool is counted at its maximum size. If several MIG profiles use the same GPUs, only the smallest profile
    is counted.
    """
    return sum(
        max(
            (device.per_node for device in pool.devices if meets(device, kind, demands, catalog)),
            default=0,
        )
        * pool.nodes.max
        for pool in pools
    )
