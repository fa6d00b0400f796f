"""`gpu-platform cost` with utilisation from a Prometheus server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from gpu_platform.cli import main
from gpu_platform.live.measured import utilisation_query
from tests.support.http_servers import start_server, stop_server


class _Prometheus(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []
    values: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.asked.extend(parse_qs(url.query).get("query", []))
        result = [{"metric": {"pool": pool}, "value": [0, value]} for pool, value in self.values.items()]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200 if url.path == "/api/v1/query" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    _Prometheus.asked, _Prometheus.values = [], {"train": "0.25", "elsewhere": "0.5"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Prometheus)
    start_server(server)
    yield f"http://127.0.0.1:{server.server_port}"
    stop_server(server)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(left.value.code or 0), printed.out, printed.err


def test_the_measured_utilisation_says_what_is_idle(capsys: pytest.CaptureFixture[str], prometheus: str) -> None:
    code, out, _ = run(capsys, "cost", "local", "--prometheus", prometheus, "--format", "json")
    assert code == 0
    document = json.loads(out)
    train = next(pool for pool in document["pools"] if pool["pool"] == "train")
    assert (train["utilisation"], train["measured"]) == (0.25, True)
    assert train["idle_usd_per_hour"] == pytest.approx(train["usd_per_hour"] * 0.75)
    assert _Prometheus.asked == [
        utilisation_query("14d"),
        "max_over_time(namespace:gpus_held:count[14d])",
    ]


def test_capacity_takes_the_measured_utilisation(capsys: pytest.CaptureFixture[str], prometheus: str) -> None:
    code, out, _ = run(capsys, "capacity", "local", "--prometheus", prometheus, "--format", "json")
    assert code == 0
    train = next(pool for pool in json.loads(out)["pools"] if pool["name"] == "train")
    assert train["utilisation"] == 0.25


def test_a_prometheus_that_knows_no_pool_is_unknown_and_not_idle(
    capsys: pytest.CaptureFixture[str], prometheus: str
) -> None:
    _Prometheus.values = {}
    code, _, err = run(capsys, "cost", "local", "--prometheus", prometheus)
    assert code == 3
    assert "no metric pool:active:ratio" in err


def test_a_prometheus_that_does_not_answer_is_an_error_and_no_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(capsys, "cost", "local", "--prometheus", "http://127.0.0.1:9")
    assert code == 3
    assert "did not answer" in err
    code, _, err = run(capsys, "cost", "local", "--prometheus", "localhost:9090")
    assert code == 2
    assert "http://localhost:9090" in err


def test_the_text_names_teams_prices_and_the_change_that_saves(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", "local")
    assert code == 0
    assert "team vision: " in out
    assert "price: AWS price list" in out
    assert "pools[1].count.desired: 2 -> 1" in out


def test_a_team_has_no_pools(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "cost", "speech")
    assert code == 2
    assert "gpu-platform cost local" in err


def test_an_unknown_pool_and_a_percentage_are_reported_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "measured.yaml"
    file.write_text("train: 61\nsrve: 0.5\n", "utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["cost", "local", "--utilisation", str(file)])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "train: found 61" in err
    assert "srve: found 'srve'" in err
