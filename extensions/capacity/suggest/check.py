"""Checks a workloads file beyond its schema, and checks that each workload fits on an allowed machine type."""

from __future__ import annotations

from collections.abc import Sequence

from extensions.capacity.suggest.demands import Demands
from extensions.capacity.suggest.options import PodRequest
from gpu_platform.api.capacity import vendor_of
from gpu_platform.api.plans import Problems, check_unique
from gpu_platform.base.errors import did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.unknown_machine import similar_machine_type, unknown_machine_type

Priced = tuple[MachineType, float]


def check_demands(demands: Demands, catalog: Catalog, problems: Problems) -> None:
    """Report unknown and repeated names, and workloads that request both several GPUs and a share of compute."""
    check_unique("workload", [(f"workloads[{i}]", one.name) for i, one in enumerate(demands.workloads)], problems)
    machines = catalog.machine_types
    families = {
        family_of(machine): None
        for machine in machines.values()
        if machine.has_gpus and demands.provider in (None, machine.vendor)
    }
    for index, family in enumerate(demands.machine_families or ()):
        if family not in families:
            problems.at("machine_families").at(f"[{index}]").add(
                f"{family!r}", "one of " + ", ".join(families), did_you_mean(family, families) or "remove it"
            )
    _check_region(demands, catalog, problems)
    if demands.zone is not None and (demands.region is None or not demands.zone.startswith(demands.region)):
        problems.at("zone").add(
            f"{demands.zone!r} with " + (f"region {demands.region}" if demands.region else "no region"),
            "a zone of the region",
            f"write region: {demands.zone[:-1].rstrip('-')}",
        )
    if demands.provider == "on-prem" and demands.capacity != "on-demand":
        problems.at("capacity").add(
            f"{demands.capacity!r} with provider on-prem",
            "on-demand, because no cloud sells these machines",
            "remove it",
        )
    for name in demands.usd_per_hour:
        if name not in machines or not machines[name].has_gpus:
            problems.at("usd_per_hour").at(name).add(
                f"{name!r}",
                "one of the catalogue's machine types with GPUs",
                similar_machine_type(name, machines) or "remove it",
            )
    _check_reservations(demands, catalog, problems)
    models = [gpu.model for gpu in catalog.gpus.values()]
    for index, one in enumerate(demands.workloads):
        here = problems.at(f"workloads[{index}]")
        if one.measured_on is not None and catalog.find_gpu(one.measured_on) is None:
            here.at("measured_on").add(
                f"{one.measured_on!r}", "one of " + ", ".join(models), did_you_mean(one.measured_on, models)
            )
        if one.gpus > 1 and one.compute < 1:
            here.at("compute").add(
                f"{one.compute} on {one.gpus} GPUs",
                "1 for a pod with several GPUs, because it uses whole GPUs",
                "remove compute, or write gpus: 1",
            )


def _check_reservations(demands: Demands, catalog: Catalog, problems: Problems) -> None:
    """Report repeated reservations, and reservations with an unsuitable machine type, provider or region."""
    first: dict[str, int] = {}
    for index, one in enumerate(demands.reservations):
        here = problems.at(f"reservations[{index}]")
        if first.setdefault(one.reservation, index) != index:
            here.at("reservation").add(
                f"{one.reservation!r} again",
                f"each reservation only once (it is already in reservations[{first[one.reservation]}])",
                "merge the entries, and add up their counts",
            )
        machine = catalog.machine_types.get(one.machine_type)
        if machine is None:
            here.at("machine_type").add(*unknown_machine_type(one.machine_type, catalog, demands.provider))
        elif not machine.has_gpus or not vendor_of(machine).is_cloud:
            here.at("machine_type").add(
                f"{one.machine_type!r}", "a cloud machine type with GPUs", "remove the reservation"
            )
        elif demands.provider not in (None, machine.vendor):
            here.at("machine_type").add(
                f"{one.machine_type!r} of provider {machine.vendor}",
                f"a machine type of provider {demands.provider}",
                f"remove it, or write provider: {machine.vendor}",
            )
        if demands.region is not None and not one.zone.startswith(demands.region):
            here.at("zone").add(
                f"{one.zone!r} with region {demands.region}",
                "a zone of the region",
                f"write region: {one.zone[:-1].rstrip('-')}",
            )


def _check_region(demands: Demands, catalog: Catalog, problems: Problems) -> None:
    """Report a region without list prices if the workloads file contains no prices either."""
    regions = {
        region: None
        for one in catalog.price_lists.values()
        if demands.provider in (None, one.vendor)
        for prices in one.usd_per_hour.values()
        for region in prices
    }
    if demands.region is not None and regions and demands.region not in regions and not demands.usd_per_hour:
        problems.at("region").add(
            f"{demands.region!r}",
            "a region with list prices: " + ", ".join(sorted(regions)),
            did_you_mean(demands.region, regions)
            or "set usd_per_hour to the prices of machine types in this region",
        )


def check_possible(
    requests: Sequence[PodRequest],
    machines: Sequence[Priced],
    left_out: Sequence[str],
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Report each demand whose pods do not fit on any allowed machine, with the limits of the machines."""
    unpriced = f"; left out because the price is unknown: {', '.join(left_out)}" if left_out else ""
    for index, request in enumerate(requests):
        if any(request.fits_machine(machine, catalog.gpu_of(machine)) for machine, _ in machines):
            continue
        here = problems.at(f"workloads[{index}]")
        of_model = [machine for machine, _ in machines if request.model in (None, machine.gpu)]
        linked = [machine for machine in of_model if machine.all_linked or not request.nvlink]
        if request.rdma:
            wired = [machine for machine in linked if machine.rdma_interfaces > 0]
            if not any(machine.gpu_count == request.gpus for machine in wired):
                sizes = sorted({machine.gpu_count for machine in wired})
                here.at("rdma").add(
                    f"{counted(request.gpus, 'GPU')} with RDMA",
                    "all GPUs of an allowed machine with RDMA interfaces: "
                    + (" or ".join(str(size) for size in sizes) or f"no allowed machine has any{unpriced}"),
                    f"write gpus: {sizes[-1]}" if sizes else "allow more machine families",
                )
                continue
        enough = [machine for machine in linked if machine.gpu_count >= request.gpus]
        large = [machine for machine in enough if catalog.gpu_of(machine).memory_mib >= request.memory_mib]
        if not of_model:
            models = sorted({catalog.gpu_of(machine).model for machine, _ in machines})
            here.at("measured_on").add(
                f"{request.model!r}", f"a GPU of the allowed machines ({', '.join(models)}){unpriced}", ""
            )
        elif not enough:
            most = max((machine.gpu_count for machine in linked), default=0)
            here.at("gpus").add(
                counted(request.gpus, "GPU") + (" with NVLink" if request.nvlink else ""),
                (
                    f"at most {most} on one allowed machine"
                    if most
                    else "none, because no allowed machine connects all its GPUs with NVLink"
                )
                + unpriced,
                "split the job over several pods, or allow more machine families",
            )
        elif not large:
            most = max(catalog.gpu_of(machine).memory_mib for machine in enough)
            here.at("gpu_memory").add(
                f"{request.memory_mib} MiB on "
                + (f"each of {request.gpus} GPUs" if request.gpus > 1 else "its GPU"),
                f"at most {most} MiB on an allowed machine{unpriced}",
                "spread the model over more GPUs, or allow more machine families",
            )
        else:
            here.at("cpu").add(
                f"{request.pod.cpu_millicores}m CPU and {request.pod.memory_mib} MiB of memory in one pod",
                f"the allocatable resources of one allowed machine with the GPUs{unpriced}",
                "request less CPU and memory",
            )
