"""The objects in the stack file of examples/jobs satisfy the policy pack and the CRDs of their kinds.

tests/extensions/training/torch_needed/test_examples.py runs the programs of these jobs, and
tests/e2e/test_run_job_examples.py runs their pods.
"""

from __future__ import annotations

import ast
import datetime
import re
from typing import Any

import pytest
import yaml

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.program import record_stack
from gpu_platform.stack.loaded import load_stack
from policies import evaluate
from tests.support.definitions import CRDS, unknown_fields
from tests.support.recorded import Recorded
from tests.support.restricted import violations

JOBS = PROJECT_ROOT / "examples" / "jobs"
KINDS = {
    "finetune-ddp": "TrainingJob",
    "finetune-fsdp": "TrainingJob",
    "answers": "InferenceService",
    "sweep": "BatchJob",
    "tune": "RayCluster",
    "notebook": "Notebook",
}


@pytest.fixture(scope="module")
def found() -> Recorded:
    return Recorded(record_stack(load_stack(str(JOBS / "Pulumi.jobs.yaml"))))


def manifests(found: Recorded) -> list[dict[str, Any]]:
    """Return the objects of the examples."""
    inputs = [dict(one.inputs) for one in found.resources if "kind" in one.inputs]
    return [one for one in inputs if one["metadata"].get("namespace") == "research" and _name(one) in KINDS]


def _name(one: dict[str, Any]) -> str:
    return one["metadata"].get("labels", {}).get("app.kubernetes.io/name", "")


def pod_specs(value: Any) -> list[dict[str, Any]]:
    """Return all pod specs in an object."""
    if isinstance(value, list):
        return [spec for one in value for spec in pod_specs(one)]
    if not isinstance(value, dict):
        return []
    own = [value] if "containers" in value else []
    return [*own, *(spec for one in value.values() for spec in pod_specs(one))]


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_each_example_is_a_component_of_its_kind(found: Recorded, name: str, kind: str) -> None:
    assert [one for one in found.of(kind) if one.name.endswith(name)]


def test_the_policy_pack_finds_nothing(found: Recorded) -> None:
    report = evaluate([one.to_json() for one in found.resources], {}, datetime.date(2026, 11, 25))
    assert [f"{one.rule}: {one}" for one in report.violations] == []
    assert {_name(one) for one in manifests(found)} == set(KINDS)


def test_pods_of_the_examples_satisfy_pod_security_restricted(found: Recorded) -> None:
    specs = [spec for one in manifests(found) for spec in pod_specs(one)]
    assert len(specs) == len(KINDS) + 1  # the example with a Ray cluster has two pod templates
    assert [violations(spec) for spec in specs] == [[]] * len(specs)


@pytest.mark.skipif(not CRDS, reason="GPU_PLATFORM_CRDS is not set to a folder with CRDs")
@pytest.mark.parametrize(
    ("kind", "file"), [("RayCluster", "ray.io_rayclusters"), ("ScaledObject", "keda.sh_scaledobjects")]
)
def test_custom_objects_have_only_fields_of_their_crds(found: Recorded, kind: str, file: str) -> None:
    (one,) = [one for one in manifests(found) if one["kind"] == kind]
    assert unknown_fields(one, file) == []


def test_the_service_scales_by_a_metric_that_its_server_has(found: Recorded) -> None:
    (one,) = [one for one in manifests(found) if one["kind"] == "ScaledObject"]
    (metric,) = re.findall(r"\w+_requests_waiting", one["spec"]["triggers"][0]["metadata"]["query"])
    assert f'"{metric}"' in (JOBS / "serve.py").read_text("utf-8")
    assert one["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "answers"}


def test_prometheus_may_reach_the_service_and_finds_its_port(found: Recorded) -> None:
    monitor = yaml.safe_load((JOBS / "podmonitor.yaml").read_text("utf-8"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (deployment,) = [one for one in manifests(found) if one["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (port,) = [one for one in template["spec"]["containers"][0]["ports"] if one["name"] == endpoint["port"]]
    assert f'self.path == "{endpoint["path"]}"' in (JOBS / "serve.py").read_text("utf-8")
    allowed = [
        (rule["from"][0]["namespaceSelector"]["matchLabels"], rule["ports"][0]["port"])
        for one in found.of("NetworkPolicy")
        if one.inputs["metadata"].get("namespace") == "research"
        for rule in one.inputs["spec"].get("ingress", ())
        if rule.get("ports") and "namespaceSelector" in rule["from"][0]
    ]
    assert ({"kubernetes.io/metadata.name": "monitoring"}, port["containerPort"]) in allowed
    if CRDS:
        assert unknown_fields(monitor, "monitoring.coreos.com_podmonitors") == []


def test_the_image_has_every_program_that_a_command_names(found: Recorded) -> None:
    programs = {path.name for path in JOBS.glob("*.py")}
    named = {
        word.removesuffix(":main") + (".py" if word.endswith(":main") else "")
        for one in manifests(found)
        for spec in pod_specs(one)
        for container in spec["containers"]
        for word in container.get("command", ())
        if word.endswith((".py", ":main"))
    }
    assert named == {"finetune.py", "serve.py", "sweep.py"} < programs
    assert "COPY examples/jobs/*.py" in (JOBS / "Dockerfile").read_text("utf-8")


def test_the_version_of_ray_is_that_of_the_image_and_of_the_tests(found: Recorded) -> None:
    (one,) = [one for one in manifests(found) if one["kind"] == "RayCluster"]
    version = one["spec"]["rayVersion"]
    assert f'"ray[default]=={version}"' in (JOBS / "Dockerfile").read_text("utf-8")
    assert f"ray=={version}" in (PROJECT_ROOT / "Makefile").read_text("utf-8")


def test_the_sweep_has_a_part_for_each_of_its_settings(found: Recorded) -> None:
    (job,) = [one for one in manifests(found) if one["kind"] == "Job" and _name(one) == "sweep"]
    (lists,) = re.findall(r"itertools\.product\((.*)\)\n", (JOBS / "sweep.py").read_text("utf-8"))
    settings = 1
    for choices in ast.literal_eval(f"({lists})"):
        settings *= len(choices)
    assert job["spec"]["completions"] == settings
