"""The resources that the components register for add-ons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import LoadedStack, plan_platform
from tests.stack.field_cases import STACKS
from tests.support.recorded import Recorded


def recorded(cloud: str, addons: dict[str, Any], tmp_path: Path) -> Recorded:
    platform = {**STACKS[cloud], "addons": addons}
    loaded = LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, plan_platform(platform, "test"))
    return Recorded(record_stack(loaded))


def test_a_chart_of_a_registry_and_one_of_a_repository_are_named_as_helm_needs_them(tmp_path: Path) -> None:
    found = recorded("eks", {"jobset": "install", "keda": "install"}, tmp_path)
    jobset, keda = found.one("Release", "jobset").inputs, found.one("Release", "keda").inputs
    assert (jobset["chart"], jobset["version"], jobset.get("repositoryOpts")) == (
        "oci://registry.k8s.io/jobset/charts/jobset",
        "0.12.0",
        None,
    )
    assert (keda["chart"], keda["repositoryOpts"]) == ("keda", {"repo": "https://kedacore.github.io/charts"})


def test_trainer_waits_for_jobset_and_scraping_for_the_prometheus_operator(tmp_path: Path) -> None:
    found = recorded("eks", {"trainer": "install", "prometheus": "install"}, tmp_path)
    trainer, jobset = found.one("Release", "kubeflow-trainer"), found.one("Release", "jobset")
    assert jobset.urn in trainer.dependencies
    prometheus = found.one("Release", "kube-prometheus-stack")
    monitors = [one for one in found.resources if one.type.endswith(":ServiceMonitor")]
    assert monitors
    assert all(prometheus.urn in one.dependencies for one in monitors)


def test_the_gateway_has_a_class_and_present_parts_are_left_out(tmp_path: Path) -> None:
    found = recorded("existing", {"gateway": "install", "keda": "present"}, tmp_path)
    (gateway_class,) = [one for one in found.resources if one.type.endswith(":GatewayClass")]
    assert gateway_class.inputs["metadata"]["name"] == "platform"
    assert not [one for one in found.of("Release") if one.name == "keda"]


def test_without_addons_nothing_is_registered(tmp_path: Path) -> None:
    assert not [one for one in recorded("eks", {}, tmp_path).resources if one.type == "gpu-platform:index:Addons"]
