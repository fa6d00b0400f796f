"""Services that scale by metrics of their pods, which Prometheus must be able to read."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
PROMETHEUS = [{"namespace": "monitoring", "ports": [8000]}]
GATEWAY = [{"namespace": "envoy-gateway-system", "ports": [8000]}]
WAITING = 'sum(vllm:num_requests_waiting{namespace="search"})'


def warnings(query: str, ingress: list[dict[str, Any]], **scaling: Any) -> list[str]:
    scaling = {"max_replicas": 2, "query": query, "threshold": 5, **scaling}
    service = {"name": "chat", "pool": "train", "image": "registry.example.com/chat:2.1", "port": 8000}
    own = team(quota={"gpus": 8}, ingress=ingress, inference_services=[{**service, "autoscaling": scaling}])
    addons = {"keda": "install", "prometheus": "install"}
    nodes = pool(machine_type="p5.48xlarge", zones=["us-east-2a"])
    plan = plan_platform(environment(nodes, cluster=EKS, addons=addons, teams=[own]), "test")
    assert plan.kind == "environment"
    return [f"{one.chosen}; {one.why}" for one in plan.decisions if one.what == "warning: autoscaling"]


@pytest.mark.parametrize("query", [WAITING, "sum(inference_requests_waiting)", "scalar(up)"])
def test_check_warns_if_prometheus_may_not_read_the_metric_of_a_service(query: str) -> None:
    (warning,) = warnings(query, GATEWAY)
    assert "namespace monitoring may not connect" in warning
    assert "write ingress: [{namespace: monitoring, ports: [8000]}]" in warning


def test_a_service_whose_metric_prometheus_may_read_has_no_warning() -> None:
    assert not warnings(WAITING, [*GATEWAY, *PROMETHEUS])


@pytest.mark.parametrize("metric", ["gpu:active:ratio", "kafka_consumergroup_lag", "DCGM_FI_DEV_GPU_UTIL"])
def test_metrics_from_other_namespaces_need_no_access_to_the_pods(metric: str) -> None:
    assert not warnings(f'sum(avg by (pod) ({metric}{{pod=~"chat-.*"}}))', GATEWAY)
    assert warnings(f"sum({metric}{{}}) * count({WAITING})", GATEWAY)


def test_a_prometheus_of_the_owner_may_be_in_any_namespace() -> None:
    assert not warnings(WAITING, GATEWAY, server="http://thanos.obs.svc:9090")
