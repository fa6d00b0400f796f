"""Compares the machine types in a cloud's API with the machine types in the catalogue."""

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
    "ebs_volumes",
    "ebs_limit",
    "local_nvme_gb",
    "ephemeral_os_gib",
    "accelerator_label",
)
"""Fields of `MachineType` that a cloud's API reports. Each cloud reports only some of them."""

Value = int | float | str


@dataclass(frozen=True)
class DescribedType:
    """One machine type as a cloud describes it now.

    `facts` contains values by field of `MachineType`. `usd_per_hour` contains on-demand list prices by region.
    `zones` contains the names of the zones that offer the type, by region. The zones of a region are empty if the
    cloud reports only the region. `gpu` is the cloud's name of the GPU, or empty if it is not an NVIDIA GPU.
    """

    name: str
    facts: Mapping[str, Value]
    gpu: str = ""
    usd_per_hour: Mapping[str, float] | None = None
    zones: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Difference:
    """One value of a machine type that differs from the catalogue. `where` names the value: a field, or a price,
    region or zones, such as `price us-east-1`.
    """

    machine_type: str
    where: str
    catalogue: Value | None
    cloud: Value | None


@dataclass(frozen=True)
class Comparison:
    """Differences between the catalogue and the cloud, by machine type.

    `new` contains the machine types with GPUs that the catalogue neither contains nor excludes. `gone` contains
    the machine types in the catalogue that the cloud does not describe in the queried regions.
    """

    differences: tuple[Difference, ...]
    new: tuple[DescribedType, ...]
    gone: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the catalogue matches the cloud's API."""
        return not (self.differences or self.new or self.gone)


def compare(catalog: Catalog, vendor: str, seen: Iterable[DescribedType], regions: Collection[str]) -> Comparison:
    """Compare a vendor's machine types in the catalogue with the cloud's API, and return the differences."""
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
            continue  # the catalogue leaves out EFA interfaces of machines without GPUs, because no plan uses them
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
