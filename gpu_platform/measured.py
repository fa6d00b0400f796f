"""Reads the measured utilisation of pools: from a file, or from a Prometheus with the rules of `monitoring`."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, cast

from gpu_platform.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.spec.utilisation import read_utilisation

_QUERY: Final = "avg_over_time(pool:active:ratio[{}])"
_SECONDS: Final = 30


def measured_by_pool(
    pools: Collection[str], file: Path | None, prometheus: str | None
) -> Mapping[str, float] | None:
    """Return the measured utilisation by pool, from a file or from Prometheus; None: neither is given."""
    if file is not None and prometheus is not None:
        problem = Problem("--utilisation", "beside --prometheus", "one of them", "leave one out")
        raise BadInput("command line", [problem])
    if file is not None:
        return read_utilisation(file, pools)
    return measured_utilisation(prometheus, pools) if prometheus is not None else None


def measured_utilisation(address: str, pools: Collection[str], *, period: str = "14d") -> dict[str, float]:
    """Return the average utilisation by pool, 0 to 1, of those that Prometheus knows.

    Raises BadInput for another address than http or https, UnknownOutcome where Prometheus does not answer or
    knows none of the pools.
    """
    if not address.startswith(("http://", "https://")):
        problem = Problem("--prometheus", f"{address!r}", "an address such as http://localhost:9090")
        raise BadInput("command line", [problem])
    query = urllib.parse.urlencode({"query": _QUERY.format(period)})
    url = f"{address.rstrip('/')}/api/v1/query?{query}"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - http or https alone
            found = _values(json.loads(answer.read()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnknownOutcome(f"Prometheus at {address} did not answer a query: {error}") from error
    known = {pool: value for pool, value in found.items() if pool in pools}
    if not known:
        raise UnknownOutcome(
            f"Prometheus at {address} has no pool:active:ratio of {', '.join(pools)} in the last {period}: "
            "does it evaluate the rules of the stack, and scrape the exporter?"
        )
    return known


def _values(document: Any) -> dict[str, float]:  # noqa: ANN401 - JSON
    series = cast("list[dict[str, Any]]", document["data"]["result"])
    return {each["metric"].get("pool", ""): min(1.0, max(0.0, float(each["value"][1]))) for each in series}
