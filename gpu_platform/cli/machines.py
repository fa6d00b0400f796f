"""`gpu-platform machines`: the machine types of the catalogue, with GPUs, network, prices and regions."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType, load_catalog
from gpu_platform.catalog.unknown_machine import unknown_machine_type
from gpu_platform.cli.tables import Column, show_table
from gpu_platform.planning.clouds.vendors import vendor_of

_MIB_PER_GIB = 1024


def list_machines(*, provider: str | None, gpu: str | None, region: str | None, to_json: bool) -> ExitCode:
    """Print the machine types with GPUs that match all filters. Raises BadInput for an unknown filter."""
    catalog = load_catalog()
    found = [
        machine
        for machine in catalog.machine_types.values()
        if machine.has_gpus and (provider is None or machine.vendor == _vendor(provider))
    ]
    if gpu is not None:
        model = catalog.find_gpu(gpu)
        if model is None:
            known = [one.model for one in catalog.gpus.values()]
            fix = did_you_mean(gpu, known) or "leave out --gpu to list all machine types"
            problem = Problem("--gpu", repr(gpu), "one of " + ", ".join(known), fix)
            raise BadInput("machines list", [problem])
        found = [machine for machine in found if machine.gpu == model.model]
    if region is not None:
        _check_region(region, catalog)
        found = [machine for machine in found if region in _regions(machine, catalog)]
    documents = [_document(machine, catalog, region) for machine in found]
    if to_json:
        print(json.dumps({"version": 1, "machine_types": documents}, indent=2))
        return ExitCode.GOOD
    out = console()
    columns = (
        Column("machine type"),
        Column("GPUs"),
        Column("GiB each", right=True),
        Column("USD/h", right=True),
        Column("vCPU", 4, right=True),
        Column("memory GiB", 5, right=True),
        Column("NICs", 2, right=True),
        Column("fabric", 3),
        Column("MIG", 6),
        Column("price of", 7),
    )
    rows = [
        (
            one["name"],
            f"{one['gpus']} x {one['gpu']}",
            f"{one['gpu_memory_mib'] / _MIB_PER_GIB:.0f}",
            "unknown" if one["usd_per_hour"] is None else f"{one['usd_per_hour']:.2f}",
            str(one["vcpu"]),
            f"{one['memory_mib'] / _MIB_PER_GIB:g}",
            str(one["rdma_interfaces"] or ""),
            one["fabric"],
            "yes" if one["mig"] else "",
            one["price_region"] or "",
        )
        for one in documents
    ]
    show_table(out, columns, rows)
    out.print(f"{counted(len(rows), 'machine type')}; `gpu-platform machines show NAME` shows regions and prices")
    return ExitCode.GOOD


def show_machine(name: str, *, to_json: bool) -> ExitCode:
    """Print the whole catalogue entry of a machine type. Raises BadInput for an unknown machine type."""
    catalog = load_catalog()
    machine = catalog.machine_types.get(name)
    if machine is None:
        raise BadInput("machines show", [Problem("NAME", *unknown_machine_type(name, catalog))])
    document = {**_document(machine, catalog, None), "regions": _region_documents(machine, catalog)}
    if to_json:
        print(json.dumps({"version": 1, **document}, indent=2))
        return ExitCode.GOOD
    out = console()
    lines = [("machine type", f"{name} ({vendor_of(machine).title})")]
    if machine.has_gpus:
        gpu = catalog.gpu_of(machine)
        each = f"{gpu.memory_mib / _MIB_PER_GIB:.0f} GiB each" if machine.gpu_count > 1 else ""
        each = each or f"{gpu.memory_mib / _MIB_PER_GIB:.0f} GiB"
        lines += [
            ("GPUs", f"{machine.gpu_count} x {gpu.product}, {each}"),
            ("MIG", f"yes: `gpu-platform mig list --gpu {gpu.model}`" if gpu.mig else "no"),
            ("NVLink", _nvlink(machine)),
        ]
    lines += [
        ("CPU", f"{machine.vcpu} vCPU, {machine.arch}"),
        ("memory", f"{machine.memory_mib / _MIB_PER_GIB:g} GiB"),
        ("fabric", _fabric_text(machine, catalog)),
        ("local disks", f"{machine.local_nvme_gb} GB NVMe" if machine.local_nvme_gb else "none"),
    ]
    quotas = (catalog.gpu_quota(machine, spot=spot) for spot in (False, True))
    lines += [("quota", f"{quota.name} ({quota.capacity})") for quota in quotas if quota is not None]
    if (sale := catalog.sale(name)) is not None:
        lines.append(("sold as", ", ".join(sale.sold_as) + ", not on demand"))
    lines.append(("source", str(machine.source) + ("" if machine.verified else ", not verified")))
    for head, text in lines:
        out.print(f"{head:<14}{text}", markup=False)
    if regions := document["regions"]:
        rows: list[tuple[str, str, str]] = [
            (
                one["region"],
                "unknown" if one["usd_per_hour"] is None else f"{one['usd_per_hour']:.2f}",
                ", ".join(one["zones"]),
            )
            for one in regions
        ]
        out.print()
        show_table(out, (Column("region"), Column("USD/h", right=True), Column("zones", wrap=True)), rows)
    else:
        out.print("regions       unknown")
    return ExitCode.GOOD


def _vendor(provider: str) -> str:
    vendors = {one.provider: one.name for one in load_catalog().vendors.values()}
    vendor = vendors.get(provider)
    if vendor is None:
        fix = did_you_mean(provider, vendors) or "write eks"
        raise BadInput(
            "machines list", [Problem("--provider", repr(provider), "one of " + ", ".join(vendors), fix)]
        )
    return vendor


def _check_region(region: str, catalog: Catalog) -> None:
    known = sorted({one for machine in catalog.machine_types.values() for one in _regions(machine, catalog)})
    if region not in known:
        allowed = "a region of the catalogue: " + ", ".join(known)
        fix = (
            did_you_mean(region, known)
            or "leave --region out: `machines show` shows the regions of a machine type"
        )
        raise BadInput("machines list", [Problem("--region", repr(region), allowed, fix)])


def _regions(machine: MachineType, catalog: Catalog) -> tuple[str, ...]:
    offered = catalog.offered(machine)
    return tuple(offered.zones) if offered is not None else ()


def _document(machine: MachineType, catalog: Catalog, region: str | None) -> dict[str, Any]:
    gpu = catalog.gpu_of(machine) if machine.has_gpus else None
    price = catalog.price(machine, region or vendor_of(machine).reference_region)
    sale = catalog.sale(machine.name)
    return {
        "name": machine.name,
        "provider": vendor_of(machine).provider,
        "gpu": gpu.model if gpu else None,
        "gpus": machine.gpu_count,
        "gpu_memory_mib": gpu.memory_mib if gpu else None,
        "mig": gpu is not None and gpu.mig is not None,
        "vcpu": machine.vcpu,
        "memory_mib": machine.memory_mib,
        "arch": machine.arch,
        "rdma_interfaces": machine.rdma_interfaces,
        "fabric": _fabric(machine, catalog),
        "nvlinks_per_gpu": machine.nvlinks_per_gpu,
        "local_nvme_gb": machine.local_nvme_gb,
        "usd_per_hour": price.usd_per_hour if price else None,
        "price_region": price.region if price else None,
        "sold_as": list(sale.sold_as) if sale is not None else None,
    }


def _region_documents(machine: MachineType, catalog: Catalog) -> list[dict[str, Any]]:
    offered = catalog.offered(machine)
    found: list[dict[str, Any]] = []
    if offered is None:
        return found
    for region, zones in offered.zones.items():
        price = catalog.price(machine, region)
        found.append(
            {"region": region, "usd_per_hour": price.usd_per_hour if price else None, "zones": list(zones)}
        )
    return found


def _nvlink(machine: MachineType) -> str:
    if not machine.nvlinks_per_gpu:
        return "none"
    return f"{machine.nvlinks_per_gpu} links a GPU" + (", between two GPUs" if machine.nvlink_pairs else "")


def _fabric(machine: MachineType, catalog: Catalog) -> str:
    """Return the technology of the NICs for GPU traffic, such as EFA, or an empty string if there are no such
    NICs.
    """
    if not machine.rdma_interfaces:
        return ""
    if machine.vendor == "gcp":
        return f"GPUDirect {catalog.gcp_family(machine).fabric.upper()}"
    return vendor_of(machine).fabric


def _fabric_text(machine: MachineType, catalog: Catalog) -> str:
    fabric = _fabric(machine, catalog)
    return f"{fabric}, {counted(machine.rdma_interfaces, 'interface')}" if fabric else "none"
