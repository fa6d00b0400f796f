"""`preview` and `up` announce how a change affects pods, data and access, read from the real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_platform.live.client import KubernetesClient
from tests.e2e.conftest import Platform
from tests.support.eventually import eventually

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

SHARED = "nvidia.com/gpu.shared"


def rows(ran: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["subject"], one["effect"]): one for one in ran.json["impact"]["changes"]}


def preview(platform: Platform, stack: dict[str, Any], *options: str) -> Any:
    file = platform.write(stack)
    return platform.run("preview", str(file), "--engine", "embedded", "--format", "json", *options)


def test_a_deployed_stack_that_is_unchanged_has_no_impact(deployed: Platform, base: dict[str, Any]) -> None:
    assert preview(deployed, base).json["impact"] == {
        "effect": "in-place",
        "cluster_read": True,
        "order": [],
        "changes": [],
    }


def test_a_smaller_pool_names_the_running_pods_by_owner_and_the_budget_that_blocks(
    deployed: Platform, base: dict[str, Any]
) -> None:
    deployed.pod("single", SHARED, nodeSelector={"kubernetes.io/hostname": "serve-0"})
    eventually(lambda: deployed.find_pod("single")["status"].get("phase") == "Running")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {}},
    }
    live = deployed.client.create(budget)
    try:
        eventually(
            lambda: (
                (deployed.client.get("policy/v1", "PodDisruptionBudget", "guard", "default") or {})
                .get("status", {})
                .get("expectedPods")
            )
        )
        base["pools"] = [pool for pool in base["pools"] if pool["name"] != "serve"]
        base["teams"][1]["quota"] = {"gpus": 2}
        row = rows(preview(deployed, base))[("pool serve", "removes-capacity")]
    finally:
        deployed.client.delete(live)
    assert (row["nodes"], row["gpus"]) == (1, 1)
    assert [(pod["namespace"], pod["owner"], pod["units"]) for pod in row["pods"]] == [
        ("default", "Pod single", {SHARED: 1})
    ]
    assert row["budgets"] == ["default/guard"]


@pytest.mark.thorough  # test_change_order.py and test_durations.py in tests/planning also test the plan
def test_the_order_of_all_steps_is_announced_with_the_longest_time_of_each(
    deployed: Platform, base: dict[str, Any]
) -> None:
    train, serve, lab = base["pools"]
    lab["sharing"]["layout"] = {"3g.40gb": 2}
    base["pools"] = [train, lab, {**serve, "name": "infer", "count": {"desired": 2}}]
    base["teams"][0]["quota"] |= {"mig": {"3g.40gb": 2}, "cpu": 50}
    file = str(deployed.write(base))
    ran = deployed.run("preview", file, "--engine", "embedded", "--format", "json")
    steps = {subject: one["step"] for one in ran.json["impact"]["order"] for subject in one["subjects"]}
    ordered = ["pool lab", "pool infer", "nodes", "team vision", "pool serve"]
    assert [steps[subject] for subject in ordered] == [1, 2, 3, 4, 5]
    found = rows(ran)
    assert (found["pool lab", "rolls-nodes"]["step"], found["pool serve", "removes-capacity"]["step"]) == (1, 5)
    assert found["pool lab", "rolls-nodes"]["seconds_most"] == 66 * 60
    shown = deployed.run("preview", file, "--engine", "embedded").out
    assert "  1. pool lab: MIG layout, node by node" in shown
    assert "duration: at most 1 h 6 min (1 round of 1 node: disruption budgets 15 min" in shown


def test_a_preview_lists_nodes_and_pods_once(
    deployed: Platform, base: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    real = KubernetesClient.objects

    def counting(client: KubernetesClient, api_version: str, kind: str, **selectors: Any) -> Any:
        if kind in {"Node", "Pod"} and not {"namespace", "label_selector"} & selectors.keys():
            listed.append(kind)
        return real(client, api_version, kind, **selectors)

    monkeypatch.setattr(KubernetesClient, "objects", counting)
    base["pools"][2]["sharing"]["layout"] = {"3g.40gb": 2}
    base["teams"][0]["quota"]["mig"] = {"3g.40gb": 2}
    ran = preview(deployed, base)
    assert ("pool lab", "rolls-nodes") in rows(ran), ran.err
    assert sorted(listed) == ["Node", "Pod"]


@pytest.mark.thorough  # tests/planning/test_impact.py also tests this change, without a cluster
def test_fewer_replicas_are_announced_in_logical_gpus_and_the_table_says_so(
    deployed: Platform, base: dict[str, Any]
) -> None:
    base["pools"][1]["sharing"]["replicas"] = 2
    file = deployed.write(base)
    ran = deployed.run("preview", str(file), "--engine", "embedded")
    assert ran.code == 0, ran.err
    assert "4 x gpu.shared  " in ran.out
    assert "time-slicing, 4 replicas becomes time-slicing, 2 replicas" in ran.out
    assert "device-plugin" not in ran.out, "only --objects lists the names of objects"
    listed = deployed.run("preview", str(file), "--engine", "embedded", "--objects")
    assert "ConfigMap" in listed.out


def test_ci_refuses_an_effect_and_nothing_has_changed(deployed: Platform, base: dict[str, Any]) -> None:
    before = deployed.allocatable("serve-0")
    changed = copy.deepcopy(base)
    changed["pools"][1]["sharing"]["replicas"] = 2
    refused = preview(deployed, changed, "--fail-on", "removes-capacity")
    assert refused.code == 1
    assert "pool serve removes-capacity" in refused.err
    file = deployed.write(changed)
    stopped = deployed.run(
        "up", str(file), "--engine", "embedded", "--format", "json", "--fail-on", "removes-capacity"
    )
    assert stopped.code == 1
    assert deployed.allocatable("serve-0") == before
    assert preview(deployed, changed, "--fail-on", "deletes-data,replaces").code == 0


@pytest.mark.thorough  # tests/planning/test_impact.py also tests this change, without a cluster
def test_a_member_and_a_quota_that_shrink_are_announced_for_the_team(
    deployed: Platform, base: dict[str, Any]
) -> None:
    base["teams"][0]["members"] = ["group:vision-2"]
    base["teams"][0]["quota"]["gpus"] = 2
    base["teams"][0]["workloads"] = []
    found = rows(preview(deployed, base))
    assert "Group vision: lost rights" in found[("team vision", "cuts-access")]["because"]
    quota = found[("team vision", "removes-capacity")]
    assert "gpu: 2" in quota["new"]
    assert "4 x gpu in use, 2 allowed" in quota["because"]


@pytest.mark.thorough  # tests/planning/test_impact.py also tests this change, without a cluster
def test_a_workload_that_leaves_its_team_is_announced(deployed: Platform, base: dict[str, Any]) -> None:
    base["teams"][0]["workloads"] = []
    row = rows(preview(deployed, base))[("Deployment vision/pretrain", "restarts-pods")]
    assert [pod["owner"] for pod in row["pods"]] == ["Deployment pretrain"]
