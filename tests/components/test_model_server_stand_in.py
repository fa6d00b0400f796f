"""Simulated model servers that load slowly, are busy or stream, with the probes and the shutdown of their
Deployment.

The kubelet is simulated according to its documented rules (Kubernetes docs, "Configure Liveness, Readiness and
Startup Probes", and "Pod Lifecycle", termination; read 2026-11-29), at ten times the real speed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.components.test_team_workloads import manifest, recorded
from tests.support.ports import free_port

pytestmark = pytest.mark.long

SECOND = 0.1  # duration of one second of the manifest in this test

# The server behaves like common model servers (vLLM, TGI, Triton behind uvicorn).
# The server does not listen while it loads weights.
# The server answers health requests from the request queue.
# After SIGTERM, the server accepts no new requests and finishes its streams.
SERVER = """
import http.server, signal, sys, threading, time
port, load, health, stream = int(sys.argv[1]), *map(float, sys.argv[2:5])
time.sleep(load)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/stream":
            self.send_response(200); self.end_headers()
            end = time.monotonic() + stream
            while time.monotonic() < end:
                self.wfile.write(b"token "); self.wfile.flush(); time.sleep(0.05)
            self.wfile.write(b"end")
        else:
            time.sleep(health)
            self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.daemon_threads = False
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
server.server_close()
"""


@dataclass
class Kubelet:
    """A simulated kubelet that runs, probes and stops one container. `events` contains its actions in order."""

    container: Mapping[str, Any]
    grace: float
    port: int
    process: subprocess.Popen[bytes]
    events: list[str] = field(default_factory=list)

    def probe(self, kind: str) -> bool:
        """Return whether one request of a probe succeeds within its timeout."""
        probe = self.container[kind]
        url = f"http://127.0.0.1:{self.port}{probe['httpGet']['path']}"
        try:
            with urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1) * SECOND) as answer:
                return 200 <= answer.status < 400
        except (urllib.error.URLError, OSError):
            return False

    def starts(self) -> bool:
        """Probe until the server has started, or kill it after the maximum number of failures."""
        probe = self.container["startupProbe"]
        for _ in range(probe["failureThreshold"]):
            if self.probe("startupProbe"):
                return True
            time.sleep(probe["periodSeconds"] * SECOND)
        self.events.append("killed by startupProbe")
        self.process.kill()
        return False

    def watch(self, seconds: float) -> None:
        """Run both probes of a started server in parallel for a number of manifest seconds."""
        threads = [
            threading.Thread(target=self._watch, args=(kind, what, seconds))
            for kind, what in (("readinessProbe", "not ready"), ("livenessProbe", "killed by livenessProbe"))
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def _watch(self, kind: str, what: str, seconds: float) -> None:
        probe = self.container[kind]
        end, failures = time.monotonic() + seconds * SECOND, 0
        while time.monotonic() < end:
            failures = 0 if self.probe(kind) else failures + 1
            if failures == probe.get("failureThreshold", 3):
                self.events.append(what)
                return
            time.sleep(probe["periodSeconds"] * SECOND)

    def end(self) -> int:
        """Run preStop, send SIGTERM, and send SIGKILL if the grace period has expired. Return the exit code."""
        asked = time.monotonic()
        time.sleep(self.container["lifecycle"]["preStop"]["sleep"]["seconds"] * SECOND)
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(max(0.0, asked + self.grace * SECOND - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


Start = Callable[..., Kubelet]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a server and returns its kubelet. Times are in seconds of the manifest."""
    made: list[Kubelet] = []
    program = tmp_path / "server.py"
    program.write_text(SERVER, "utf-8")

    def start(*, load: float = 0, health: float = 0, stream: float = 0) -> Kubelet:
        service = {"name": "chat", "pool": "train", "image": "acme.example/server:1"}
        spec = manifest(recorded(inference_services=[service]), "Deployment", "chat")["spec"]["template"]["spec"]
        times = [str(one * SECOND) for one in (load, health, stream)]
        port = free_port()
        process = subprocess.Popen([sys.executable, "-I", "-S", str(program), str(port), *times])
        made.append(Kubelet(spec["containers"][0], spec["terminationGracePeriodSeconds"], port, process))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()


def test_a_server_that_loads_for_five_minutes_is_not_killed(start: Start) -> None:
    assert start(load=300).starts()


def test_a_server_whose_queue_answers_in_two_seconds_stays_ready(start: Start) -> None:
    running = start(health=2)
    assert running.starts()
    running.watch(120)
    assert running.events == []


def test_a_saturated_server_gets_no_requests_for_a_while_and_is_not_killed(start: Start) -> None:
    running = start()
    assert running.starts()
    running.process.send_signal(signal.SIGSTOP)  # the server is unresponsive for two minutes
    running.watch(120)
    running.process.send_signal(signal.SIGCONT)
    assert running.events == ["not ready"]


def test_a_stream_that_lasts_when_the_pod_ends_is_finished(start: Start) -> None:
    running = start(stream=40)
    assert running.starts()
    answers: list[bytes] = []

    def ask() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/stream", timeout=60) as answer:
            answers.append(answer.read())

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(5 * SECOND)
    assert running.end() == 0
    asking.join()
    assert answers[0].endswith(b"end")


def test_late_clients_are_served_during_the_shutdown(start: Start) -> None:
    running = start()
    assert running.starts()
    ending = threading.Thread(target=running.end)
    ending.start()
    time.sleep(5 * SECOND)  # within these seconds, endpoints and gateways stop routing requests to the pod
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/healthz", timeout=60) as answer:
        assert answer.status == 200
    ending.join()
