"""Helm values that depend on the size of a cluster, and what its owner may change about them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_platform.base.errors import BadInput
from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.catalog import load_catalog
from tests.support.recorded import record_platform

# The memory of these pods does not follow the number of nodes, or their limit is enough for 1,000 nodes.
FIXED = {"Node Feature Discovery", "KEDA's metrics server", "KEDA's webhooks", "Envoy Gateway"}


def values_of(most: int, system: str = "m7i.xlarge", **charts: Any) -> dict[str, Any]:
    """Return the Helm values of eks-training by chart, with `most` as the maximum of its largest pool."""
    document = yaml.safe_load((STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8"))
    platform = document["config"]["gpu-platform:platform"]
    platform["pools"][1]["count"]["max"] = most
    platform["cluster"]["create"]["system"]["machine_types"] = [system]
    resources = record_platform({**platform, "charts": charts}).resources
    return {one.name: one.inputs.get("values") for one in resources if one.type == "kubernetes:helm.sh/v3:Release"}


def test_memory_grows_with_the_nodes_of_the_pools() -> None:
    small, large = values_of(10), values_of(500, "m7i.4xlarge")
    assert small["cluster-autoscaler"]["resources"]["limits"] == {"memory": "600Mi"}
    assert large["cluster-autoscaler"]["resources"]["limits"] == {"memory": "2048Mi"}
    assert large["cluster-autoscaler"]["resources"]["requests"] == {"cpu": "100m", "memory": "2048Mi"}
    assert large["karpenter"]["controller"]["resources"]["limits"] == {"memory": "2048Mi"}
    assert large["kueue"]["controllerManager"]["manager"]["resources"]["limits"] == {"memory": "2048Mi"}
    assert large["gpu-operator"]["operator"]["resources"]["limits"] == {"cpu": "500m", "memory": "1024Mi"}
    prometheus = large["kube-prometheus-stack"]["prometheus"]["prometheusSpec"]["resources"]
    assert prometheus["limits"] == {"memory": "32768Mi"}


def test_more_nodes_within_the_same_power_of_two_change_no_release() -> None:
    assert values_of(150, "m7i.4xlarge") == values_of(200, "m7i.4xlarge")


def test_system_nodes_without_room_for_the_memory_are_refused() -> None:
    with pytest.raises(BadInput, match="not enough room for Prometheus"):
        values_of(500)


def test_resources_of_the_stack_file_replace_those_of_the_program() -> None:
    own = {"requests": {"memory": "3Gi"}, "limits": {"memory": "6Gi"}}
    prometheus = {"values": {"prometheus": {"prometheusSpec": {"resources": own}}}}
    for nodes in (10, 500):
        found = values_of(nodes, **{"kube-prometheus-stack": prometheus})["kube-prometheus-stack"]
        assert found["prometheus"]["prometheusSpec"]["resources"] == {
            "requests": {"cpu": "500m", "memory": "3Gi"},
            "limits": {"memory": "6Gi"},
        }


def test_an_update_strategy_of_the_stack_file_replaces_the_programs() -> None:
    own = {"rollingUpdate": {"maxUnavailable": "30%"}}
    worker = {"values": {"node-feature-discovery": {"worker": {"updateStrategy": own}}}}
    found = values_of(10, **{"gpu-operator": worker})["gpu-operator"]["node-feature-discovery"]["worker"]
    assert found["updateStrategy"] == {"type": "RollingUpdate", **own}


def test_each_limit_of_a_chart_grows_or_is_known_not_to() -> None:
    limited = {
        pod.name
        for controller in load_catalog().controllers.values()
        for pod in controller.pods
        if pod.limit_memory_mib is not None and pod.memory_mib_per_node is None
    }
    assert limited == FIXED
