"""Reads the catalogue's YAML files once and indexes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any, cast

import yaml
from pydantic import ValidationError

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog._references import check_references
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.models import (
    AiConformance,
    AwsFamily,
    BurnInLimit,
    CatalogFile,
    Chart,
    CloudResource,
    ContainerImage,
    Controller,
    DrainLimit,
    DriverBranch,
    EksAddon,
    EksRegistry,
    ExporterMetric,
    FabricPods,
    Fact,
    Family,
    GcpFamily,
    GkeFeature,
    Gpu,
    GpuQuota,
    InfinibandSeries,
    KernelProfile,
    KubernetesPlatform,
    KubernetesVersion,
    Limit,
    MachineType,
    Measure,
    NodeDaemonSet,
    NodeImage,
    NvlinkDomain,
    Offering,
    OperatorRelease,
    PartPriceList,
    PoolProperty,
    PriceList,
    RdmaDrivers,
    RecipeComponent,
    Sale,
    ServiceQuota,
    SettableSysctls,
    UnsupportedMachineType,
    Vendor,
    XidClass,
    XidText,
    ZoneWithoutControlPlanes,
)
from gpu_platform.catalog.prices import ListPrice, Offered, find_price, offered


@dataclass(frozen=True, slots=True)
class Catalog:
    """All facts. The keys of the mappings are names, unless a comment states other keys.

    Objects of this class are immutable, and `load_catalog` creates them.
    """

    gpus: Mapping[str, Gpu]
    vendors: Mapping[str, Vendor]
    machine_types: Mapping[str, MachineType]
    node_daemonsets: Mapping[str, NodeDaemonSet]
    operator_releases: Mapping[str, OperatorRelease]
    exporter_metrics: Mapping[str, ExporterMetric]
    xid_classes: Mapping[str, XidClass]  # sorted by severity, the most severe class first
    xid_texts: Mapping[str, XidText]
    images: Mapping[str, ContainerImage]
    families: Mapping[tuple[str, str], Family]  # by vendor and name
    infiniband_series: Mapping[str, InfinibandSeries]
    fabric_pods: Mapping[str, FabricPods]  # by GPUDirect stack: tcpx, tcpxo, rdma
    node_images: Mapping[tuple[str, str], NodeImage]  # by vendor (aws, gcp, azure) and family
    cloud_resources: Mapping[str, CloudResource]  # by Pulumi type
    eks_addons: Mapping[str, EksAddon]
    eks_registries: Mapping[str, EksRegistry]  # by region
    charts: Mapping[str, Chart]
    controllers: Mapping[str, Controller]  # by name of the chart, EKS add-on or cloud that runs the controller
    limits: Mapping[str, Limit]
    gke_features: Mapping[str, GkeFeature]
    kernel_settings: Mapping[str, KernelProfile]  # by purpose of the nodes
    settable_sysctls: Mapping[str, SettableSysctls]  # by platform
    pool_properties: Mapping[
        tuple[str, str], PoolProperty
    ]  # by platform (eks, karpenter, gke, aks, sandbox) and name
    drain_limits: Mapping[tuple[str, str], DrainLimit]  # by platform (eks, gke, aks) and action of the cloud
    gpu_quotas: Mapping[str, GpuQuota]
    sales: Mapping[str, Sale]  # by description, not by machine type
    service_quotas: Mapping[str, ServiceQuota]
    no_control_plane_zones: Mapping[str, ZoneWithoutControlPlanes]  # by zone id
    unsupported_machine_types: Mapping[str, UnsupportedMachineType]  # by description, not by machine type
    price_lists: Mapping[str, PriceList]
    part_prices: Mapping[str, PartPriceList]
    offerings: Mapping[str, Offering]
    kubernetes_platforms: Mapping[str, KubernetesPlatform]
    kubernetes_versions: Mapping[tuple[str, str], KubernetesVersion]  # by platform and minor version, such as 1.36
    driver_branches: Mapping[int, DriverBranch]
    recipe_components: Mapping[str, RecipeComponent]
    ai_conformance: Mapping[str, AiConformance]
    burn_in_limits: Mapping[str, BurnInLimit]

    def gpu_of(self, machine: MachineType) -> Gpu:
        """Return the GPU model of a machine type. Raises ValueError if the machine type has no GPUs."""
        if machine.gpu is None:
            raise ValueError(f"{machine.name} has no GPUs")
        return self.gpus[machine.gpu]

    def has_gpus(self, machine_type: str) -> bool:
        """Return whether machines of a type have GPUs. Return True if the type is unknown."""
        machine = self.machine_types.get(machine_type)
        return machine is None or machine.has_gpus

    def unsupported(self, machine_type: str) -> UnsupportedMachineType | None:
        """Return why the program does not support a machine type of a cloud, or None if no reason is recorded."""
        every = self.unsupported_machine_types.values()
        return next((one for one in every if re.fullmatch(one.types, machine_type)), None)

    def sale(self, machine_type: str) -> Sale | None:
        """Return how a machine type is sold, or None if it is sold with every capacity type."""
        return next((sale for sale in self.sales.values() if re.fullmatch(sale.types, machine_type)), None)

    def is_sold_as(self, machine_type: str, capacity: str) -> bool:
        """Return whether a machine type is sold with this capacity type. Without a `Sale`, it is sold with every
        capacity type.
        """
        sale = self.sale(machine_type)
        return sale is None or capacity in sale.sold_as

    def aws_family(self, machine: MachineType) -> AwsFamily:
        """Return the EC2 family of an instance type, such as `p5` for `p5.48xlarge`."""
        return cast("AwsFamily", self.families["aws", family_of(machine)])

    def gcp_family(self, machine: MachineType) -> GcpFamily:
        """Return the family of a Compute Engine machine type, such as `a3-megagpu` for `a3-megagpu-8g`."""
        return cast("GcpFamily", self.families["gcp", family_of(machine)])

    def infiniband(self, machine: MachineType) -> InfinibandSeries | None:
        """Return the InfiniBand devices and settings of a machine type, or None if they are not known."""
        family = family_of(machine)
        return next((one for one in self.infiniband_series.values() if family in one.families), None)

    def nvlink_domain(self, machine: MachineType) -> NvlinkDomain | None:
        """Return the NVLink domain for nodes of a machine type, or None if NVLink does not connect nodes."""
        family = self.families.get((machine.vendor, family_of(machine)))
        return family.nvlink_domain if family is not None else None

    def rdma_drivers(self, machine: MachineType) -> RdmaDrivers | None:
        """Return the drivers that support GPUDirect RDMA on a machine type, or None if no limit is known."""
        family = self.families.get((machine.vendor, family_of(machine)))
        return family.rdma_drivers if family is not None else None

    def os_release(self, vendor: str, image: str) -> tuple[str, str | None] | None:
        """Return the ID and VERSION_ID of an image type or family of node images, or None if it is not known."""
        for (of_vendor, family), one in self.node_images.items():
            types = (*one.image_types.values(), *(one.plain_image_types or {}).values())
            if of_vendor == vendor and image in (family, *types):
                return one.os_release
        return None

    def burn_in_limit(self, machine: MachineType, measure: Measure) -> BurnInLimit | None:
        """Return the minimum bandwidth of healthy machines of a type, or None if no minimum is published.

        A minimum for a GPU model applies only to GPUs that are connected by NVLink.
        """
        family = family_of(machine)
        return next(
            (
                limit
                for limit in self.burn_in_limits.values()
                if limit.measure == measure
                and limit.gpus_per_node in (None, machine.gpu_count)
                and (family in limit.families or (machine.gpu in limit.gpus and machine.nvlinks_per_gpu > 0))
            ),
            None,
        )

    def price(self, machine: MachineType, region: str | None) -> ListPrice | None:
        """Return the on-demand list price of a machine type in a region, or None if the price is not known."""
        if region is None:
            return None
        return find_price(machine, region, self.price_lists.values(), self.part_prices.values())

    def offered(self, machine: MachineType) -> Offered | None:
        """Return the regions and zones that are known to offer a machine type, or None if no region is known."""
        return offered(machine, self.price_lists.values(), self.offerings.values())

    def gpu_quota(self, machine: MachineType, *, spot: bool) -> GpuQuota | None:
        """Return the quota that machines of a type count against, or None if the quota is not known."""
        family = family_of(machine)
        wanted = (machine.vendor, "spot" if spot else "on-demand")
        return next(
            (
                quota
                for quota in self.gpu_quotas.values()
                if (quota.vendor, quota.capacity) == wanted and family in quota.families
            ),
            None,
        )

    def find_gpu(self, spelling: str) -> Gpu | None:
        """Return the GPU with this name, or None. The name may be the NVML name, the name in GPU Feature
        Discovery's label, or a common name.

        Case, spaces, dashes and underscores do not matter, and a leading `NVIDIA` is optional.
        """
        wanted = _fold(spelling)
        for gpu in self.gpus.values():
            if wanted in {_fold(name) for name in (gpu.model, gpu.product, *gpu.aliases)}:
                return gpu
        return None


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.casefold()).removeprefix("nvidia")


@cache
def load_catalog() -> Catalog:
    """Read `facts/*.yaml` of this package. The result is shared and immutable. Raises the errors of
    `read_catalog`.
    """
    return read_catalog(resources.files("gpu_platform.catalog") / "facts")


def read_catalog(folder: Traversable) -> Catalog:
    """Read a folder of facts. Raises BadInput that lists every mistake with its file and entry.

    A mistake is a file with invalid fields, a duplicate entry, or a reference to an entry that does not exist.
    """
    files: dict[str, object] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".yaml"):
            try:
                files[file.name] = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
            except yaml.YAMLError as error:
                raise BadInput(SOURCE, [Problem(file.name, str(error), "valid YAML")]) from None
    parsed: dict[str, CatalogFile] = {}
    problems: list[Problem] = []
    for name, document in files.items():
        try:
            parsed[name] = CatalogFile.model_validate(document)
        except ValidationError as error:
            problems += _problems_of_form(name, document, error)
    if problems:
        raise BadInput(SOURCE, problems)
    places: dict[int, str] = {}
    by_place: dict[str, int] = {}
    entries: dict[str, list[Fact]] = {kind: [] for kind in CatalogFile.model_fields}
    for name, facts in parsed.items():
        for kind, found in entries.items():
            of_file: tuple[Fact, ...] = getattr(facts, kind)
            found += of_file
            for entry in of_file:
                key = f"{kind}[{_label(kind, entry)}]"
                places[id(entry)] = f"{name}: {key}"
                by_place[key] = by_place.get(key, 0) + 1
                if by_place[key] == 2:
                    text = f"a second entry {_label(kind, entry)}"
                    problems.append(Problem(places[id(entry)], text, "each entry once", "remove one of them"))
    fields: dict[str, Any] = {kind: tuple(found) for kind, found in entries.items()}
    whole = CatalogFile.model_construct(None, **fields)
    problems += check_references(whole, lambda entry: places[id(entry)])
    if problems:
        raise BadInput(SOURCE, problems)
    return Catalog(**{kind: _indexed(kind, found) for kind, found in entries.items()})


SOURCE = "the catalogue (gpu_platform/catalog/facts)"
# Fields that identify an entry whose identifier is not `name`.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "gpus": ("model",),
    "operator_releases": ("version",),
    "families": ("vendor", "name"),
    "node_images": ("vendor", "family"),
    "settable_sysctls": ("platform",),
    "pool_properties": ("platform", "name"),
    "drain_limits": ("platform", "action"),
    "no_control_plane_zones": ("zone_id",),
    "eks_registries": ("region",),
    "kubernetes_versions": ("platform", "version"),
    "driver_branches": ("branch",),
    "ai_conformance": ("version",),
}


def _key(kind: str, entry: Fact) -> tuple[Any, ...]:
    return tuple(getattr(entry, name) for name in _KEYS.get(kind, ("name",)))


def _label(kind: str, entry: Fact) -> str:
    return "/".join(str(part) for part in _key(kind, entry))


def _indexed(kind: str, entries: Iterable[Fact]) -> Mapping[Any, Any]:
    """Return the entries of a kind by the field, or the pair of fields, that identifies them."""
    keyed = [(_key(kind, entry), entry) for entry in entries]
    return MappingProxyType({key[0] if len(key) == 1 else key: entry for key, entry in keyed})


def _problems_of_form(name: str, document: object, error: ValidationError) -> Iterator[Problem]:
    """Yield the validation errors of a facts file. The path of an error contains the entry's name or number."""
    for details in error.errors(include_url=False):
        place = [str(part) for part in details["loc"]]
        if len(place) > 1:
            place[:2] = [f"{place[0]}[{_written_label(document, *details['loc'][:2])}]"]
        yield Problem(f"{name}: {'.'.join(place)}", f"{str(details['input'])[:80]!r}", details["msg"])


def _written_label(document: Any, kind: str | int, number: str | int) -> str:  # noqa: ANN401 - YAML of any form
    entry = document[kind][number]
    keys = _KEYS.get(str(kind), ("name",))
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    return "/".join(str(fields[key]) for key in keys) if all(key in fields for key in keys) else str(number)
