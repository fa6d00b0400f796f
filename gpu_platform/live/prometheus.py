"""Client for the HTTP API of a Prometheus server: queries at one point in time, and over a range of time.

Source: Prometheus docs, HTTP API, expression queries; read 2026-11-25.
"""

from __future__ import annotations

import base64
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome

_SECONDS: Final = 30
_ERROR_BYTES: Final = 10_000


class QueryRefused(Exception):
    """Prometheus cannot evaluate a query. The message is the reason in its response."""


@dataclass(frozen=True, slots=True)
class Series:
    """A time series in a response.

    `samples` are pairs of a time, in seconds since 1970, and a finite value. The oldest sample comes first.
    """

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """Newest value of the series."""
        return self.samples[-1][1]


class Prometheus:
    """A Prometheus server at an address."""

    def __init__(self, address: str) -> None:
        """Use the server at `address`, such as http://user:password@localhost:9090.

        Raises BadInput if the address is neither http nor https.
        """
        if not address.startswith(("http://", "https://")):
            allowed = "an address such as http://localhost:9090"
            fix = "write http:// or https://" if "://" in address else f"write http://{address}"
            raise BadInput("command line", [Problem("--prometheus", f"{address!r}", allowed, fix)])
        parts = urllib.parse.urlsplit(address.rstrip("/"))
        user, given, host = parts.netloc.rpartition("@")
        self.shown: Final = urllib.parse.urlunsplit(parts._replace(netloc=host))
        """The address without user and password."""
        encoded = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
        self._login: Final = f"Basic {encoded}" if given else None

    def at(self, query: str, time: float | None = None) -> tuple[Series, ...]:
        """Return the series of a query at one point in time, by default now. Each series has one sample.

        Raises QueryRefused, and UnknownOutcome if Prometheus does not answer.
        """
        asked = {"query": query} if time is None else {"query": query, "time": f"{time:.3f}"}
        return self._series("query", asked)

    def over(self, query: str, start: float, end: float, step: float) -> tuple[Series, ...]:
        """Return the series of a query from `start` to `end`, with a sample every `step` seconds.

        Raises QueryRefused, and UnknownOutcome if Prometheus does not answer.
        """
        asked = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return self._series("query_range", asked)

    def _series(self, path: str, asked: Mapping[str, str]) -> tuple[Series, ...]:
        request = urllib.request.Request(f"{self.shown}/api/v1/{path}?{urllib.parse.urlencode(asked)}")  # noqa: S310
        if self._login is not None:
            request.add_unredirected_header("Authorization", self._login)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - only http or https
                found = cast("list[dict[str, Any]]", json.loads(answer.read())["data"]["result"])
                read = tuple(_read(one) for one in found)
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnknownOutcome(f"Prometheus at {self.shown} did not answer a query: {error}") from error
        return tuple(one for one in read if one.samples)

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        """Convert an HTTP error to an exception.

        Prometheus gives a reason in its response, but other servers do not.
        """
        try:
            document: object = json.loads(error.read(_ERROR_BYTES))
            text = cast("Mapping[str, object]", document)["error"]
        except (OSError, ValueError, KeyError, TypeError):
            return UnknownOutcome(f"Prometheus at {self.shown} did not answer a query: {error}")
        return QueryRefused(str(text))


def _read(one: Mapping[str, Any]) -> Series:
    values = one["values"] if "values" in one else [one["value"]]
    samples = ((float(time), float(value)) for time, value in values)
    return Series(dict(one["metric"]), tuple((time, value) for time, value in samples if math.isfinite(value)))
