"""Generates the reference page of the catalogue: its GPUs, MIG profiles, machine types and operator releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_platform.catalog import Catalog, Gpu, MachineType, Source, load_catalog
from gpu_platform.planning.clouds.vendors import vendor_of
from tools.docs.markdown import GENERATED, code, table

_INTRODUCTION = """
# Catalogue

The facts that planning uses, from `gpu_platform/catalog/facts/*.yaml`. Each entry names its source and the date
on which it was read. An empty cell means that the value is not known. The validator does not expect such a
value, and commands print it as unknown, never as zero.

Prices are on-demand list prices by region. A pool's `usd_per_hour` replaces them. The tables of machine types
have the price in us-east-1 (EC2) and us-central1 (Compute Engine). A second table has the prices in every region
that is known to offer the type. A region without a price is `unknown`: no other region's price is used for it.
"""
_MIB_PER_GIB = 1024


def page() -> str:
    """Return the reference page in Markdown."""
    catalog = load_catalog()
    parts = [
        GENERATED + _INTRODUCTION,
        "## GPU models\n",
        _gpus(catalog.gpus.values()),
        "## MIG profiles\n",
        "A profile takes consecutive memory slices from one of its starts on. "
        "`gpu-platform mig list --gpu MODEL` prints the resulting layouts.\n",
        *_mig(catalog.gpus.values()),
        "## Machine types\n",
    ]
    for vendor in catalog.vendors.values():
        machines = [machine for machine in catalog.machine_types.values() if machine.vendor == vendor.name]
        with_gpus = [machine for machine in machines if machine.has_gpus]
        without = [machine for machine in machines if not machine.has_gpus]
        parts += [f"### {vendor.title}\n", _machines(with_gpus, catalog)]
        if vendor.reference_region is not None:
            parts += [f"#### Prices by region: {vendor.title}\n", _prices(with_gpus, catalog)]
        if without:
            parts += [f"#### Without GPUs: {vendor.title}\n", _cpu_machines(without, catalog)]
    parts += ["## GPU Operator releases\n", _operator(catalog)]
    parts += ["## Support of Kubernetes versions\n", _kubernetes(catalog)]
    parts += ["## Support of driver branches\n", _branches(catalog)]
    return "\n".join(parts)


def _gpus(gpus: Iterable[Gpu]) -> str:
    sources = _Sources()
    header = ("Model", "NVML name", "Architecture", "Memory MiB", "ECC", "PCIe", "Drivers", "MIG", "Source")
    rows = table(
        header,
        [
            (
                code(gpu.model),
                gpu.product,
                f"{gpu.architecture} ({gpu.compute_capability})",
                str(gpu.memory_mib),
                "yes" if gpu.ecc else "no",
                f"{gpu.pcie_generation}&nbsp;x{gpu.pcie_width}",
                _drivers(gpu),
                "yes" if gpu.mig else "no",
                sources.number(gpu.source),
            )
            for gpu in gpus
        ],
    )
    return f"{rows}\n{sources.listed()}"


def _drivers(gpu: Gpu) -> str:
    last = gpu.maximum_driver_branch
    return f"{gpu.minimum_driver_branch} to {last}" if last else f"from {gpu.minimum_driver_branch}"


def _mig(gpus: Iterable[Gpu]) -> Iterable[str]:
    header = ("Profile", "Compute slices", "Memory slices", "Memory MiB", "Maximum per GPU", "Starts")
    for gpu in gpus:
        if gpu.mig is None:
            continue
        yield f"### {gpu.product}\n"
        yield (
            f"{code(gpu.model)}; {gpu.mig.compute_slices} compute slices, {gpu.mig.memory_slices} memory slices; "
            + (f"{_source(gpu.mig.source)}.\n")
        )
        yield table(
            header,
            [
                (
                    code(profile.name),
                    str(profile.compute_slices),
                    str(profile.memory_slices),
                    str(profile.memory_mib),
                    str(profile.max_instances),
                    ", ".join(map(str, profile.starts)),
                )
                for profile in gpu.mig.profiles
            ],
        )


def _machines(machines: Sequence[MachineType], catalog: Catalog) -> str:
    sources = _Sources()
    header = (
        "Machine type",
        "GPUs",
        "vCPU",
        "Memory GiB",
        "NVLinks per GPU",
        "RDMA",
        "Local NVMe GB",
        "USD/h",
        "Source",
    )
    rows = table(
        header,
        [
            (
                code(machine.name),
                f"{machine.gpu_count} x {catalog.gpu_of(machine).model}",
                str(machine.vcpu),
                f"{machine.memory_mib / _MIB_PER_GIB:g}",
                str(machine.nvlinks_per_gpu or ""),
                str(machine.rdma_interfaces or ""),
                str(machine.local_nvme_gb or ""),
                _reference_price(machine, catalog),
                sources.number(machine.source) + ("" if machine.verified else ", not verified"),
            )
            for machine in machines
        ],
    )
    return f"{rows}\n{sources.listed()}"


def _cpu_machines(machines: Sequence[MachineType], catalog: Catalog) -> str:
    """Return a table with the machine types for CPU pools."""
    sources = _Sources()
    header = ("Machine type", "vCPU", "Memory GiB", "Architecture", "Local NVMe GB", "USD/h", "Source")
    rows = table(
        header,
        [
            (
                code(machine.name),
                str(machine.vcpu),
                f"{machine.memory_mib / _MIB_PER_GIB:g}",
                machine.arch,
                str(machine.local_nvme_gb or ""),
                _reference_price(machine, catalog),
                sources.number(machine.source),
            )
            for machine in machines
        ],
    )
    return f"{rows}\n{sources.listed()}"


def _reference_price(machine: MachineType, catalog: Catalog) -> str:
    price = catalog.price(machine, vendor_of(machine).reference_region)
    return "" if price is None else f"{price.usd_per_hour:.2f}"


def _prices(machines: Sequence[MachineType], catalog: Catalog) -> str:
    """Return each machine type with its prices by region. If a region offers the type but its price is not known,
    the price is `unknown`.
    """
    sources = _Sources()
    rows: list[tuple[str, str, str]] = []
    for machine in machines:
        offered = catalog.offered(machine)
        prices = {region: catalog.price(machine, region) for region in (offered.zones if offered else ())}
        numbers = dict.fromkeys(sources.number(price.source) for price in prices.values() if price is not None)
        cells = [
            f"{region}&nbsp;{'unknown' if price is None else f'{price.usd_per_hour:.2f}'}"
            for region, price in prices.items()
        ]
        rows.append((code(machine.name), ", ".join(cells), ", ".join(numbers)))
    return f"{table(('Machine type', 'USD/h by region', 'Source'), rows)}\n{sources.listed()}"


def _operator(catalog: Catalog) -> str:
    sources = _Sources()
    header = ("Release", "Status", "Kubernetes", "Default driver", "Drivers", "DRA (GPUCluster)", "Source")
    rows = table(
        header,
        [
            (
                code(release.version),
                release.status,
                " to ".join(release.kubernetes),
                release.default_driver,
                ", ".join(release.drivers),
                release.dra_driver or "no",
                sources.number(release.source),
            )
            for release in catalog.operator_releases.values()
        ],
    )
    return f"{rows}\n{sources.listed()}"


def _kubernetes(catalog: Catalog) -> str:
    sources = _Sources()
    rows = table(
        ("Platform", "Version", "Standard support until", "Extended support until", "Source"),
        [
            (
                catalog.kubernetes_platforms[version.platform].title,
                version.version,
                version.standard_until.isoformat(),
                version.extended_until.isoformat() if version.extended_until is not None else "",
                sources.number(version.source),
            )
            for version in catalog.kubernetes_versions.values()
        ],
    )
    return f"{rows}\n{sources.listed()}"


def _branches(catalog: Catalog) -> str:
    sources = _Sources()
    rows = table(
        ("Branch", "Kind", "Supported until", "Source"),
        [
            (
                f"R{branch.branch}",
                branch.kind,
                branch.until.isoformat() if branch.until is not None else "ended" if branch.ended else "",
                sources.number(branch.source),
            )
            for branch in catalog.driver_branches.values()
        ],
    )
    return f"{rows}\n{sources.listed()}"


class _Sources:
    """Numbers the sources of one table for the list below it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, source: Source) -> str:
        """Return the number of a source, and add a new source to the list."""
        return str(self._numbers.setdefault(_source(source), len(self._numbers) + 1))

    def listed(self) -> str:
        """Return the list of sources. Call it after all cells of the table have been created."""
        return "Sources:\n\n" + "".join(f"{number}. {text}\n" for text, number in self._numbers.items())


def _source(source: Source) -> str:
    title = f"[{source.title}]({source.url})" if source.url.startswith("http") else source.title
    return f"{title}, {source.date.isoformat()}"
