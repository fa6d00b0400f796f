"""Answers to the AI Conformance checklist, derived from plans and from objects in a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from extensions.reports.conformance import answers, observe, product_file
from extensions.reports.conformance.answers import Answer, Status, unmet
from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.catalog import load_catalog
from gpu_platform.cli.app import main
from gpu_platform.stack.loaded import load_stack, plan_platform
from tests.stack.field_cases import STACKS

STACK_FILES = sorted((PROJECT_ROOT / "stacks").glob("Pulumi.*.yaml"))
CHECKLIST = load_catalog().ai_conformance["1.37"]


def answered(cloud: str, **rest: Any) -> dict[str, Answer]:
    plan = plan_platform({**STACKS[cloud], **rest}, "test")
    assert plan.kind == "environment"
    return {answer.requirement.id: answer for answer in answers(plan, CHECKLIST)}


def test_every_requirement_of_the_checklist_has_an_answer_of_its_own() -> None:
    found = answered("eks")
    assert list(found) == [one.id for one in CHECKLIST.requirements]
    assert not [one for one in found.values() if "does not know" in one.missing]


@pytest.mark.parametrize(
    ("requirement", "edit"),
    [
        ("ai_inference", {"addons": {"gateway": "install"}}),
        ("gang_scheduling", {"queueing": {}}),
        ("robust_controller", {"addons": {"trainer": "install"}}),
        ("robust_controller", {"addons": {"kuberay": "present"}}),
        ("pod_autoscaling", {"addons": {"keda": "install", "prometheus": "install"}}),
    ],
)
def test_what_is_missing_is_met_by_the_edit_that_the_answer_names(requirement: str, edit: dict[str, Any]) -> None:
    before = answered("existing")[requirement]
    assert before.status is not Status.IMPLEMENTED
    assert before.missing
    after = answered("existing", **edit)[requirement]
    assert (after.status, after.missing) == (Status.IMPLEMENTED, "")


def test_pods_cannot_be_scaled_by_metrics_that_no_prometheus_collects() -> None:
    unscraped = {"addons": {"keda": "install"}, "monitoring": {"prometheus_operator": False}}
    found = answered("existing", **unscraped)["pod_autoscaling"]
    assert (found.status, found.missing) == (
        Status.PARTIAL,
        "write addons: {keda: install, prometheus: install}",
    )


def test_agents_provide_gpu_metrics_without_the_operators_exporter() -> None:
    cluster = {**STACKS["existing"]["cluster"], "parts": {"dcgm_exporter": "present"}}
    without = answered("existing", cluster=cluster)["accelerator_metrics"]
    found = answered("existing", cluster=cluster, validation={"metrics": True})["accelerator_metrics"]
    assert (without.status, found.status) == (Status.PARTIAL, Status.IMPLEMENTED)
    assert found.objects
    assert all(one.name.startswith("validate-") for one in found.objects)


def test_a_rule_at_admission_is_shown_by_its_policy_and_its_binding() -> None:
    objects = answered("existing")["secure_accelerator_access"].objects
    team = STACKS["existing"]["teams"][0]["name"]
    assert [(one.kind, one.name) for one in objects if one.name == f"pods-of-{team}"] == [
        ("ValidatingAdmissionPolicy", f"pods-of-{team}"),
        ("ValidatingAdmissionPolicyBinding", f"pods-of-{team}"),
    ]


@pytest.mark.parametrize(
    "stack", ["aks-training", "eks-monitoring", "eks-training", "gke-monitoring", "gke-training"]
)
def test_the_shipped_stacks_of_clouds_meet_every_must(stack: str) -> None:
    loaded = load_stack(stack)
    assert loaded.plan.kind == "environment"
    assert unmet(answers(loaded.plan, CHECKLIST)) == ()


def test_these_are_all_shipped_stacks_of_clouds() -> None:
    plans = {path.name.split(".")[1]: load_stack(str(path)).plan for path in STACK_FILES}
    clouds = [
        name for name, plan in plans.items() if plan.kind == "environment" and plan.cluster.cloud is not None
    ]
    assert sorted(clouds) == ["aks-training", "eks-monitoring", "eks-training", "gke-monitoring", "gke-training"]


def test_networks_that_pods_join_for_gpudirect_are_a_fabric() -> None:
    loaded = load_stack("gke-training")
    assert loaded.plan.kind == "environment"
    found = {one.requirement.id: one for one in answers(loaded.plan, CHECKLIST)}["high_performance_networking"]
    assert found.status is Status.PARTIAL
    assert "networks of tcpxo" in " ".join(found.by)


def test_the_owner_of_the_container_toolkit_is_named_correctly() -> None:
    assert any("toolkit of image" in by for by in answered("eks")["secure_accelerator_access"].by)


def test_sharing_is_met_by_a_pool_that_shares() -> None:
    pool = {
        **STACKS["existing"]["pools"][0],
        "workload": "inference",
        "sharing": {"mode": "time-slicing", "replicas": 2},
    }
    teams = [{**STACKS["existing"]["teams"][0], "quota": {}, "workloads": [], "claims": []}]
    assert answered("existing", pools=[pool], teams=teams)["gpu_sharing"].by == (
        f"pool {pool['name']}: time-slicing",
    )


def test_autoscaling_is_the_owners_answer_if_nodes_exist_already() -> None:
    assert answered("existing")["cluster_autoscaling"].status is Status.NOT_APPLICABLE


class FakeCluster:
    """A fake cluster. `objects` maps kinds and names to objects."""

    def __init__(self, **objects: Mapping[str, Any]) -> None:
        self._objects = objects

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        return self._objects.get(f"{kind}_{namespace}_{name}".replace("-", "_"))


def test_a_controller_that_the_cluster_does_not_run_is_met_in_part() -> None:
    (answer,) = [
        one for one in answered("existing", queueing={}).values() if one.requirement.id == "gang_scheduling"
    ]
    (seen,) = observe([answer], FakeCluster())
    assert seen.status is Status.PARTIAL
    assert "kueue-controller-manager is missing" in seen.missing
    running = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    (seen,) = observe([answer], FakeCluster(Deployment_kueue_system_kueue_controller_manager=running))
    assert (seen.status, seen.observed) == (
        Status.IMPLEMENTED,
        ("Deployment kueue-system/kueue-controller-manager: True",),
    )
    waiting = {"status": {"conditions": [{"type": "Available", "status": "False"}]}}
    (seen,) = observe([answer], FakeCluster(Deployment_kueue_system_kueue_controller_manager=waiting))
    assert seen.status is Status.PARTIAL


def test_the_product_file_has_the_published_ids_and_levels() -> None:
    document = yaml.safe_load(product_file(CHECKLIST, list(answered("eks").values())))
    written = [
        (area, one["id"], one["level"], one["description"])
        for area, items in document["spec"].items()
        for one in items
    ]
    assert written == [(one.area, one.id, one.level, one.description) for one in CHECKLIST.requirements]
    assert document["metadata"]["kubernetesVersion"] == "v1.37"


def test_the_command_fails_while_a_must_is_not_met_and_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["conformance", "local", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert stop.value.code == 1
    assert "ai_inference" in document["unmet"]
    musts = {one["id"] for one in document["answers"] if one["level"] == "MUST"}
    assert set(document["unmet"]) <= musts


def test_a_teams_stack_is_sent_to_its_environment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["conformance", "speech"])
    assert stop.value.code == 2
    assert "gpu-platform conformance local" in capsys.readouterr().err


def test_the_descriptions_are_whole(tmp_path: Path) -> None:
    assert all(
        one.description.endswith((".", ")")) and "  " not in one.description for one in CHECKLIST.requirements
    )
