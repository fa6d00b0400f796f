"""Reads the measured utilisation of pools from a file, or from a Prometheus server that evaluates the rules of
`monitoring`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.live.prometheus import Prometheus, QueryRefused
from gpu_platform.stack.utilisation import read_utilisation

_HELD: Final = "max_over_time(namespace:gpus_held:count[{}])"


def utilisation_query(period: str) -> str:
    """Return the PromQL query for the utilisation of each pool's GPUs in the last `period`.

    Each point in time is weighted by its number of GPUs. Otherwise one idle node of an autoscaled pool at night
    would count as much as all of its nodes during the day. A Prometheus that has run for less than 5 minutes has
    no weighted average yet, so the query then returns the plain average.
    """
    counted = "(pool:gpus:count and on (pool) pool:active:ratio)"
    return (
        f"sum_over_time((pool:active:ratio * on (pool) {counted})[{period}:5m]) / on (pool) "
        f"sum_over_time({counted}[{period}:5m]) or on (pool) avg_over_time(pool:active:ratio[{period}])"
    )


def measured_by_pool(
    pools: Collection[str], file: Path | None, prometheus: str | None
) -> Mapping[str, float] | None:
    """Return the measured utilisation by pool from a file or from Prometheus, or None if neither is given."""
    if file is not None and prometheus is not None:
        problem = Problem("--utilisation", "together with --prometheus", "one of them", "leave one out")
        raise BadInput("command line", [problem])
    if file is not None:
        return read_utilisation(file, pools)
    return measured_utilisation(prometheus, pools) if prometheus is not None else None


def measured_utilisation(address: str, pools: Collection[str], *, period: str = "14d") -> dict[str, float]:
    """Return the average utilisation, 0 to 1, of the pools that have metrics in Prometheus.

    Raises BadInput for an address that is neither http nor https. Raises UnknownOutcome if Prometheus does not
    answer or has no metrics for any of the pools.
    """
    found = _ask(address, utilisation_query(period), "pool")
    known = {pool: min(1.0, max(0.0, value)) for pool, value in found.items() if pool in pools}
    if not known:
        raise UnknownOutcome(
            f"Prometheus at {Prometheus(address).shown} has no metric pool:active:ratio for {', '.join(pools)} "
            f"in the last {period}: does it evaluate the rules of the stack, and scrape the exporter?"
        )
    return known


def held_by_team(address: str, teams: Collection[str], *, period: str = "14d") -> dict[str, float] | None:
    """Return the peak number of GPUs that each team held, or None if Prometheus has no such metrics.

    If any team has a series, the exporter names the pods that use GPUs, so a team without a series has held no
    GPU. Raises BadInput for an address that is neither http nor https, and UnknownOutcome if Prometheus does not
    answer.
    """
    found = {team: value for team, value in _ask(address, _HELD.format(period), "namespace").items() if team}
    return {team: found.get(team, 0.0) for team in teams} if found else None


def _ask(address: str, query: str, label: str) -> dict[str, float]:
    """Run an instant query, and return the value of each series by its label `label`."""
    server = Prometheus(address)
    try:
        return {one.labels.get(label, ""): one.last for one in server.at(query)}
    except QueryRefused as error:
        raise UnknownOutcome(f"Prometheus at {server.shown} did not answer a query: {error}") from error
