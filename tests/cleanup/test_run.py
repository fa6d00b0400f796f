"""One run of the clean-up against a Prometheus that does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.cleanup.program import Run
from gpu_platform.cleanup.rules import Settings
from tests.support.http_servers import start_server, stop_server
from validators.agent.api_server import ApiServer


class _EmptyCluster(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"items": [], "metadata": {}}).encode())

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ApiServer]:
    (tmp_path / "token").write_text("token")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _EmptyCluster)
    start_server(server)
    yield ApiServer(f"http://127.0.0.1:{server.server_port}", str(tmp_path / "token"), "")
    stop_server(server)


def test_a_prometheus_that_does_not_answer_is_asked_once(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(idle_after=7200, prometheus="http://127.0.0.1:9")
    run = Run(cluster, settings, datetime(2026, 11, 30, tzinfo=UTC))
    for team in ("assistants", "search", "vision"):
        run.clean(team, ())
    run.report("gpu-platform-cleanup")
    assert "0 found, 1 problems" in capsys.readouterr().out
    assert not run.failed
