"""Compare machine types as a cloud's API describes them with those of the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import MachineType

FIELDS: Final = (
    "gpu_count",
    "vcpu",
    "memory_mib",
    "arch",
    "rdma_interfaces",
    "default_enis",
    "ips_per_eni",
    "local_nvme_gb",
    "accelerator_label",
)
"""Fields of `MachineType` that a cloud's API tells; each cloud tells a part of them."""

Value = int | float | str


@dataclass(frozen=True)
class DescribedType:
    """One machine type as a cloud describes it now.

    `facts`: by field of `MachineType`. `usd_per_hour`: on-demand list prices by region. `zones`: names of the
    zones that offer it, by region; none: the region alone is told. `gpu`: the cloud's name of its GPU; empty: no
    NVIDIA GPU.
    """

    name: str
    facts: Mapping[str, Value]
    gpu: str = ""
    usd_per_hour: Mapping[str, float] | None = None
    zones: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Difference:
    """One value of a machine type that differs from the catalogue; `where`: a field, or `price REGION`."""

    machine_type: str
    where: str
    catalogue: Value | None
    cloud: Value | None


@dataclass(frozen=True)
class Comparison:
    """What differs, by machine type.

    `new`: with GPUs, neither in the catalogue nor refused by it, and the cloud's facts of it. `gone`: in the
    catalogue, but not described by the cloud in the regions that were asked.
    """

    differences: tuple[Difference, ...]
    new: tuple[DescribedType, ...]
    gone: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the catalogue equals the cloud's API."""
        return not (self.differences or self.new or self.gone)


def compare(catalog: Catalog, vendor: str, seen: Iterable[DescribedType], regions: Collection[str]) -> Comparison:
    """Return the differences of a vendor's machine types between the catalogue and the cloud's API."""
    ours = {name: machine for name, machine in catalog.machine_types.items() if machine.vendor == vendor}
    theirs = {one.name: one for one in seen}
    differences = [
        difference
        for name, one in sorted(theirs.items())
        if name in ours
        for difference in _differences(catalog, ours[name], one, regions)
    ]
    new = [
        one
        for name, one in sorted(theirs.items())
        if one.gpu and name not in ours and catalog.unsupported(name) is None
    ]
    gone = [name for name in sorted(ours.keys() - theirs.keys()) if _is_offered(catalog, ours[name], regions)]
    return Comparison(tuple(differences), tuple(new), tuple(gone))


def _differences(
    catalog: Catalog, machine: MachineType, seen: DescribedType, regions: Collection[str]
) -> Iterable[Difference]:
    for field in FIELDS:
        if field not in seen.facts or (field == "rdma_interfaces" and not machine.has_gpus):
            continue  # EFA of machines without GPUs is not planned, and left out of the catalogue
        said: Value | None = getattr(machine, field)
        if said != seen.facts[field]:
            yield Difference(machine.name, field, said, seen.facts[field])
    if seen.usd_per_hour is not None:
        for region in sorted(regions):
            known = catalog.price(machine, region)
            price = seen.usd_per_hour.get(region)
            if (known.usd_per_hour if known else None) != price:
                yield Difference(machine.name, f"price {region}", known.usd_per_hour if known else None, price)
    if seen.zones is not None:
        yield from _zones(catalog, machine, seen.zones, regions)


def _zones(
    catalog: Catalog, machine: MachineType, theirs: Mapping[str, tuple[str, ...]], regions: Collection[str]
) -> Iterable[Difference]:
    offered = catalog.offered(machine)
    ours: Mapping[str, tuple[str, ...]] = {} if offered is None else offered.zones
    for region in sorted(regions):
        if (region in ours) != (region in theirs):
            said, found = ("offered" if region in zones else "not offered" for zones in (ours, theirs))
            yield Difference(machine.name, f"region {region}", said, found)
        elif ours.get(region) and theirs.get(region) and set(ours[region]) != set(theirs[region]):
            said, found = (", ".join(sorted(zones[region])) for zones in (ours, theirs))
            yield Difference(machine.name, f"zones {region}", said, found)


def _is_offered(catalog: Catalog, machine: MachineType, regions: Collection[str]) -> bool:
    offered = catalog.offered(machine)
    return offered is not None and not set(regions).isdisjoint(offered.zones)
