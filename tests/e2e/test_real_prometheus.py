"""A real Prometheus scrapes a simulated node and loads the planned rules, and alerts fire and clear.

The waiting times of the rules (`for`) are one second here. The rule tests in tests/planning/monitoring cover the
real waiting times.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from extensions.reports.dashboards import Period, boards, dashboards_page, read_boards
from gpu_platform.live.measured import held_by_team, measured_utilisation
from gpu_platform.live.prometheus import Prometheus
from gpu_platform.planning.monitoring.grafana import content, dashboards
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.stack.loaded import plan_platform
from sandbox.nvml import parse_faults
from tests.support.dcgm_endpoint import DcgmEndpoint
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.prometheus_programs import PROMETHEUS, needs_prometheus
from tests.support.recorded import record_platform

pytestmark = needs_prometheus

STACK: dict[str, Any] = {
    "kind": "environment",
    "cluster": {"provider": "existing"},
    "pools": [
        {
            "name": "train",
            "machine_type": "p5.48xlarge",
            "count": {"min": 1, "desired": 1, "max": 1},
            "workload": "training",
            "nodes": {"selector": {"pool": "train"}},
        }
    ],
    "teams": [{"name": "vision", "quota": {"gpus": 8}, "priority": "training", "members": ["group:a"]}],
}


class Server:
    """A running Prometheus server."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        url = f"{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())["data"]["result"]

    def alerts(self) -> dict[str, dict[str, Any]]:
        """Return the firing alerts by name."""
        with urllib.request.urlopen(f"{self.address}/api/v1/alerts", timeout=30) as answer:
            found = json.loads(answer.read())["data"]["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in found if alert["state"] == "firing"}

    def is_ready(self) -> bool:
        """Return whether the Prometheus server answers."""
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


@pytest.fixture(scope="module")
def node() -> Iterator[DcgmEndpoint]:
    with DcgmEndpoint("p5.48xlarge", "train-1", free=2) as endpoint:
        yield endpoint


def exporter_job(address: str) -> dict[str, Any]:
    """Return the scrape job that the Prometheus operator creates for the ServiceMonitor, including the labels that
    the operator adds.

    Source: prometheus-operator docs, Design, and pkg/prometheus/promcfg.go (generateServiceMonitorConfig).
    """
    (endpoint,) = record_platform(STACK).of("ServiceMonitor")[0].inputs["spec"]["endpoints"]
    keys = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    found = {
        "namespace": "gpu-operator",
        "pod": "nvidia-dcgm-exporter-x7k2p",
        "container": "nvidia-dcgm-exporter",
        "service": "nvidia-dcgm-exporter",
        "endpoint": endpoint["port"],
        "__meta_kubernetes_node_label_gpu_platform_dev_pool": "train",
    }
    return {
        "job_name": "exporter",
        "honor_labels": endpoint["honorLabels"],
        "static_configs": [{"targets": [address], "labels": found}],
        "relabel_configs": [
            {keys.get(key, key): value for key, value in one.items()} for one in endpoint["relabelings"]
        ],
    }


@pytest.fixture(scope="module")
def server(node: DcgmEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("prometheus")
    plan = plan_platform(STACK, "test")
    assert plan.kind == "environment"
    assert plan.monitoring is not None
    groups = rule_groups(plan.monitoring)
    for rule in groups[1]["rules"]:
        rule["for"] = "1s"
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    kube_state = {"job_name": "kube-state", "metrics_path": "/kube-state", "honor_labels": True}
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            exporter_job(node.address),
            {**kube_state, "static_configs": [{"targets": [node.address]}]},
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(PROMETHEUS),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        found = Server(f"http://{address}")
        eventually(lambda: found.is_ready() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield found
    finally:
        process.terminate()
        process.wait(timeout=30)


def faults(*said: dict[str, Any]) -> tuple[Any, ...]:
    return parse_faults(json.dumps(said))


def value(server: Server, expr: str) -> float | None:
    found = server.query(expr)
    return float(found[0]["value"][1]) if found else None


def test_a_healthy_node_is_recorded_by_pool_team_and_workload_and_fires_nothing(
    server: Server, node: DcgmEndpoint
) -> None:
    eventually(lambda: value(server, 'pool:gpus:count{pool="train"}') == 8)
    eventually(lambda: value(server, 'workload:gpus_held:count{namespace="vision", workload="train"}') == 6)
    assert value(server, 'namespace:active:ratio{namespace="vision"}') == pytest.approx(0.6)
    assert value(server, 'model:active:ratio{modelName="NVIDIA H100 80GB HBM3"}') == pytest.approx(0.45)
    assert measured_utilisation(server.address, ["train"], period="1m") == {"train": pytest.approx(0.45, abs=0.01)}
    eventually(lambda: held_by_team(server.address, ["vision", "search"], period="1m"), {"vision": 6, "search": 0})
    eventually(lambda: server.alerts() == {})


def test_free_gpus_are_held_by_nobody_and_paid_by_no_team(server: Server, node: DcgmEndpoint) -> None:
    eventually(lambda: value(server, 'pool:gpus_held:count{pool="train"}') == 6)
    eventually(lambda: value(server, 'namespace:gpus_held:count{namespace="vision"}') == 6)
    assert [one["metric"]["namespace"] for one in server.query("namespace:cost:usd_per_hour")] == ["vision"]
    assert value(server, "namespace:cost:usd_per_hour") == pytest.approx(55.04 * 6 / 8, abs=0.01)
    assert server.query('gpu:active:ratio{gpu="7", pod!=""}') == []


def test_alerts_fire_for_injected_faults_and_clear_after(server: Server, node: DcgmEndpoint) -> None:
    eventually(lambda: server.alerts() == {})
    node.faults = faults(
        {"kind": "row-remap-failed", "index": 0},
        {"kind": "row-remap-pending", "index": 1},
        {"kind": "thermal", "index": 2, "degrees_above": 3},
        {"kind": "power-brake", "index": 3},
        {"kind": "gpu-missing", "index": 7},
    )
    node.xids = {0: "31", 4: "79", 5: "119"}
    expected = {
        "GpuRemapFailed",
        "GpuRemapPending",
        "GpuTemperatureHigh",
        "GpuThermalThrottling",
        "GpuPowerThrottling",
        "GpuLost",
        "GpuXidRestart",
        "GpuXidReset",
        "GpuXidApplication",
    }
    eventually(lambda: set(server.alerts()), expected)
    fired = server.alerts()
    assert fired["GpuRemapFailed"]["labels"]["gpu"] == "0"
    assert fired["GpuLost"]["annotations"]["summary"] == "train-1 has 7 of 8 GPUs"
    assert fired["GpuXidApplication"]["labels"]["namespace"] == "vision"
    assert fired["GpuXidRestart"]["annotations"]["summary"].startswith("GPU 4 of train-1 reports XID 79")
    assert fired["GpuXidRestart"]["annotations"]["runbook_url"] == "docs/runbooks.md#gpuxidrestart"
    node.faults, node.xids = (), {}
    eventually(lambda: server.alerts() == {})


def test_an_idle_pod_fires_until_it_works(server: Server, node: DcgmEndpoint) -> None:
    node.active = 0.01
    eventually(lambda: set(server.alerts()) == {"GpuHeldAndIdle"})
    node.active = 0.6
    eventually(lambda: server.alerts() == {})


def test_a_dead_scrape_is_blind_and_not_healthy(server: Server, node: DcgmEndpoint) -> None:
    node.xids, node.is_down = {4: "79"}, True
    eventually(lambda: set(server.alerts()) == {"GpuNodeBlind", "GpuMetricsMissing"})
    node.xids, node.is_down = {}, False
    eventually(lambda: server.alerts() == {})


def test_the_page_of_the_dashboards_has_a_picture_of_every_panel(server: Server, node: DcgmEndpoint) -> None:
    eventually(lambda: value(server, 'workload:gpus_held:count{namespace="vision", workload="train"}') == 6)
    now = time.time()
    period = Period(now - 300, now)
    answers = read_boards(Prometheus(server.address), boards(), {}, period)
    page = dashboards_page(answers, server.address, {}, period)
    assert [answer.error for one in answers for answer in one.answers if answer.error] == []
    drawn = [answer.panel for one in answers for answer in one.answers if answer.panel.kind == "timeseries"]
    assert page.count('<svg class="chart"') == len(drawn)
    assert "no data" not in page
    assert "In use by pool, at the end: train 45 %" in page


def test_every_panel_of_every_dashboard_has_data(server: Server, node: DcgmEndpoint) -> None:
    eventually(lambda: value(server, 'workload:gpus_held:count{namespace="vision", workload="train"}') == 6)
    empty: list[str] = []
    for dashboard in dashboards():
        for panel in json.loads(content(dashboard))["panels"]:
            expr = re.sub(r"\$\w+", ".*", panel["targets"][0]["expr"])
            if not server.query(expr):
                empty.append(f"{dashboard.name}: {panel['title']}")
    # A healthy node has no XID errors, and its pods are busy.
    assert empty == [
        "fleet: XID errors of the last 5 minutes",
        "team: Pods that use less than 5 % of their GPU",
    ]
