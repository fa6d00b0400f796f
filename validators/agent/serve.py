"""Checks the node periodically and answers probes. The pod is ready only as long as the node passes."""

from __future__ import annotations

import functools
import json
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

from validators.agent.api_server import ApiError
from validators.agent.outcome import NOT_APPLICABLE, PASS
from validators.agent.report import Report, content_of
from validators.agent.snapshot import OTHER_DRIVER

REPUBLISH_SECONDS = 600  # minimum time between equal reports, which limits the load on the API server
_REQUEST_SECONDS = 5
_WAIT_SECONDS = 5.0  # interval between tries while the GPUs must not be read
# Only the kubelet sends probes.
# Clients that keep connections open must not block the probes or exhaust the memory.
MOST_CONNECTIONS = 32
MOST_CONNECTIONS_OF_ADDRESS = 4
# A container keeps the driver library that it started with, so it must be restarted after a driver update.
# If the library has worked before, the container is restarted immediately.
# Otherwise the restart is delayed, because a new container may get the same library until the host reboots.
RESTART_SECONDS = 300


class Readiness:
    """The latest report, and whether the pod is ready and alive."""

    def __init__(self, stale_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stale_seconds = stale_seconds
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._unpublished = ""
        self._since = 0.0
        self._unread_since: float | None = None
        self._has_read = False
        self._is_outdated = False

    def set(self, report: Report, unpublished: str) -> None:
        """Set the latest report. `unpublished` is the reason why it could not be published, or ""."""
        with self._lock:
            self._report, self._unpublished, self._since = report, unpublished, self._clock()
            nvml = [entry for entry in report["checks"] if entry["id"] == "nvml"]
            read = any(entry["verdict"] == PASS for entry in nvml)
            self._has_read = self._has_read or read
            self._is_outdated = self._has_read and any(entry["observed"].endswith(OTHER_DRIVER) for entry in nvml)
            self._unread_since = None if read else self._unread_since or self._since

    @property
    def report(self) -> Report | None:
        """The latest report."""
        with self._lock:
            return self._report

    def why_not_alive(self) -> str:
        """Return why the container should be restarted, or ""."""
        with self._lock:
            if self._is_outdated:
                return "the driver was replaced: this container has the library of the previous driver"
            unread = 0.0 if self._unread_since is None else self._clock() - self._unread_since
        return f"NVML has not answered for {unread:.0f} s" if unread > RESTART_SECONDS else ""

    def why_not(self) -> str:
        """Return why the node is not ready, or ""."""
        with self._lock:
            if self._report is None:
                return "the first check has not finished"
            age = self._clock() - self._since
            if age > self._stale_seconds:
                return f"the last check finished {age:.0f} s ago"
            if self._report["verdict"] != PASS:
                quiet = (PASS, NOT_APPLICABLE)
                bad = [entry["id"] for entry in self._report["checks"] if entry["verdict"] not in quiet]
                return f"{self._report['verdict']}: {', '.join(dict.fromkeys(bad))}"
            return self._unpublished


class Publisher:
    """Publishes a report when its verdicts change, and periodically to show that the agent is alive."""

    def __init__(
        self,
        publish: Callable[[Report], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        republish_seconds: float = REPUBLISH_SECONDS,
    ) -> None:
        self._publish = publish
        self._republish_seconds = republish_seconds
        self._clock = clock
        self._last: tuple[object, float] | None = None

    def offer(self, report: Report) -> str:
        """Publish the report if it is due. Return why publishing failed, or ""."""
        content, now = content_of(report), self._clock()
        if self._last is not None and self._last[0] == content and now - self._last[1] < self._republish_seconds:
            return ""
        try:
            self._publish(report)
        except ApiError as error:
            self._last = None
            return str(error)
        self._last = (content, now)
        return ""


def serve(
    check: Callable[[], Report],
    publisher: Publisher | None,
    readiness: Readiness,
    port: int,
    interval_seconds: float,
    why_wait: Callable[[], str],
) -> None:
    """Check every `interval_seconds` and serve on `port` until a signal ends the process.

    `why_wait` returns why the node must not be checked now, or "".
    """
    server = _Server(port, readiness)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)  # PID 1 in a container has no default signal handlers
    while True:
        if waits := why_wait():
            print(waits, file=sys.stderr, flush=True)
            time.sleep(min(_WAIT_SECONDS, interval_seconds))
            continue
        report = check()
        unpublished = publisher.offer(report) if publisher else ""
        readiness.set(report, unpublished)
        reason = readiness.why_not()
        print(f"{report['time']} {reason or 'pass'}", file=sys.stderr, flush=True)
        time.sleep(interval_seconds)


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


class _Server(ThreadingHTTPServer):
    """HTTP server on every address of the pod, both IPv6 and IPv4."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int, readiness: Readiness) -> None:
        self._clients: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(("", port), functools.partial(_Handler, readiness))

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401 - socketserver's own
        """Refuse a connection that exceeds the limits."""
        del request
        address = str(client_address[0])
        with self._lock:
            free = (
                sum(self._clients.values()) < MOST_CONNECTIONS
                and self._clients[address] < MOST_CONNECTIONS_OF_ADDRESS
            )
            if free:
                self._clients[address] += 1
        return free

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's own
        """Serve one connection, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            address = str(client_address[0])
            with self._lock:
                self._clients[address] -= 1
                if not self._clients[address]:
                    del self._clients[address]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's own
        """Print nothing, because a client that disconnects is not an error."""

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_SECONDS

    def __init__(self, readiness: Readiness, *arguments: Any) -> None:  # noqa: ANN401 - http.server's own
        self._readiness = readiness
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.path == "/ready":
            reason = self._readiness.why_not()
            self._answer(503 if reason else 200, "text/plain", reason or "pass")
        elif self.path == "/live":
            reason = self._readiness.why_not_alive()
            self._answer(503 if reason else 200, "text/plain", reason or "alive")
        elif self.path == "/report":
            report = self._readiness.report
            self._answer(200 if report else 503, "application/json", json.dumps(report, ensure_ascii=False))
        else:
            self._answer(404, "text/plain", "try /ready, /live or /report")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = (text + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: ANN401 - http.server's names
        """Log nothing, because there is a probe every few seconds."""
