"""Suggests machine types, sharing modes and node counts for workloads, with reasons and alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from extensions.capacity.suggest.check import Priced, check_demands, check_possible
from extensions.capacity.suggest.choose import ChosenPool, Mix, cheapest_mix, split, unfit
from extensions.capacity.suggest.demands import Demands
from extensions.capacity.suggest.near_misses import NearMiss, near_misses
from extensions.capacity.suggest.options import Layout, Option, PodRequest, Reservation, options_for, request_of
from extensions.capacity.suggest.reasons import mode_name, reasons
from extensions.capacity.suggest.throughput import Throughput, throughput
from gpu_platform.api.capacity import SuggestedNodes, most_nodes, pool_settings, with_working_fabric
from gpu_platform.api.plans import Problems
from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import Catalog
from gpu_platform.catalog.families import family_of
from gpu_platform.catalog.models import VendorName

TRUST_DOMAIN_TAINT = "trust-domain"
SIMPLER: Final = 0.01
"""Maximum additional cost of a mix of fewer pools, as a fraction of the lowest cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBest:
    """Another mix for the same pods, as text, with its cost in USD/h.

    For a single pool, it is the cheapest mix that does not use the pool's machine type in the same mode.
    """

    pools: tuple[str, ...]
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsInPool:
    """Pods of one workload in a pool. `slot` is `gpu`, `share`, or the MIG profile that each pod uses."""

    workload: str
    slot: str
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedPool:
    """A pool in stack file form, with its cost, its pods and the reasons for it.

    `reservation` is the reservation that contains its machines, or None. Reserved machines have no additional
    cost.
    """

    pool: Mapping[str, Any]
    usd_per_hour: float
    reservation: str | None
    pods: tuple[PodsInPool, ...]
    reasons: tuple[str, ...]
    next_best: NextBest | None
    throughput: Throughput | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVendor:
    """Cost of another vendor's machines in USD/h, or None if they cannot hold the workloads in `unfit`."""

    usd_per_hour: float | None
    bound: float = 0.0
    optimal: bool = False
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Pools that hold all workloads.

    `bound` is a lower bound on the cost of any mix, in USD/h. If `pools` is a mix of fewer pools that costs
    slightly more, `cheapest` is the cheapest mix found, and `optimal` refers to it. `timed_out` is true if the
    search ended early; a cheaper mix that costs at least `bound` may then exist. `left_out` contains the machine
    types whose price is unknown. `unused` contains the number of machines in each reservation that no pool uses.
    `region` is the region of the list prices, or None if the vendor has none. `dates` contains the dates of these
    list prices.
    """

    vendor: VendorName
    pools: tuple[SuggestedPool, ...]
    usd_per_hour: float
    bound: float
    optimal: bool
    timed_out: bool
    others: Mapping[VendorName, OtherVendor]
    near_misses: tuple[NearMiss, ...]
    cheapest: NextBest | None
    left_out: tuple[str, ...]
    unused: Mapping[str, int]
    region: str | None
    dates: tuple[str, ...]


def suggest(demands: Demands, source: str, catalog: Catalog, *, seconds: float = 20.0) -> Suggestion:
    """Return the cheapest pools for the workloads. `source` is the name of the file in messages.

    Raises BadInput, which lists every problem.
    """
    problems = Problems()
    check_demands(demands, catalog, problems)
    if problems.found:
        raise BadInput(source, problems.found)
    requests = [request_of(demand, catalog) for demand in demands.workloads]
    priced, left_out = _machines(demands, catalog)
    if not priced:
        where = f" in {demands.region}" if demands.region is not None else ""
        problems.at("usd_per_hour").add(
            f"no known price of an allowed machine type{where}",
            "a price for one of " + ", ".join(left_out) if left_out else "a machine type with a price",
            f"write usd_per_hour: {{{left_out[0]}: ...}}" if left_out else "allow more machine families",
        )
        raise BadInput(source, problems.found)
    check_possible(requests, priced, left_out, catalog, problems)
    if problems.found:
        raise BadInput(source, problems.found)
    mixes: dict[VendorName, tuple[Mix | None, tuple[Option, ...]]] = {}
    vendors: list[VendorName] = list(dict.fromkeys(machine.vendor for machine, _ in priced))
    bought = {vendor: [one for one in priced if one[0].vendor == vendor] for vendor in vendors}
    reserved = {vendor: _reservations(demands, vendor, catalog) for vendor in vendors}
    for vendor in vendors:
        options = options_for(requests, bought[vendor], catalog, reserved[vendor])
        mixes[vendor] = (cheapest_mix(requests, options, seconds=seconds / len(vendors), within=SIMPLER), options)
    found: list[tuple[float, VendorName]] = [
        (mix.usd_per_hour, vendor) for vendor, (mix, _) in mixes.items() if mix is not None
    ]
    if not found:
        problems.at("workloads").add(
            "workloads that no single provider can hold",
            "workloads whose machines all belong to one provider",
            "; ".join(f"{name} cannot hold {', '.join(unfit(requests, of))}" for name, (_, of) in mixes.items())
            + ": write a stack for each provider",
        )
        raise BadInput(source, problems.found)
    _, vendor = min(found)
    mix, options = mixes[vendor]
    assert mix is not None  # noqa: S101 - found among those that are there
    return Suggestion(
        vendor=vendor,
        pools=_pools(mix, requests, options, demands, catalog),
        usd_per_hour=mix.usd_per_hour,
        bound=mix.bound,
        optimal=mix.optimal,
        timed_out=mix.timed_out,
        others={
            name: OtherVendor(usd_per_hour=other.usd_per_hour, bound=other.bound, optimal=other.optimal)
            if other is not None
            else OtherVendor(usd_per_hour=None, unfit=unfit(requests, of))
            for name, (other, of) in mixes.items()
            if name != vendor
        },
        cheapest=_as_text(mix.cheapest) if mix.cheapest else None,
        near_misses=near_misses(
            requests,
            bought[vendor],
            catalog,
            mix.usd_per_hour,
            seconds=seconds / 10,
            reservations=reserved[vendor],
        ),
        unused=_unused(mix, reserved[vendor]),
        left_out=left_out,
        region=region_of_prices(demands, vendor, catalog),
        dates=_dates(demands, vendor, priced, catalog),
    )


def _reservations(demands: Demands, vendor: VendorName, catalog: Catalog) -> list[Reservation]:
    """Return the reserved machines of a vendor."""
    machines = catalog.machine_types
    return [
        Reservation(
            name=one.reservation,
            machine=with_working_fabric(machines[one.machine_type], catalog),
            count=one.count,
            zone=one.zone,
        )
        for one in demands.reservations
        if machines[one.machine_type].vendor == vendor
    ]


def _unused(mix: Mix, reservations: Sequence[Reservation]) -> Mapping[str, int]:
    left = {one.name: one.count for one in reservations}
    for pool in mix.pools:
        if pool.option.reservation is not None:
            left[pool.option.reservation.name] -= pool.nodes
    return left


def _machines(demands: Demands, catalog: Catalog) -> tuple[list[Priced], tuple[str, ...]]:
    """Return the machines that may be chosen, each with its price, and the names of machines without a known
    price.

    If the region belongs to one vendor, another vendor's machines are chosen only with a price in the workloads
    file. The same applies to machines that are not sold with the file's `capacity`.
    """
    priced: list[Priced] = []
    left_out: list[str] = []
    vendor_of_region = _vendor_of_region(demands.region, catalog)
    for known in catalog.machine_types.values():
        if not known.has_gpus:
            continue
        machine = with_working_fabric(known, catalog)
        allowed = demands.machine_families is None or family_of(machine) in demands.machine_families
        if not allowed or demands.provider not in (None, machine.vendor) or machine.arch != demands.architecture:
            continue
        own = demands.usd_per_hour.get(machine.name)
        if own is None and not catalog.is_sold_as(machine.name, demands.capacity):
            continue
        listed = catalog.price(machine, region_of_prices(demands, machine.vendor, catalog))
        if own is not None:
            priced.append((machine, own))
        elif listed is not None:
            priced.append((machine, listed.usd_per_hour))
        elif vendor_of_region in (None, machine.vendor):
            left_out.append(machine.name)
    return priced, tuple(left_out)


def region_of_prices(demands: Demands, vendor: VendorName, catalog: Catalog) -> str | None:
    """Return the region for list prices: the region of the workloads file, or the vendor's reference region."""
    return demands.region or catalog.vendors[vendor].reference_region


def _vendor_of_region(region: str | None, catalog: Catalog) -> VendorName | None:
    """Return the vendor whose price list contains a region, or None."""
    for one in catalog.price_lists.values():
        if any(region in prices for prices in one.usd_per_hour.values()):
            return one.vendor
    return None


def _dates(demands: Demands, vendor: VendorName, machines: Sequence[Priced], catalog: Catalog) -> tuple[str, ...]:
    """Return the dates of the list prices for a vendor's machines."""
    region = region_of_prices(demands, vendor, catalog)
    listed = [
        catalog.price(machine, region)
        for machine, _ in machines
        if machine.vendor == vendor and machine.name not in demands.usd_per_hour
    ]
    return tuple(sorted({one.source.date.isoformat() for one in listed if one is not None}))


def _pools(
    mix: Mix, requests: Sequence[PodRequest], options: Sequence[Option], demands: Demands, catalog: Catalog
) -> tuple[SuggestedPool, ...]:
    domains = {request.domain for request in requests}
    names: set[str] = set()
    suggested: list[SuggestedPool] = []
    for whole in sorted(mix.pools, key=lambda pool: (pool.option.kind, -pool.usd_per_hour)):
        sharing = {pool.option.domain for pool in mix.pools if pool is not whole} - {None}
        allowed = [option for option in options if not sharing or option.domain in {None, *sharing}]
        reservation = whole.option.reservation
        nodes = SuggestedNodes(
            machine=whole.option.machine,
            workload=whole.option.kind,
            count=whole.nodes,
            rdma=any(requests[number].rdma for number, _ in whole.pods),
            region=demands.region,
            zone=reservation.zone if reservation else demands.zone,
        )
        settings = dict(pool_settings(nodes, catalog, capacity=demands.capacity))
        if reservation is not None:
            settings.pop("zones", None)  # the reservation determines the zone
            settings["capacity"] = {
                "type": "reservation",
                "reservation": reservation.name,
                "zone": reservation.zone,
            }
        most = most_nodes(nodes.machine, catalog, has_fabric=nodes.has_fabric)
        suggested += [
            SuggestedPool(
                pool={**_pool(chosen, names, several_domains=len(domains) > 1), **settings},
                usd_per_hour=0.0 if reservation else chosen.usd_per_hour,
                reservation=reservation.name if reservation else None,
                pods=tuple(
                    PodsInPool(workload=requests[number].name, slot=slot, pods=count)
                    for (number, slot), count in chosen.pods.items()
                ),
                reasons=reasons(chosen, requests),
                next_best=_next_best(chosen, requests, allowed),
                throughput=throughput(chosen, requests, allowed),
            )
            for chosen in split(whole, requests, most)
        ]
    return tuple(suggested)


def _pool(chosen: ChosenPool, names: set[str], *, several_domains: bool) -> Mapping[str, Any]:
    """Return the pool in stack file form with an unused name."""
    option = chosen.option
    base = f"{option.kind}-{option.gpu.model}-{mode_name(option)}"
    name = next(one for one in (base, *(f"{base}-{n}" for n in range(2, 1000))) if one not in names)
    names.add(name)
    pool: dict[str, Any] = {
        "name": name,
        "machine_type": option.machine.name,
        "count": {"desired": chosen.nodes},
        "workload": option.kind,
    }
    match option.mode:
        case "mig":
            pool["sharing"] = {"mode": "mig", **_layout(option)}
        case "mps" | "time-slicing":
            pool["sharing"] = {"mode": option.mode, "replicas": option.replicas}
        case "none":
            pass
    if option.domain is not None and several_domains:
        pool["taints"] = [{"key": TRUST_DOMAIN_TAINT, "value": option.domain, "effect": "NoSchedule"}]
    return pool


def _layout(option: Option) -> Mapping[str, Any]:
    """Return the MIG layout in stack file form: one layout for all GPUs of a node, or a layout for each GPU."""
    if len(option.layouts) == 1:
        return {"layout": dict(option.layouts[0])}
    devices: dict[Layout, list[int]] = {}
    for index, layout in enumerate(option.layouts):
        devices.setdefault(layout, []).append(index)
    return {"layouts": [{"devices": of, "layout": dict(layout)} for layout, of in devices.items()]}


def _next_best(chosen: ChosenPool, requests: Sequence[PodRequest], options: Sequence[Option]) -> NextBest | None:
    left = [
        option
        for option in options
        if (option.machine.name, option.mode) != (chosen.option.machine.name, chosen.option.mode)
        or option.reservation != chosen.option.reservation
    ]
    mix = cheapest_mix(chosen.requests(requests), left, seconds=5.0)
    if mix is None:
        return None
    return _as_text(mix.pools)


def _as_text(chosen: Sequence[ChosenPool]) -> NextBest:
    pools = tuple(
        f"{pool.nodes} x {pool.option.machine.name} ({mode_name(pool.option)}{_reserved(pool.option)})"
        for pool in sorted(chosen, key=lambda pool: -pool.usd_per_hour)
    )
    return NextBest(pools=pools, usd_per_hour=fsum(pool.usd_per_hour for pool in chosen))


def _reserved(option: Option) -> str:
    return ", reserved" if option.reservation is not None else ""
