"""Helm values of the GPU Operator that NVIDIA's recipes set, on new EKS and GKE clusters."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.components.company_shapes import shape
from tests.support.recorded import Recorded

# Each stack has a training pool with RDMA. On EKS it uses AL2023, on GKE COS and the operator's device plugin.
BY_CLOUD = {"eks": "existing-vpc", "gke": "shared-vpc"}
each_cloud = pytest.mark.parametrize("cloud", BY_CLOUD)


@cache
def recorded(cloud: str) -> Recorded:
    stack = shape(BY_CLOUD[cloud])
    return Recorded(
        record_stack(LoadedStack("shop", Path("Pulumi.shop.yaml"), stack, plan_platform(stack, "shop")))
    )


def values(cloud: str) -> dict[str, Any]:
    [release] = [one for one in recorded(cloud).of("Release") if one.inputs["chart"] == "gpu-operator"]
    return dict(release.inputs["values"])


def variables(component: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in component.get("env", ())}


@each_cloud
def test_the_device_plugin_hands_devices_over_by_cdi_as_the_operator_sets_it(cloud: str) -> None:
    """With `cdi.enabled: true`, the default in chart v26.7.0, the operator sets the strategies
    `cdi-annotations` and `cdi-cri`.

    Source: NVIDIA/gpu-operator v26.7.0, deployments/gpu-operator/values.yaml and controllers/object_controls.go.
    """
    plugin = values(cloud)["devicePlugin"]
    assert plugin["enabled"] is True
    assert values(cloud)["cdi"] == {"enabled": True}
    assert "DEVICE_LIST_STRATEGY" not in variables(plugin)
    for text in configuration_of_the_plugin(cloud).values():
        assert "deviceListStrategy" not in yaml.safe_load(text)["flags"].get("plugin", {})


@each_cloud
def test_the_device_plugin_keeps_its_default_health_checks(cloud: str) -> None:
    plugin = values(cloud)["devicePlugin"]
    assert plugin["enabled"] is True
    assert "DP_DISABLE_HEALTHCHECKS" not in variables(plugin)


def test_the_toolkit_ignores_the_gpu_variable_of_unprivileged_pods() -> None:
    toolkit = values("gke")["toolkit"]
    assert toolkit["enabled"] is True
    assert variables(toolkit)["ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"] == "false"


@each_cloud
def test_admission_refuses_pods_of_teams_that_ask_for_gpus_by_a_variable(cloud: str) -> None:
    """EKS node images contain the toolkit and its settings. The admission policy applies on every cloud."""
    assert values("eks")["toolkit"] == {"enabled": False}
    rules = [
        one
        for one in recorded(cloud).of("ValidatingAdmissionPolicy")
        if "NVIDIA_VISIBLE_DEVICES" in str(one.inputs)
    ]
    assert rules
    bindings = recorded(cloud).of("ValidatingAdmissionPolicyBinding")
    bound = {str(one.inputs["spec"]["policyName"]) for one in bindings if one.inputs["spec"]["validationActions"]}
    assert any(one.inputs["metadata"]["name"] in bound for one in rules)


def test_gdrcopy_is_enabled_for_training_on_eks_but_not_on_gke() -> None:
    assert values("eks")["gdrcopy"] == {"enabled": True}
    assert "gdrcopy" not in values("gke")


def configuration_of_the_plugin(cloud: str) -> dict[str, str]:
    name = values(cloud)["devicePlugin"]["config"]["name"]
    [found] = [one for one in recorded(cloud).of("ConfigMap") if one.inputs["metadata"]["name"] == name]
    return dict(found.inputs["data"])
