"""Checks the node again and again and answers readiness probes: ready only while the node passes."""

from __future__ import annotations

import functools
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from validators.agent.outcome import NOT_APPLICABLE, PASS
from validators.agent.publish import PublishError
from validators.agent.report import Report

REPUBLISH_SECONDS = 600  # an unchanged report is renewed no more often, to spare the API server
_REQUEST_SECONDS = 5
# A container keeps the driver library that it began with: after a driver change only a new one can read NVML.
RESTART_SECONDS = 300


class Readiness:
    """The latest report, and whether it says that the node may be used."""

    def __init__(self, stale_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stale_seconds = stale_seconds
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._unpublished = ""
        self._since = 0.0
        self._blind_since: float | None = None

    def set(self, report: Report, unpublished: str) -> None:
        """Take a new report; `unpublished` says why it could not be published, or ""."""
        with self._lock:
            self._report, self._unpublished, self._since = report, unpublished, self._clock()
            sees = any(entry["id"] == "nvml" and entry["verdict"] == PASS for entry in report["checks"])
            self._blind_since = None if sees else self._blind_since or self._since

    @property
    def report(self) -> Report | None:
        """The latest report."""
        with self._lock:
            return self._report

    def why_not_alive(self) -> str:
        """Return why a fresh container should take over, or ""."""
        with self._lock:
            blind = 0.0 if self._blind_since is None else self._clock() - self._blind_since
        return f"NVML has not answered for {blind:.0f} s" if blind > RESTART_SECONDS else ""

    def why_not(self) -> str:
        """Return why the node is not ready, or ""."""
        with self._lock:
            if self._report is None:
                return "the first check has not ended"
            age = self._clock() - self._since
            if age > self._stale_seconds:
                return f"the last check ended {age:.0f} s ago"
            if self._report["verdict"] != PASS:
                quiet = (PASS, NOT_APPLICABLE)
                bad = [entry["id"] for entry in self._report["checks"] if entry["verdict"] not in quiet]
                return f"{self._report['verdict']}: {', '.join(dict.fromkeys(bad))}"
            return self._unpublished


class Publisher:
    """Publishes a report when it says something new, and now and then to show that the agent lives."""

    def __init__(self, publish: Callable[[Report], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._publish = publish
        self._clock = clock
        self._last: tuple[object, float] | None = None

    def offer(self, report: Report) -> str:
        """Publish the report if it is due; return why that failed, or ""."""
        said, now = _what_it_says(report), self._clock()
        if self._last is not None and self._last[0] == said and now - self._last[1] < REPUBLISH_SECONDS:
            return ""
        try:
            self._publish(report)
        except PublishError as error:
            self._last = None
            return str(error)
        self._last = (said, now)
        return ""


def _what_it_says(report: Report) -> object:
    """Return what makes a report new: not the time, nor a temperature that passes."""
    verdicts = [(entry["id"], entry["device"], entry["verdict"]) for entry in report["checks"]]
    return report["expectations_hash"], report["pod_uid"], verdicts


def serve(
    check: Callable[[], Report],
    publisher: Publisher | None,
    readiness: Readiness,
    port: int,
    interval_seconds: float,
) -> None:
    """Check every `interval_seconds` and answer on `port` until a signal ends the process."""
    server = _Server(port, readiness)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # as PID 1 of a container nothing ends it by default
    while True:
        report = check()
        unpublished = publisher.offer(report) if publisher else ""
        readiness.set(report, unpublished)
        reason = readiness.why_not()
        print(f"{report['time']} {reason or 'pass'}", file=sys.stderr, flush=True)
        time.sleep(interval_seconds)


class _Server(ThreadingHTTPServer):
    """Listens on every address of the pod, IPv6 and IPv4."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int, readiness: Readiness) -> None:
        super().__init__(("", port), functools.partial(_Handler, readiness))

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
        """Probes come every few seconds: no line for each."""
