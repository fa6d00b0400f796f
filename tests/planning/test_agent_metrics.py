"""`validation.metrics`: Prometheus scrapes and records the agent's metrics, and teams' pods cannot read them."""

from __future__ import annotations

import base64
import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.planning.monitoring.rules import rule_groups
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.support.prometheus_programs import PROMTOOL, needs_promtool
from tests.support.recorded import Recorded

ADMIN = "arn:aws:iam::123456789012:role/admin"
CLUSTERS: dict[str, dict[str, Any]] = {
    "operator": {"provider": "existing", "context": "lab"},
    "none": {"provider": "eks", "name": "ml", "region": "us-east-2", "create": {"admins": [ADMIN]}},
    "google": {"provider": "gke", "project": "my-project", "name": "ml", "location": "us-central1", "create": {}},
}


def stack(scraper: str, *, metrics: bool = True) -> dict[str, Any]:
    pool: dict[str, Any] = {"name": "train", "count": {"desired": 1, "max": 1}, "workload": "inference"}
    match scraper:
        case "operator":
            pool |= {"machine_type": "g6.4xlarge", "nodes": {"selector": {"gpu": "train"}}}
        case "none":
            pool |= {"machine_type": "g6.4xlarge", "zones": ["us-east-2a"]}
        case _:
            pool |= {"machine_type": "g2-standard-4", "zones": ["us-central1-a"]}
    return {
        "kind": "environment",
        "cluster": CLUSTERS[scraper],
        "pools": [pool],
        "monitoring": {"interval": "30s", "labels": {"release": "prom"} if scraper == "operator" else {}},
        "validation": {"metrics": metrics},
    }


def planned(platform: dict[str, Any]) -> EnvironmentPlan:
    found = plan_platform(platform, "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def recorded(platform: dict[str, Any], tmp_path: Path) -> Recorded:
    return Recorded(record_stack(LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, planned(platform))))


def template(found: Recorded) -> dict[str, Any]:
    return dict(found.one("DaemonSet", "validate-train").inputs["spec"]["template"])


def program(found: Recorded) -> zipfile.ZipFile:
    [name] = [one.name for one in found.of("ConfigMap") if one.name.startswith("gpu-node-agent-")]
    data = found.one("ConfigMap", name).inputs["binaryData"]["agent.pyz"]
    return zipfile.ZipFile(io.BytesIO(base64.b64decode(data)))


@pytest.mark.parametrize(
    ("scraper", "kind"), [("operator", "PodMonitor"), ("none", None), ("google", "PodMonitoring")]
)
def test_whoever_scrapes_the_cluster_scrapes_the_agents(tmp_path: Path, scraper: str, kind: str | None) -> None:
    found = recorded(stack(scraper), tmp_path)
    pod = template(found)
    [port] = pod["spec"]["containers"][0]["ports"]
    assert port == {"name": "gpu-metrics", "containerPort": 9401}
    annotations = pod["metadata"].get("annotations")
    monitors = [one for one in found.resources if one.name == "gpu-node-validation-metrics"]
    if kind is None:
        assert not monitors
        assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": "9401"}
        return
    assert annotations is None
    [monitor] = monitors
    assert monitor.inputs["kind"] == kind
    metadata, spec = monitor.inputs["metadata"], monitor.inputs["spec"]
    assert metadata["namespace"] == names.VALIDATION_NAMESPACE
    assert pod["metadata"]["labels"].items() >= spec["selector"]["matchLabels"].items()
    [endpoint] = spec["podMetricsEndpoints" if kind == "PodMonitor" else "endpoints"]
    assert (endpoint["port"], endpoint["interval"]) == ("gpu-metrics", "30s")
    if kind == "PodMonitor":
        assert metadata["labels"] == {"release": "prom"}
        assert endpoint["relabelings"] == [
            {"sourceLabels": ["__meta_kubernetes_pod_label_gpu_platform_dev_pool"], "targetLabel": "pool"}
        ]
    else:
        assert spec["targetLabels"] == {"fromPod": [{"from": names.POOL_LABEL, "to": "pool"}]}


def test_pods_of_teams_reach_neither_port_and_others_only_the_metrics(tmp_path: Path) -> None:
    policy = recorded(stack("operator"), tmp_path).one("NetworkPolicy", names.VALIDATION_APP).inputs["spec"]
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"port": 9401, "protocol": "TCP"}]
    [peer] = rule["from"]
    assert peer == {
        "namespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "DoesNotExist"}]}
    }
    closed = recorded(stack("operator", metrics=False), tmp_path).one("NetworkPolicy", names.VALIDATION_APP)
    assert "ingress" not in closed.inputs["spec"]


def test_without_metrics_the_agent_is_the_one_that_needs_no_library(tmp_path: Path) -> None:
    found = recorded(stack("operator", metrics=False), tmp_path)
    container = template(found)["spec"]["containers"][0]
    assert "ports" not in container
    assert "--metrics-port" not in container["command"]
    assert not [name for name in program(found).namelist() if "prometheus" in name.lower()]
    assert not [one for one in found.resources if one.name == "gpu-node-validation-metrics"]


def test_the_agent_with_metrics_fits_a_config_map_with_its_library(tmp_path: Path) -> None:
    archive = program(recorded(stack("operator"), tmp_path))
    wanted = {"prometheus_client/registry.py", "PROMETHEUS-CLIENT-LICENSE.txt", "PROMETHEUS-CLIENT-NOTICE.txt"}
    assert wanted <= set(archive.namelist())
    assert sum(one.file_size for one in archive.infolist()) < 900 * 1024


@needs_promtool
def test_recorded_values_are_from_dcgm_or_else_from_the_agent(tmp_path: Path) -> None:
    monitoring = planned(stack("operator")).monitoring
    assert monitoring is not None
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rule_groups(monitoring)}))
    gpu = 'gpu="0", UUID="GPU-{}", modelName="NVIDIA L4", pool="train"'
    with_dcgm, alone = gpu.format("a"), gpu.format("b")
    agent = 'GPU_I_ID="", GPU_I_PROFILE="", namespace="gpu-platform-validation", pod="validate-train-x"'
    held = 'hostname="n1", namespace="vision", pod="chat-0", container="main"'
    series = {
        f"DCGM_FI_DEV_GPU_TEMP{{{with_dcgm}, {held}}}": "40x5",
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{with_dcgm}, {held}}}": "0.5x5",
        f'gpu_temperature_celsius{{{with_dcgm}, node="n1", {agent}}}': "41x5",
        f'gpu_temperature_celsius{{{alone}, node="n2", {agent}}}': "60x5",
        f'gpu_utilization_percent{{{alone}, node="n2", {agent}}}': "80x5",
        f'gpu_memory_used_bytes{{{alone}, node="n2", {agent}}}': "6000x5",
        f'gpu_memory_size_bytes{{{alone}, node="n2", {agent}}}': "24000x5",
    }
    exporter = 'namespace="monitoring", pod="node-exporter-{}"'
    for node in (1, 2):
        series[f'kube_pod_info{{{exporter.format(node)}, node="n{node}"}}'] = "1x5"
        port = f'{exporter.format(node)}, device="mlx5_0", port="1"'
        series[f"node_infiniband_port_data_transmitted_bytes_total{{{port}}}"] = "0+2400x5"
    for device in ("a", "b"):
        series[f'fabric_transmitted_bytes_total{{node="n1", device="{device}", port="1", kind="efa"}}'] = "0+600x5"
    series['fabric_timeouts_total{node="n1", device="a", port="1", kind="efa"}'] = "0+60x5"
    sent, timeouts = "node:fabric_transmitted:bytes_per_second", "node:fabric_timeouts:per_second"
    seen: dict[str, list[tuple[str, float]]] = {
        # The metrics of each node have one source: the agent if it runs on the node, otherwise node_exporter.
        sent: [(f'{sent}{{node="n1"}}', 20), (f'{sent}{{node="n2"}}', 40)],
        timeouts: [(f'{timeouts}{{node="n1"}}', 1)],
        "sum by (node) (gpu:temperature:celsius)": [('{node="n1"}', 40), ('{node="n2"}', 60)],
        "sum by (node) (gpu:active:ratio)": [('{node="n1"}', 0.5), ('{node="n2"}', 0.8)],
        "sum by (node) (gpu:memory_used:ratio)": [('{node="n2"}', 0.25)],
        "pool:gpus:count": [('pool:gpus:count{pool="train"}', 2)],
        # The agent's pod does not hold a GPU.
        "pool:gpus_held:count": [('pool:gpus_held:count{pool="train"}', 1)],
    }
    document = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": value} for key, value in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expr,
                        "eval_time": "5m",
                        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
                    }
                    for expr, samples in seen.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document))
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
