"""`gpu-platform capacity suggest`: finds the cheapest pools for workloads and prints YAML for a stack file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from extensions.capacity.suggest import OtherVendor, SuggestedPool, Suggestion, Throughput, suggest
from extensions.capacity.suggest.demands import Demands, read_demands
from gpu_platform.api.capacity import HOURS_PER_MONTH
from gpu_platform.base.errors import ExitCode
from gpu_platform.base.quantity import counted
from gpu_platform.catalog import load_catalog


def suggest_pools(workloads: Path, *, seconds: float, to_json: bool) -> ExitCode:
    """Print the cheapest pools for a workloads file."""
    demands = read_demands(workloads)
    suggestion = suggest(demands, str(workloads), load_catalog(), seconds=seconds)
    if to_json:
        print(json.dumps(_document(suggestion, demands), indent=2))
        return ExitCode.GOOD
    for line in _comments(suggestion, demands):
        print(f"# {line}".rstrip())
    print(yaml.safe_dump({"pools": [dict(one.pool) for one in suggestion.pools]}, sort_keys=False), end="")
    return ExitCode.GOOD


def _comments(suggestion: Suggestion, demands: Demands) -> Iterator[str]:
    hour = suggestion.usd_per_hour
    yield f"{suggestion.vendor}: {hour:.2f} USD/h, {hour * HOURS_PER_MONTH:.2f} USD/month ({HOURS_PER_MONTH} h)"
    cheapest = suggestion.cheapest
    if cheapest is not None:
        yield (
            f"the fewest pools within 1% of the cheapest: {' + '.join(cheapest.pools)} "
            f"at {cheapest.usd_per_hour:.2f} USD/h"
        )
    gap = _gap(cheapest.usd_per_hour if cheapest is not None else hour, suggestion.bound)
    proven = (
        ("optimal" if cheapest is None else "the cheapest mix is optimal")
        if suggestion.optimal
        else f"time limit reached: this is the best mix found, at most {gap} above the bound; try more --seconds"
        if suggestion.timed_out
        else f"not proven optimal, at most {gap} above the bound"
    )
    yield f"lower bound over all machine types and modes considered: {suggestion.bound:.2f} USD/h, {proven}"
    yield _prices(suggestion, demands)
    for vendor, other in suggestion.others.items():
        yield f"{vendor}: {_other(other)}"
    for miss in suggestion.near_misses:
        saved = hour - miss.usd_per_hour
        yield (
            f"near miss: {_amount(miss.field, miss.value)} instead of {_amount(miss.field, miss.declared)} for "
            f"{miss.workload} makes it {miss.usd_per_hour:.2f} USD/h (-{saved:.2f} USD/h, -{saved / hour:.0%})"
        )
    if any(one.compute < 1 and one.measured_on is None for one in demands.workloads):
        yield (
            "without measured_on, compute is a share of the chosen GPU model's compute; measure it on that model"
        )
    if demands.zone is None and any("zones" in one.pool for one in suggestion.pools):
        yield (
            "the zones in the pools are examples; set region and zone, or edit the zones; sandboxes have no zones"
        )
    if suggestion.left_out:
        where = f" in {demands.region}" if demands.region is not None else ""
        yield f"excluded, price unknown{where}: {', '.join(suggestion.left_out)}"
    for name, left in suggestion.unused.items():
        if left:
            yield f"reservation {name}: {counted(left, 'machine')} left over"
    for one in suggestion.pools:
        yield ""
        yield f"{one.pool['name']}: {one.pool['count']['desired']} x {one.pool['machine_type']}, {_usd(one)}"
        for reason in one.reasons:
            yield f"  {reason}"
        yield f"  {_next_best(one)}"
        if one.throughput is not None:
            yield f"  {_throughput(one.throughput)}"


def _amount(field: str, value: int) -> str:
    name = {"cpu": "CPU", "memory": "memory", "gpu_memory": "GPU memory"}[field]
    return f"{value / 1000:g} {name}" if field == "cpu" else f"{value} MiB of {name}"


def _quantity(field: str, value: int) -> str:
    return f"{value}m" if field == "cpu" else f"{value}Mi"


def _gap(usd_per_hour: float, bound: float) -> str:
    return f"{usd_per_hour - bound:.2f} USD/h ({(usd_per_hour - bound) / usd_per_hour:.0%} of the price)"


def _other(other: OtherVendor) -> str:
    if other.usd_per_hour is None:
        names = " or ".join(map(repr, other.unfit))
        return f"cannot hold these workloads: no allowed machine type fits a pod of workload {names}"
    if other.optimal:
        return f"{other.usd_per_hour:.2f} USD/h"
    return f"{other.usd_per_hour:.2f} USD/h found, lower bound {other.bound:.2f} USD/h: not proven optimal"


def _prices(suggestion: Suggestion, demands: Demands) -> str:
    listed = f"list, on demand, {suggestion.region}, {' and '.join(suggestion.dates)}" if suggestion.dates else ""
    if listed and demands.capacity == "spot":
        listed += ", an upper bound for spot"
    own = f"from the workloads file for {', '.join(demands.usd_per_hour)}" if demands.usd_per_hour else ""
    return "prices: " + "; ".join(one for one in (listed, own) if one)


def _usd(one: SuggestedPool) -> str:
    return "reserved" if one.reservation is not None else f"{one.usd_per_hour:.2f} USD/h"


def _next_best(one: SuggestedPool) -> str:
    if one.next_best is None:
        return "next best: none, because no other machine type and mode fits these pods"
    hour = one.next_best.usd_per_hour
    pools = " + ".join(one.next_best.pools)
    return f"next best: {pools} at {hour:.2f} USD/h ({hour - one.usd_per_hour:+.2f} USD/h)"


def _throughput(found: Throughput) -> str:
    own = f"{found.tflops:.0f} TFLOP/s in bfloat16, {found.tflops_per_usd_hour:.0f} per USD/h"
    most = found.most
    if most is None:
        return f"{own}: no other machine type that fits has more TFLOP/s per USD"
    return (
        f"{own}; the most TFLOP/s per USD: {most.nodes} x {most.machine_type}, {most.tflops_per_usd_hour:.0f} per "
        f"USD/h, at {most.usd_per_hour:.2f} USD/h"
    )


def _document(suggestion: Suggestion, demands: Demands) -> dict[str, Any]:
    return {
        "version": 1,
        "provider": suggestion.vendor,
        "usd_per_hour": round(suggestion.usd_per_hour, 4),
        "usd_per_month": round(suggestion.usd_per_hour * HOURS_PER_MONTH, 2),
        "bound_usd_per_hour": round(suggestion.bound, 4),
        "optimal": suggestion.optimal,
        "timed_out": suggestion.timed_out,
        "prices": _prices(suggestion, demands).removeprefix("prices: "),
        "price_region": suggestion.region,
        "other_providers_usd_per_hour": {
            name: None if other.usd_per_hour is None else round(other.usd_per_hour, 4)
            for name, other in suggestion.others.items()
        },
        "other_providers": {
            name: {
                "usd_per_hour": None if other.usd_per_hour is None else round(other.usd_per_hour, 4),
                "bound_usd_per_hour": round(other.bound, 4),
                "optimal": other.optimal,
                "cannot_hold": list(other.unfit),
            }
            for name, other in suggestion.others.items()
        },
        "cheapest": None
        if suggestion.cheapest is None
        else {
            "pools": list(suggestion.cheapest.pools),
            "usd_per_hour": round(suggestion.cheapest.usd_per_hour, 4),
        },
        "near_misses": [
            {
                "workload": miss.workload,
                "field": miss.field,
                "declared": _quantity(miss.field, miss.declared),
                "value": _quantity(miss.field, miss.value),
                "usd_per_hour": round(miss.usd_per_hour, 4),
            }
            for miss in suggestion.near_misses
        ],
        "reserved_machines_left": dict(suggestion.unused),
        "left_out_price_unknown": list(suggestion.left_out),
        "pools": [
            {
                "pool": one.pool,
                "usd_per_hour": round(one.usd_per_hour, 4),
                "reservation": one.reservation,
                "pods": [asdict(pods) for pods in one.pods],
                "reasons": list(one.reasons),
                "next_best": None
                if one.next_best is None
                else {
                    "pools": list(one.next_best.pools),
                    "usd_per_hour": round(one.next_best.usd_per_hour, 4),
                },
                "throughput": None if one.throughput is None else asdict(one.throughput),
            }
            for one in suggestion.pools
        ],
    }
