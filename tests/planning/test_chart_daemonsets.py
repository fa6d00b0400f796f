"""Helm waits until a changed DaemonSet runs on all nodes, so charts replace its pods in a few steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning.addons.known import KNOWN
from gpu_platform.planning.clouds.eks.efa import dranet, efa_device_plugin
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import load_stack


def eks_plan() -> EnvironmentPlan:
    plan = load_stack("eks-training").plan
    assert isinstance(plan, EnvironmentPlan)
    return plan


def values_with_a_daemonset() -> Mapping[str, Mapping[str, Any]]:
    plan, catalog = eks_plan(), load_catalog()
    return {
        "feature discovery": plan.operator.helm_values["node-feature-discovery"]["worker"],
        "EFA device plugin": efa_device_plugin(plan.pools, "us-east-2", catalog).values,
        "EFA DRA driver": dranet(plan.pools, "us-east-2", catalog).values,
        "node exporter": KNOWN["prometheus"].values["prometheus-node-exporter"],
    }


@pytest.mark.parametrize("chart", ["feature discovery", "EFA device plugin", "EFA DRA driver", "node exporter"])
def test_a_daemonset_of_a_chart_is_updated_in_ten_steps(chart: str) -> None:
    strategy = values_with_a_daemonset()[chart]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
