"""Sends requests to an API server, with retries and a total time limit, and converts error responses to
exceptions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlencode

import urllib3

from gpu_platform.base.errors import Finding, UnknownOutcome
from gpu_platform.base.names import FIELD_MANAGER

_RETRY_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 4.0)  # long enough for a restart of the API server
_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_NO_SERVER_STATUSES: Final = frozenset({502, 503, 504})
_ETCD: Final = ("etcd", "context deadline exceeded", "request timed out", "transport is closing")


class Refused(Finding):
    """The API server refused a request.

    `status` is the HTTP status. `reason` is the API's reason, such as `Invalid` or `AlreadyExists`.
    """

    def __init__(self, what: str, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        super().__init__(f"{what}: {message}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits of a request in seconds: for the connection, for the response, and for all attempts together."""

    connect: float = 5.0
    read: float = 30.0
    total: float = 60.0


class Connection:
    """Connection to one API server."""

    def __init__(
        self,
        pool: urllib3.PoolManager,
        configuration: Any,  # noqa: ANN401 - of the official client, which has no types
        source: str,
        *,
        limits: Limits,
        diagnose: Callable[[], str] | None,
    ) -> None:
        """Use the pool and configuration of the official client. `source` describes the kubeconfig in errors.

        `diagnose` returns more information for the error message about a server that does not answer.
        """
        self._pool = pool
        self._configuration: Any = configuration
        self._source = source
        self._limits = limits
        self._diagnose = diagnose
        self._silent = False

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    def limited(self, limits: Limits) -> Connection:
        """Return a connection to the same server with other time limits."""
        return Connection(self._pool, self._configuration, self._source, limits=limits, diagnose=self._diagnose)

    def request(
        self,
        method: str,
        path: str,
        what: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        patient: bool = True,
    ) -> dict[str, Any]:
        """Send a request with retries and return the parsed response. `what` describes the request in errors.

        Without `patient`, a temporary refusal is raised immediately. Raises Refused, and UnknownOutcome if the
        server does not answer within the limits. If a request gets no response or a wait is interrupted, later
        requests are tried only once until the server answers, so that a cleanup ends soon.
        """
        parameters = urlencode({key: value for key, value in (query or {}).items() if value})
        url = f"{self.server}{path}" + (f"?{parameters}" if parameters else "")
        data = None if body is None else json.dumps(body).encode()
        started = time.monotonic()
        limits = Limits(self._limits.connect, self._limits.connect, 0.0) if self._silent else self._limits
        self._silent = True  # set to False when the server answers
        for attempt, pause in enumerate((*_RETRY_PAUSES_SECONDS, None), start=1):
            left = max(limits.total - (time.monotonic() - started), limits.connect)
            timeout = urllib3.Timeout(connect=min(limits.connect, left), read=min(limits.read, left))
            try:
                response = self._pool.request(
                    method, url, body=data, headers=self._headers(content_type), timeout=timeout, retries=False
                )
            except urllib3.exceptions.HTTPError as error:
                seconds = time.monotonic() - started
                if isinstance(error, urllib3.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise UnknownOutcome(
                        f"{self.server} has a certificate that {self._source} does not trust: "
                        f"{_cause(error, timeout)}; use the `certificate-authority-data` of this cluster"
                    ) from error
                # A refused connection is not retried.
                # A broken connection is retried, because the server may be restarting.
                refused = isinstance(error, urllib3.exceptions.NewConnectionError)
                if pause is None or refused or seconds + pause >= limits.total:
                    raise self._no_answer(what, _cause(error, timeout), attempt, seconds) from error
            else:
                self._silent = False
                if response.status < 300:
                    return cast("dict[str, Any]", json.loads(response.data))
                refusal = _refusal(what, response.status, response.data)
                if response.status == 401:
                    raise UnknownOutcome(
                        f"{self.server} does not accept the credentials of {self._source}: {refusal}"
                    )
                seconds = time.monotonic() - started
                if not patient or not _is_passing(refusal):
                    raise refusal
                if pause is None or seconds + pause >= limits.total:
                    if _is_of_a_broken_server(refusal):
                        raise self._no_answer(what, f"HTTP {refusal.status}: {refusal.message}", attempt, seconds)
                    raise refusal
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _no_answer(self, what: str, cause: str, attempts: int, seconds: float) -> UnknownOutcome:
        tries = f"{attempts} attempts in {seconds:.0f} s" if attempts > 1 else f"after {seconds:.0f} s"
        more = self._diagnose() if self._diagnose is not None else ""
        return UnknownOutcome(
            f"the cluster of {self._source} ({self.server}) does not answer: {cause} ({what}; {tries}). "
            "Nothing more was changed. Run the command again when the cluster answers; it then continues"
            + (f". {more}" if more else "")
        )

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        settings: dict[str, Any] = self._configuration.auth_settings()  # calls the kubeconfig's exec plugin again
        if "BearerToken" in settings:
            headers["Authorization"] = str(settings["BearerToken"]["value"])
        return headers


def _cause(error: urllib3.exceptions.HTTPError, timeout: urllib3.Timeout) -> str:
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"no answer within {timeout.read_timeout:.0f} s"
    # NewConnectionError is a subclass of ConnectTimeoutError.
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError) and not refused:
        return f"no connection within {timeout.connect_timeout:.0f} s"
    return str(error).rsplit(": ", 1)[-1]


def _is_passing(refusal: Refused) -> bool:
    """Return whether the same request may succeed later."""
    if refusal.status == 409:
        return refusal.reason == "Conflict" and "precondition" not in refusal.message.lower()
    return refusal.status in _RETRIED_STATUSES and "typed patch" not in refusal.message


def _is_of_a_broken_server(refusal: Refused) -> bool:
    """Return whether the refusal means that the API server or its etcd has failed. The outcome of the request is
    then unknown.
    """
    if "webhook" in refusal.message:
        return False
    return refusal.status in _NO_SERVER_STATUSES or (
        refusal.status == 500 and any(text in refusal.message for text in _ETCD)
    )


def _refusal(what: str, status: int, data: bytes) -> Refused:
    """Convert the Status object in a response to a Refused error. The error contains the message of the Status, or
    its causes with their fields.
    """
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        return Refused(what, status, "", data.decode(errors="replace").strip() or f"HTTP {status}")
    details: dict[str, Any] = answer.get("details") or {}
    causes = [
        f"{cause['field']}: {cause['message']}" for cause in details.get("causes") or () if cause.get("field")
    ]
    if status == 429:  # for an eviction, a cause names the PodDisruptionBudget and its condition
        causes = [str(cause["message"]) for cause in details.get("causes") or () if cause.get("message")]
    message = "; ".join(causes) or str(answer.get("message") or f"HTTP {status}")
    return Refused(what, status, str(answer.get("reason") or ""), message)
