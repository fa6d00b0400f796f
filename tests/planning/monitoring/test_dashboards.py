"""Dashboards query only recorded metrics, with expressions that Prometheus can parse."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.planning.monitoring.grafana import content, dashboards
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.planning.monitoring.test_alerts import ROOT, VERSIONS, monitoring_of
from tests.support.prometheus_programs import PROMTOOL, needs_promtool

SDK = importlib.util.find_spec("grafana_foundation_sdk")


def queries() -> Iterator[tuple[str, str]]:
    """Yield the title and expression of every panel, and the query of every variable."""
    for dashboard in dashboards():
        document = json.loads(content(dashboard))
        for panel in document["panels"]:
            yield f"{dashboard.name}: {panel['title']}", panel["targets"][0]["expr"]
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{dashboard.name}: ${variable['name']}", variable["query"]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_query_names_a_metric_that_is_not_recorded(version: str) -> None:
    recorded = {rule.record for rule in monitoring_of(version).recording}
    found = list(queries())
    assert len(found) > 40
    for title, expr in found:
        text = re.sub(r'"[^"]*"', '""', expr)
        named = set(re.findall(r"[a-zA-Z_]+:[a-zA-Z0-9_:]+", text))
        assert named | ({"ALERTS"} if "ALERTS" in text else set()), title
        assert named <= recorded, title
        assert not re.search(r"DCGM_|kube_", text), title


@needs_promtool
def test_alerts_that_always_fire_are_not_counted(tmp_path: Path) -> None:
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'ALERTS{{alertname="{alert}", alertstate="firing"}}', "values": "1x5"}
            for alert in ("Watchdog", "InfoInhibitor", "GpuLost")
        ],
        "promql_expr_test": [
            {
                "expr": dict(queries())["fleet: Alerts that fire"],
                "eval_time": "5m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", str(file)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": "checked", "expr": re.sub(r"\$\w+", "x", expr), "labels": {"query": str(number)}}
        for number, (_, expr) in enumerate(queries())
        if not expr.startswith("label_values(")
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "check", "rules", str(file)], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(SDK is None, reason="grafana-foundation-sdk is not installed: make install")
def test_the_files_are_what_the_sdk_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.dashboards", "--check"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        (None, {"ConfigMap"}),
        ("config-maps", {"ConfigMap"}),
        ("grafana-operator", {"ConfigMap", "GrafanaDashboard"}),
        ("none", set()),
    ],
)
def test_dashboards_are_loaded_by_a_sidecar_or_by_grafanas_operator(said: str | None, kinds: set[str]) -> None:
    platform: dict[str, Any] = {
        "kind": "environment",
        "cluster": {"provider": "sandbox"},
        "pools": [
            {"name": "train", "machine_type": "p5.48xlarge", "count": {"desired": 1}, "workload": "training"}
        ],
        "monitoring": {"dashboards": said} if said is not None else {},
    }
    loaded = LoadedStack("test", Path("test"), platform, plan_platform(platform, "test"))
    found = [
        one
        for one in record_stack(loaded, preview=False).resources
        if one.name.startswith("gpu-platform-dashboard-")
    ]
    assert {one.type.rpartition(":")[2] for one in found} == kinds
    assert len(found) == len(kinds) * len(dashboards())
    for one in found:
        if said != "grafana-operator":
            assert one.inputs["metadata"]["labels"] == {"grafana_dashboard": "1"}


def test_no_command_imports_the_sdk() -> None:
    load = "import sys, gpu_platform.stack.loaded as s; s.load_stack('local')"
    script = f"{load}; print('grafana_foundation_sdk' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "False"
