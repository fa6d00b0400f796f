"""The resources that the components register for a stack with queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.base import names
from gpu_platform.catalog import load_catalog
from gpu_platform.deploy.recorded.objects import only_pulumi_can_deploy
from gpu_platform.planning.clouds.parts import InstalledPart, part_problems
from gpu_platform.planning.queues import queue_parts
from gpu_platform.program import record_stack
from gpu_platform.stack import CONFIG_KEY
from gpu_platform.stack.loaded import LoadedStack, load_stack, plan_platform
from tests.stack.field_cases import STACKS
from tests.support.recorded import Recorded


def queued(provider: str = "sandbox", **rest: Any) -> dict[str, Any]:
    stack = STACKS[provider]
    granted = {**stack["teams"][0], "quota": {"gpus": 8}}
    return {**stack, "queueing": {}, "teams": [granted], **rest}


def recorded(platform: dict[str, Any], tmp_path: Path) -> Recorded:
    loaded = LoadedStack("test", tmp_path / "Pulumi.test.yaml", platform, plan_platform(platform, "test"))
    return Recorded(record_stack(loaded))


def test_without_queueing_nothing_of_kueue_is_registered(tmp_path: Path) -> None:
    found = recorded({**queued(), "queueing": None}, tmp_path)
    assert not any("kueue" in record.type or "kueue" in record.urn for record in found.resources)


def test_a_cloud_gets_the_pinned_chart_in_a_separate_namespace(tmp_path: Path) -> None:
    release = recorded(queued("eks"), tmp_path).one("Release", "kueue").inputs
    assert (release["chart"], release["version"], release["namespace"]) == (
        "oci://registry.k8s.io/kueue/charts/kueue",
        "0.19.2",
        "kueue-system",
    )


def test_a_sandbox_configures_its_kueue_and_the_engine_waits_for_it(
    tmp_path: Path,
) -> None:
    found = recorded(queued(), tmp_path)
    assert not found.has("Release")
    config = found.one("ConfigMap", "kueue-manager-config").inputs
    assert json.loads(config["data"]["controller_manager_config.yaml"])["kind"] == "Configuration"
    assert config["metadata"]["annotations"] == {"pulumi.com/waitFor": "jsonpath={.data.running}=true"}
    assert not only_pulumi_can_deploy(found.resources)


def test_kueue_that_is_present_is_not_installed_and_the_queues_are_registered(tmp_path: Path) -> None:
    found = recorded(queued("existing", queueing={"kueue": "present"}), tmp_path)
    assert not [record for record in found.of("Release") if record.name == "kueue"]
    assert found.one("ClusterQueue", "vision")


def test_a_cluster_queue_admits_only_its_team_and_lists_every_limit(tmp_path: Path) -> None:
    spec = recorded(queued(), tmp_path).one("ClusterQueue", "vision").inputs["spec"]
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "vision"}}
    (group,) = spec["resourceGroups"]
    for flavor in group["flavors"]:
        assert [one["name"] for one in flavor["resources"]] == group["coveredResources"]
        assert all(
            set(one) == {"name", "nominalQuota", "borrowingLimit", "lendingLimit"} for one in flavor["resources"]
        )
    assert spec["preemption"] == {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def test_a_resource_quota_allows_borrowing_and_remembers_the_quota(tmp_path: Path) -> None:
    quota = recorded(queued(), tmp_path).one("ResourceQuota", "gpu-quota").inputs
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "16"
    assert (
        json.loads(quota["metadata"]["annotations"]["gpu-platform.dev/granted"])["requests.nvidia.com/gpu"] == "8"
    )


def test_declared_workloads_name_their_queue_and_wait_for_it(tmp_path: Path) -> None:
    platform = queued()
    platform["teams"][0]["workloads"] = [{"name": "pretrain", "pool": "train", "gpus": 4}]
    found = recorded(platform, tmp_path)
    deployment = found.one("Deployment", "vision/pretrain")
    labels = deployment.inputs["spec"]["template"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "default"
    assert found.one("LocalQueue", "default").urn in deployment.dependencies
    assert "kueue.x-k8s.io/queue-name" not in deployment.inputs["spec"]["selector"]["matchLabels"]


def test_members_read_their_queue_and_change_nothing_of_it(tmp_path: Path) -> None:
    found = recorded(queued(), tmp_path)
    (rule,) = found.one("Role", "queue-viewer").inputs["rules"]
    assert rule["verbs"] == ["get", "list", "watch"]
    verbs = [
        set(rule["verbs"])
        for role in found.of("Role")
        if role.inputs["metadata"]["namespace"] == "vision"
        for rule in role.inputs["rules"]
        if "kueue.x-k8s.io" in rule["apiGroups"]
    ]
    assert verbs
    assert all(one == {"get", "list", "watch"} for one in verbs)


@pytest.mark.parametrize(
    ("held", "awaited"),
    [
        ('{"vision": {"ClusterQueue": "Hold"}}', {"pulumi.com/skipAwait": "true"}),
        ('{"search": {"ClusterQueue": "Hold"}}', {"pulumi.com/waitFor": "condition=Active"}),
        ("{", {"pulumi.com/waitFor": "condition=Active"}),
    ],
)
def test_pulumi_does_not_wait_for_held_queues(
    held: str, awaited: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.HELD_VARIABLE, held)
    found = recorded(queued(), tmp_path)
    for kind, name in (("ClusterQueue", "vision"), ("LocalQueue", "default")):
        assert found.one(kind, name).inputs["metadata"]["annotations"] == awaited


def test_queues_that_somebody_holds_stay_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi's provider takes over the fields that kubectl set, and removes those that the program does not
    declare.
    """
    monkeypatch.setenv(names.HELD_VARIABLE, '{"vision": {"ClusterQueue": "Hold"}, "search": {}}')
    found = recorded(queued(), tmp_path)
    assert found.one("ClusterQueue", "vision").inputs["spec"]["stopPolicy"] == "Hold"
    assert "stopPolicy" not in found.one("LocalQueue", "default").inputs["spec"]
    monkeypatch.setenv(names.HELD_VARIABLE, '{"vision": {"LocalQueue": "HoldAndDrain"}}')
    found = recorded(queued(), tmp_path)
    assert found.one("LocalQueue", "default").inputs["spec"]["stopPolicy"] == "HoldAndDrain"
    assert "stopPolicy" not in found.one("ClusterQueue", "vision").inputs["spec"]


def test_workload_priority_classes_are_the_priority_classes(tmp_path: Path) -> None:
    found = recorded(queued(priorities={"urgent": 5000}), tmp_path)
    values = {
        kind: {one.inputs["metadata"]["name"]: one.inputs["value"] for one in found.of(kind)}
        for kind in ("PriorityClass", "WorkloadPriorityClass")
    }
    assert (
        values["PriorityClass"]
        == values["WorkloadPriorityClass"]
        == {
            "training": 100,
            "inference": 1000,
            "urgent": 5000,
        }
    )


def test_a_team_stack_has_its_queue_and_installs_nothing(tmp_path: Path) -> None:
    environment = {**queued(queueing={"reserve": {"gpus": 8}}), "teams": []}
    (tmp_path / "Pulumi.shared.yaml").write_text(yaml.safe_dump({"config": {CONFIG_KEY: environment}}))
    team = {"kind": "team", "environment": {"stack": "shared"}, "team": queued()["teams"][0]}
    file = tmp_path / "Pulumi.own.yaml"
    file.write_text(yaml.safe_dump({"config": {CONFIG_KEY: team}}))
    found = Recorded(record_stack(load_stack(str(file)), resolve_stack=lambda _: {"operator": "v26.7.0"}))
    assert found.one("ClusterQueue", "vision")
    assert found.one("LocalQueue", "default").inputs["metadata"]["namespace"] == "vision"
    assert not found.has("ResourceFlavor")


def test_a_second_kueue_and_a_missing_present_one_are_problems() -> None:
    def problems(kueue: str, *there: InstalledPart) -> list[str]:
        plan = plan_platform(queued("existing", queueing={"kueue": kueue}), "test")
        assert plan.kind == "environment"
        return [
            problem.path
            for problem in part_problems(queue_parts(plan.queues, load_catalog(), trainer=False), there, [])
        ]

    foreign = InstalledPart(
        part="kueue", kind="Deployment", namespace="kueue-system", name="kueue", version="", release=None
    )
    assert problems("install", foreign) == problems("present") == ["queueing.kueue"]
    assert problems("install") == problems("present", foreign) == []


def test_flavors_do_not_tolerate_the_gpu_taint_but_job_templates_do(
    tmp_path: Path,
) -> None:
    found = recorded(queued(), tmp_path)
    flavors = [one.inputs["spec"] for one in found.of("ResourceFlavor")]
    tainted = [one for one in flavors if "nvidia.com/gpu" in {taint["key"] for taint in one.get("nodeTaints", ())}]
    assert tainted
    assert not [one for one in tainted if "nvidia.com/gpu" in {each["key"] for each in one.get("tolerations", ())}]
    policy = found.one("MutatingAdmissionPolicy", "queue-templates-of-vision").inputs["spec"]
    rules = policy["matchConstraints"]["resourceRules"]
    matched = {resource for one in rules for resource in one["resources"]}
    assert matched >= {"jobs", "jobsets", "trainjobs", "rayclusters", "rayjobs", "rayservices", "leaderworkersets"}
    assert policy["failurePolicy"] == "Ignore"


def test_all_patches_of_templates_are_one_mutation(tmp_path: Path) -> None:
    # The API server encodes the object again after each mutation. 30 mutations of a 1 MB object took a minute.
    policy = recorded(queued(), tmp_path).one("MutatingAdmissionPolicy", "queue-templates-of-vision")
    assert len(policy.inputs["spec"]["mutations"]) == 1


def test_every_rule_of_a_queue_has_an_id_in_its_message(tmp_path: Path) -> None:
    policy = recorded(queued(queueing={"without_queue": "refuse"}), tmp_path).one(
        "ValidatingAdmissionPolicy", "queue-of-vision"
    )
    ids = {one["message"].partition(":")[0] for one in policy.inputs["spec"]["validations"]}
    assert ids == {
        "queue-of-team",
        "queue-priority-class",
        "queue-pod-gate",
        "queue-start",
        "queue-limits",
        "queue-owner",
        "queue-workload",
        "queue-pod-labels",
        "queue-pod-owner",
        "queue-owned",
        "queue-elastic-gate",
        "queue-end",
        "queue-group-size",
        "gpu-toleration",
        "kueue-queue-name",
    }


@pytest.mark.parametrize("required", [True, False])
def test_only_a_queue_that_must_be_named_refuses_workloads_without_one(tmp_path: Path, required: bool) -> None:
    queueing = {"without_queue": "refuse" if required else "default"}
    policy = recorded(queued(queueing=queueing), tmp_path).one("ValidatingAdmissionPolicy", "queue-of-vision")
    messages = [one["message"] for one in policy.inputs["spec"]["validations"]]
    assert any(message.startswith("kueue-queue-name: name the queue") for message in messages) is required
