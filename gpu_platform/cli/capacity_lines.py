"""Formats the sentences and numbers of a capacity document for the text output and the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpu_platform.base.names import quota_key
from gpu_platform.base.quantity import counted
from gpu_platform.planning.cost import HOURS_PER_MONTH

_VERDICTS: Final = {
    "placed": "fit the nodes",
    "impossible": "do not fit the nodes",
    "unknown": "unknown, because the search reached its time limit; increase --seconds",
}


def logical_gpus(pool: Mapping[str, Any]) -> str:
    """Return the logical GPUs of a pool, with resource names without `nvidia.com/`."""
    return ", ".join(
        f"{count} x {name.removeprefix('nvidia.com/')}" for name, count in pool["logical_gpus"].items()
    )


def utilisation(pool: Mapping[str, Any]) -> str:
    """Return the utilisation of a pool's GPUs, or an empty string for a pool without GPUs."""
    if pool["gpu"] is None:
        return ""
    return "unknown" if pool["utilisation"] is None else f"{pool['utilisation']:.0%}"


def number(value: float | None) -> str:
    """Return a number with two decimal places, or `unknown` for None."""
    return "unknown" if value is None else f"{value:.2f}"


def definition(cause: Mapping[str, Any]) -> str:
    """Return the definition of a cause of waste, followed by the pools whose waste is unknown."""
    without = f"; unknown for {', '.join(cause['unknown'])}" if cause["unknown"] else ""
    return cause["how"] + without


def pools(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield, for each pool, how its logical GPUs and its price are calculated."""
    for pool in document["pools"]:
        each = f"{pool['cpu_millicores']}m CPU and {pool['memory_mib']}Mi for pods on each node"
        logical = f"{pool['logical_how']}{_mps(pool)}" + ("" if pool["gpu"] else f", {each}")
        yield f"{pool['name']}: {logical}; {pool['price_how']}"


def _mps(pool: Mapping[str, Any]) -> str:
    share = pool["mps_share"]
    return (
        f", each with {share['memory_mib']} MiB and {share['threads_percent']} % of the threads" if share else ""
    )


def modes(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line about the physical and logical GPUs of each sharing mode."""
    for mode in document["modes"]:
        logical, physical = mode["logical_gpus"], mode["physical_gpus"]
        yield f"mode {mode['mode']}: {counted(logical, 'logical GPU')} on {counted(physical, 'physical GPU')}"


def compute(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the CPU and memory that the team quotas allow, and the CPU and memory of the nodes in all pools."""
    for one in document["compute"]:
        most = f" (at most {one['offered_most']:g})" if one["offered_most"] > one["offered"] else ""
        unlimited = f"; without a limit: {', '.join(one['unlimited'])}" if one["unlimited"] else ""
        yield (
            f"{one['name']}: {one['allocated']:g} {one['unit']} in team quotas, "
            f"{one['offered']:g}{most} on the nodes of all pools{unlimited}"
        )
        if one["allocated"] > one["offered_most"]:
            alone = f"; individually: {', '.join(one['unreachable'])}" if one["unreachable"] else ""
            yield (
                f"  the nodes have too little {one['name']} for all quotas, so the quotas cannot all be used in "
                f"full{alone}"
            )


def team_stacks(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield, for each resource, how much is allocated to teams, including the deployed team stacks."""
    if document["team_stacks"] is None:
        yield "quotas of team stacks are not included; --deployed reads them from the cluster"
        return
    for resource in document["resources"]:
        key = quota_key(resource["name"])
        shares = {each["team"]: each["quota"][key] for each in document["team_stacks"] if each["quota"].get(key)}
        if shares:
            total = resource["allocated"] + sum(shares.values())
            named = ", ".join(f"{team} {count}" for team, count in shares.items())
            over = ": more than the nodes have" if total > resource["offered"] else ""
            yield (
                f"{resource['name']}: {total} of {resource['offered']} allocated, including the deployed team "
                f"stacks ({named}){over}"
            )


def quotas(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about whether the nodes can satisfy the quotas of all teams, and which quotas conflict."""
    for key, size in (("desired", "desired"), ("most", "maximum")):
        result = found[key]
        if result is None:
            continue
        nodes = ", ".join(f"{pool} {count}" for pool, count in result["nodes"].items())
        yield f"quotas at {size} size ({nodes}): {_VERDICTS[result['verdict']]}"
        conflict = result["conflict"]
        if conflict is not None:
            kind = "smallest set of teams" if conflict["smallest"] else "set of teams"
            minimal = "; if any one of them is removed, the remaining teams fit" if conflict["minimal"] else ""
            yield f"  {kind} that do not fit together: {', '.join(conflict['teams'])}{minimal}"
            yield from (f"  not enough: {lacking}" for lacking in conflict["lacking"])


def cost(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cost of the desired and the maximum number of nodes, the prices, and the effective cost."""
    cost, effective = document["cost"], document["effective"]
    unallocated = _usd(cost["unallocated_usd_per_hour"])
    yield f"cost: {_money(cost)} ({HOURS_PER_MONTH} h); not allocated to any team: {unallocated}"
    highest = _usd(cost["most_usd_per_hour"])
    yield f"highest cost: {highest}, with every pool at its maximum size and its most expensive machine type"
    yield f"prices: {cost['prices']}"
    if cost["unknown_price"]:
        yield f"not included in the cost, because the price is unknown: {', '.join(cost['unknown_price'])}"
    share = f" ({effective['share']:.0%})" if effective["share"] is not None else ""
    yield f"effective: {_money(effective)}{share}: {effective['how']}"
    if effective["unknown"]:
        yield (
            f"not included in the effective cost: {', '.join(effective['unknown'])} (set utilisation in the pool, "
            "or use --utilisation)"
        )


def waste(document: Mapping[str, Any]) -> str:
    """Return the cost of resources that are paid for but not used."""
    found = document["waste"]
    return f"waste: {'at least ' if found['at_least'] else ''}{_money(found)}"


def oversubscription(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the number and cost of the GPUs that the quotas allow but the nodes do not have."""
    for one in document["oversubscription"]["resources"]:
        yield (
            f"oversubscription: {one['asked']} x {one['name']} allocated to teams, {one['offered']} available: "
            f"{counted(one['gpus'], 'GPU')} more would be needed, {_money(one)}; not included in the waste"
        )


def _money(figures: Mapping[str, Any]) -> str:
    if figures["usd_per_hour"] is None:
        return "unknown"
    return f"{figures['usd_per_hour']:.2f} USD/h, {figures['usd_per_month']:.2f} USD/month"


def _usd(per_hour: float | None) -> str:
    return "unknown" if per_hour is None else f"{per_hour:.2f} USD/h"
