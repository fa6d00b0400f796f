"""List prices of machine types by region, and the regions and zones that offer machine types."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog.models import MachineType, Offering, PartPriceList, PartPrices, PriceList, Source

_DIGITS: Final = 6  # number of decimal places of prices in the lists


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrice:
    """On-demand list price of a machine in a region, in USD/h."""

    usd_per_hour: float
    region: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Regions and zones that are known to offer a machine type, and the date of the oldest list with this
    information.

    `zones` contains the full names of the zones by region. If only a region is known, its tuple of zones is empty.
    """

    zones: Mapping[str, tuple[str, ...]]
    date: datetime.date


def find_price(
    machine: MachineType, region: str, lists: Collection[PriceList], parts: Collection[PartPriceList] = ()
) -> ListPrice | None:
    """Return the list price of a machine in a region, or None if the price is not known.

    The price is either a price of the whole machine, or the sum of the component prices in `parts`.
    """
    for one in lists:
        usd = one.usd_per_hour.get(machine.name, {}).get(region) if one.vendor == machine.vendor else None
        if usd is not None:
            return ListPrice(usd_per_hour=usd, region=region, source=one.source)
    for one in parts:
        if one.vendor == machine.vendor and machine.name in one.machine_types and region in one.regions:
            usd = _of_parts(machine, one.regions[region])
            return ListPrice(usd_per_hour=usd, region=region, source=one.source)
    return None


def _of_parts(machine: MachineType, prices: PartPrices) -> float:
    usd = machine.vcpu * prices.vcpu + machine.memory_mib / 1024 * prices.memory_gib
    return round(usd + machine.local_nvme_gb * prices.local_nvme_gb, _DIGITS)


def offered(machine: MachineType, lists: Collection[PriceList], offerings: Collection[Offering]) -> Offered | None:
    """Return the regions and zones of a machine type, from the offerings and from the regions with a list price.

    Lists of machines without GPUs contain prices for few regions, so they do not show which regions offer these
    machines.
    """
    lists = lists if machine.has_gpus else ()
    priced = [one for one in lists if one.vendor == machine.vendor and machine.name in one.usd_per_hour]
    named = [one for one in offerings if one.vendor == machine.vendor and machine.name in one.machine_types]
    zones: dict[str, set[str]] = {region: set() for one in priced for region in one.usd_per_hour[machine.name]}
    for one in named:
        for region, letters in one.regions.items():
            zones.setdefault(region, set()).update(f"{region}-{letter}" for letter in letters)
    if not zones:
        return None
    return Offered(
        zones={region: tuple(sorted(found)) for region, found in sorted(zones.items())},
        date=min(one.source.date for one in named or priced),
    )
