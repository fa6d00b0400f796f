"""A whole stack on the real API server and scheduler, deployed by the embedded engine."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.live.client import Refused
from gpu_platform.program import record_stack
from tests.e2e.conftest import SANDBOX, VALIDATION_TIMEOUT, Platform
from tests.e2e.impersonation import member
from tests.support.command_line import COMMAND
from tests.support.eventually import eventually
from tests.support.recordings import record_node

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-up")]

SHARED = "nvidia.com/gpu.shared"


def test_up_prints_engine_resources_logical_gpus_pods_nodes_cost_and_waste(
    platform: Platform, base: dict[str, Any]
) -> None:
    ran = platform.up(base)
    assert ran.code == 0, ran.err
    report = ran.json
    assert report["engine"]["name"] == "embedded"
    assert sum(report["changes"]["counts"].values()) > 30
    assert report["logical_gpus"] == {
        "train": {"nvidia.com/gpu": 8},
        "serve": {SHARED: 4},
        "lab": {"nvidia.com/mig-1g.10gb": 56},
    }
    assert report["pods"] == {"scheduled": 1, "pending": 0}
    assert report["validation"]["summary"] == {"pass": 3, "fail": 0, "unknown": 0}
    assert report["cost"]["usd_per_hour"] == pytest.approx(2 * 27.44705 + 0.526)
    assert 0 < report["cost"]["wasted_usd_per_hour"] < report["cost"]["usd_per_hour"]


def test_nodes_offer_the_resources_of_their_pools_sharing(deployed: Platform) -> None:
    assert deployed.allocatable("train-0") == {"nvidia.com/gpu": "8"}
    assert deployed.allocatable("serve-0") == {SHARED: "4"}
    assert deployed.allocatable("lab-0") == {"nvidia.com/mig-1g.10gb": "56"}


def test_the_agent_of_a_node_can_write_only_its_own_report(deployed: Platform) -> None:
    agent = "system:serviceaccount:gpu-platform-validation:gpu-node-validation"
    client = member(deployed.kubeconfig, "system:serviceaccounts", agent, node="serve-0")

    def write(name: str) -> None:
        metadata = {"name": name, "namespace": "gpu-platform-validation", "labels": {"by": "test"}}
        client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    write("node-validation-serve-0")
    for other in ("node-validation-train-0", "proven-pools", "node-validation-serve-00"):
        with pytest.raises(Refused, match=r"only (.* )?its own node"):
            write(other)
    client = member(deployed.kubeconfig, "system:serviceaccounts", agent)
    with pytest.raises(Refused):
        write("node-validation-serve-0")


def test_a_node_that_passes_has_the_condition_and_the_hash_of_what_it_passed(deployed: Platform) -> None:
    node = deployed.client.get("v1", "Node", "serve-0")
    proven = deployed.client.get("v1", "ConfigMap", "proven-pools", namespace="gpu-platform-validation")
    assert node is not None
    assert proven is not None
    assert node["metadata"]["labels"]["gpu-platform.dev/validated"] == proven["data"]["serve"]
    [condition] = [one for one in node["status"]["conditions"] if one["type"] == "GpuPlatformValidated"]
    assert (condition["status"], condition["message"]) == ("True", "all checks pass")


def test_an_agent_may_only_mark_its_own_node(deployed: Platform) -> None:
    agent = "system:serviceaccount:gpu-platform-validation:gpu-node-validation"
    client = member(deployed.kubeconfig, "system:serviceaccounts", agent, node="serve-0")

    def change(node: str, **fields: Any) -> None:
        client.merge(
            {"apiVersion": "v1", "kind": "Node", **fields, "metadata": {"name": node} | fields.get("metadata", {})}
        )

    change("serve-0", metadata={"labels": {"gpu-platform.dev/validated": "x"}})
    with pytest.raises(Refused, match=r"only (.* )?its own node"):
        change("train-0", metadata={"labels": {"gpu-platform.dev/validated": "x"}})
    for fields in (
        {"metadata": {"labels": {"gpu-platform.dev/pool": "train"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": []}},
    ):
        with pytest.raises(Refused, match="writes only the label"):
            change("serve-0", **fields)


@pytest.mark.parametrize(
    "status",
    [
        {"daemonEndpoints": {"kubeletEndpoint": {"Port": 4444}}},
        {"images": [{"names": ["registry.example.com/app:1"], "sizeBytes": 1 << 40}]},
        {"nodeInfo": {"kubeletVersion": "v9.9.9"}},
        {"volumesInUse": ["kubernetes.io/csi/x"]},
        {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]},
        {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    ],
    ids=lambda status: next(iter(status)),
)
def test_the_agent_of_a_node_writes_nothing_of_its_status_but_its_own_condition(
    deployed: Platform, status: dict[str, Any]
) -> None:
    agent = "system:serviceaccount:gpu-platform-validation:gpu-node-validation"
    client = member(deployed.kubeconfig, "system:serviceaccounts", agent, node="serve-0")

    def write(changed: dict[str, Any]) -> None:
        client._connection.request(
            "PATCH",
            "/api/v1/nodes/serve-0/status",
            "Node serve-0",
            {"dryRun": "All"},
            body={"status": changed},
            content_type="application/strategic-merge-patch+json",
        )

    write({"conditions": [{"type": "GpuPlatformValidated", "status": "False"}]})
    with pytest.raises(Refused, match="writes only the condition GpuPlatformValidated"):
        write(status)


@pytest.mark.parametrize(
    ("node", "fault", "said"),
    [
        (
            "train-9",
            '{"kind": "gpu-missing", "index": 0}',
            "NODE: found 'train-9'; allowed: lab-0, serve-0, train-0",
        ),
        (
            "serve-0",
            '{"kind": "gpu-missing", "index": 33}',
            "faults[0].index: found 33; allowed: 0: g4dn.xlarge has 1 GPU",
        ),
        ("serve-0", '{"kind": "nvlink-degraded", "index": 0}', "no NVLink"),
    ],
)
def test_a_fault_of_a_missing_node_or_gpu_is_refused(deployed: Platform, node: str, fault: str, said: str) -> None:
    ran = deployed.run("sandbox", "fault", node, fault, "--name", SANDBOX)
    assert ran.code == 2
    assert said in ran.err


def test_up_runs_the_program_once(
    deployed: Platform, base: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        runs.append("run")
        return record_stack(*arguments, **options)

    monkeypatch.setattr("gpu_platform.cli.deploy.record_stack", counting)
    monkeypatch.setattr("gpu_platform.cli.engines.record_stack", counting)
    assert deployed.up(base).code == 0
    assert runs == ["run"]


def test_up_again_changes_nothing(deployed: Platform, base: dict[str, Any]) -> None:
    def versions() -> dict[str, str]:
        kinds = [("v1", "Node"), ("v1", "ResourceQuota"), ("apps/v1", "DaemonSet"), ("apps/v1", "Deployment")]
        return {
            f"{kind}/{o['metadata'].get('namespace')}/{o['metadata']['name']}": str(o["metadata"]["generation"])
            if "generation" in o["metadata"]
            else str(o.get("spec"))
            for api_version, kind in kinds
            for o in deployed.client.objects(api_version, kind)
        }

    before = versions()
    changes = deployed.up(base).json["changes"]
    assert set(changes["kinds"]["unchanged"]) >= {"Node", "ResourceQuota", "DaemonSet.apps"}
    assert changes["changes"] == []
    assert versions() == before


def test_four_pods_share_one_gpu_and_the_fifth_stays_pending(deployed: Platform) -> None:
    for index in range(5):
        deployed.pod(f"share-{index}", SHARED, nodeSelector={"gpu-platform.dev/pool": "serve"})
        if index < 4:
            eventually(lambda i=index: deployed.find_pod(f"share-{i}")["status"].get("phase") == "Running")
    assert "Insufficient nvidia.com/gpu.shared" in deployed.unschedulable("share-4")
    assert deployed.find_pod("share-4")["status"]["phase"] == "Pending"


def test_a_pod_above_its_teams_quota_is_refused_by_the_quota_by_name(deployed: Platform) -> None:
    with pytest.raises(Refused, match=r"exceeded quota: gpu-quota.*requests\.nvidia\.com/gpu") as refusal:
        # The workload of team vision uses all four GPUs.
        deployed.pod("greedy", "nvidia.com/gpu", 1, namespace="vision")
    assert refusal.value.status == 403


def test_a_mig_profile_that_a_team_was_not_granted_does_not_escape_its_quota(deployed: Platform) -> None:
    with pytest.raises(Refused, match="exceeded quota: gpu-quota"):
        deployed.pod("sly", "nvidia.com/mig-1g.10gb", 1, namespace="search")


def test_a_priority_class_above_the_teams_own_is_refused(deployed: Platform) -> None:
    with pytest.raises(Refused, match="exceeded quota: priority-above-own"):
        deployed.pod("pushy", "nvidia.com/mig-1g.10gb", 1, namespace="vision", priorityClassName="inference")


def test_an_inference_pod_preempts_a_training_pod_when_the_pool_is_full(deployed: Platform) -> None:
    for name in ("low-0", "low-1"):
        deployed.pod(name, SHARED, priorityClassName="training")
    for name in ("fill-0", "fill-1"):
        deployed.pod(name, SHARED, priorityClassName="inference")
    for name in ("low-0", "low-1", "fill-0", "fill-1"):
        eventually(lambda n=name: deployed.find_pod(n)["status"].get("phase") == "Running")
    deployed.pod("urgent", SHARED, priorityClassName="inference")
    eventually(lambda: deployed.find_pod("urgent")["status"].get("phase") == "Running")
    training = [deployed.client.get("v1", "Pod", name, "default") for name in ("low-0", "low-1")]
    assert sum(pod is None or "deletionTimestamp" in pod["metadata"] for pod in training) == 1
    assert deployed.find_pod("fill-0")["status"]["phase"] == "Running"


def test_a_pod_without_the_toleration_never_lands_on_a_gpu_node(deployed: Platform) -> None:
    deployed.pod("intruder", SHARED, tolerate=False)
    assert "untolerated taint" in deployed.unschedulable("intruder")
    deployed.pod("cpu-only", "ephemeral-storage", 1, tolerate=False)
    assert "untolerated taint" in deployed.unschedulable("cpu-only")


def test_a_pod_that_asks_for_two_shares_fails_on_the_node(deployed: Platform) -> None:
    deployed.pod("double", SHARED, 2)
    eventually(lambda: deployed.find_pod("double")["status"].get("phase") == "Failed")
    assert deployed.find_pod("double")["status"]["reason"] == "UnexpectedAdmissionError"


def test_a_change_of_replicas_reaches_every_node_of_the_pool_by_itself(
    deployed: Platform, base: dict[str, Any]
) -> None:
    base["pools"][1]["sharing"]["replicas"] = 2
    base["pools"][1]["count"]["desired"] = 2
    assert deployed.up(base).code == 0
    assert [deployed.allocatable(node) for node in ("serve-0", "serve-1")] == [{SHARED: "2"}, {SHARED: "2"}]


def test_preview_prints_what_up_would_change_and_changes_nothing(deployed: Platform, base: dict[str, Any]) -> None:
    base["teams"][0]["quota"]["gpus"] = 5
    file = deployed.write(base)
    ran = deployed.run("preview", str(file), "--engine", "embedded", "--format", "json")
    assert ran.code == 0, ran.err
    changes = {(c["action"], c["kind"], c["name"]): c for c in ran.json["changes"]["changes"]}
    assert set(changes) == {
        ("update", "ResourceQuota", "gpu-quota"),
        ("update", "ConfigMap", "gpu-platform-guide"),
    }
    change = changes["update", "ResourceQuota", "gpu-quota"]
    assert [(f["old"], f["new"]) for f in change["fields"]] == [("4", "5")]
    live = deployed.client.get("v1", "ResourceQuota", "gpu-quota", "vision")
    assert live is not None
    assert live["spec"]["hard"]["requests.nvidia.com/gpu"] == "4"


def test_validate_says_that_a_pool_was_edited_and_not_deployed(deployed: Platform, base: dict[str, Any]) -> None:
    assert not deployed.run("validate", str(deployed.write(base))).err
    base["pools"][1]["sharing"]["replicas"] = 2
    ran = deployed.run("validate", str(deployed.write(base)))
    assert ran.code == 1
    assert "warning: pool serve: pools[1].sharing is 2 x gpu.shared, and 4 x gpu.shared is deployed" in ran.err
    assert "changed after the last `up`" in ran.err


@pytest.mark.long
def test_removing_a_pool_and_a_team_removes_their_objects_and_no_others(
    deployed: Platform, base: dict[str, Any]
) -> None:
    deployed.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "somebody-elses"}})
    del base["pools"][1], base["teams"][1]
    ran = deployed.up(base)
    assert ran.code == 0, ran.err
    assert {n["metadata"]["name"] for n in deployed.client.objects("v1", "Node")} == {"train-0", "lab-0"}
    namespaces = {n["metadata"]["name"] for n in deployed.client.objects("v1", "Namespace")}
    assert "search" not in namespaces
    assert {"vision", "somebody-elses", "gpu-operator"} <= namespaces
    deleted = {(c["kind"], c["name"]) for c in ran.json["changes"]["changes"] if c["action"] == "delete"}
    assert {("Node", "serve-0"), ("DaemonSet.apps", "validate-serve"), ("Namespace", "search")} <= deleted


@pytest.mark.parametrize(
    ("node", "fault", "check", "source"),
    [
        ("train-0", '{"kind": "gpu-missing", "index": 3}', "gpu-count", "machine type p4de.24xlarge"),
        # `up` is tested with few faults, and tests/validators/test_agent_on_simulated_nodes.py tries all faults.
        pytest.param(
            "train-0",
            '{"kind": "nvlink-degraded", "index": 0, "link": 5}',
            "nvlink-count",
            "machine type p4de.24xlarge",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "lab-0",
            '{"kind": "mig-wrong-layout", "index": 0, "instances": {"3g.40gb": 2}}',
            "mig-instances",
            "stack: pools[2].sharing.layout",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_up_fails_in_time_on_a_broken_node_and_names_the_check(
    deployed: Platform, base: dict[str, Any], node: str, fault: str, check: str, source: str
) -> None:
    base["validation"]["timeout"] = "2s"
    file = str(deployed.write(base))

    def found() -> bool:
        report = deployed.run("validate", file, "--format", "json").json
        return (node, check) in {(n["node"], c["id"]) for n in report["nodes"] for c in n["checks"] if _failed(c)}

    try:
        assert deployed.run("sandbox", "fault", node, fault, "--name", SANDBOX).code == 0
        eventually(found)  # the agent has checked the node after the fault
        ran = deployed.up(base)
        assert ran.code == 1, ran.out
        checks = next(n for n in ran.json["validation"]["nodes"] if n["node"] == node)["checks"]
        failed = next(c for c in checks if c["id"] == check and _failed(c))
        assert failed["expected"] != failed["observed"]
        assert source in failed["source"]
        assert failed["remediation"]
        text = deployed.run("validate", file).out
        assert node in text
        assert check in text
    finally:
        deployed.run("sandbox", "fault", node, "--name", SANDBOX)
    base["validation"]["timeout"] = VALIDATION_TIMEOUT
    assert deployed.up(base).code == 0, "the stack passes once the node is repaired"


def _failed(check: dict[str, Any]) -> bool:
    return check["verdict"] == "fail"


def test_a_simulated_node_replays_a_recorded_one_with_the_verdicts_of_its_checks(
    deployed: Platform, base: dict[str, Any], tmp_path: Path
) -> None:
    file, recording = str(deployed.write(base)), tmp_path / "node.json"

    def verdicts() -> dict[tuple[str, str | None], tuple[str, str]]:
        report = deployed.run("validate", file, "--format", "json").json
        [found] = [node for node in report["nodes"] if node["node"] == "train-0"]
        applicable = [one for one in found["checks"] if one["verdict"] != "not-applicable"]
        return {(one["id"], one["device"]): (one["verdict"], one["observed"]) for one in applicable}

    def run(*arguments: str) -> int:
        return deployed.run("sandbox", *arguments, "--name", SANDBOX).code

    sound = verdicts()
    faults = '{"kind": "nvlink-degraded", "index": 2}', '{"kind": "gpu-lost", "index": 6}'
    try:
        assert run("fault", "train-0", *faults) == 0
        eventually(lambda: ("nvlink-count", "GPU 2") in verdicts())
        faulty = verdicts()
        listed = deployed.run("sandbox", "fault", "--name", SANDBOX)
        assert listed.out.startswith('train-0: {"kind": "nvlink-degraded"')
        driver = sound["driver-version", None][1]
        record_node(recording, *faults, machine_type="p4de.24xlarge", driver_version=driver)
        assert run("fault", "train-0") == 0
        eventually(lambda: verdicts() == sound)
        assert run("replay", "train-0", str(recording)) == 0
        eventually(lambda: verdicts() == faulty)
    finally:
        assert run("replay", "train-0") == 0
    eventually(lambda: verdicts() == sound)


def test_a_file_that_is_no_recording_is_refused_before_the_node_changes(
    deployed: Platform, tmp_path: Path
) -> None:
    (tmp_path / "node.json").write_text("{}")
    ran = deployed.run("sandbox", "replay", "train-0", str(tmp_path / "node.json"), "--name", SANDBOX)
    assert ran.code == 2
    assert "allowed: a file from node-check --record" in ran.err


def test_a_wrong_fault_is_bad_input(platform: Platform) -> None:
    ran = platform.run("sandbox", "fault", "train-0", '{"kind": "gremlins"}', "--name", SANDBOX)
    assert ran.code == 2
    assert "gremlins" in ran.err


def test_mandatory_policies_stop_up_before_anything_changes(deployed: Platform, base: dict[str, Any]) -> None:
    base["pools"][0]["sharing"] = {"mode": "time-slicing", "replicas": 2}
    base["teams"] = []
    base["policy"] = {"rules": {"sharing-for-training": {"enforcementLevel": "mandatory"}}}
    ran = deployed.up(base)
    assert ran.code == 1
    assert "mandatory policies" in ran.err
    assert deployed.allocatable("train-0") == {"nvidia.com/gpu": "8"}


@pytest.mark.long
def test_a_team_stack_is_deployed_on_its_environment_and_destroyed_separately(
    deployed: Platform, base: dict[str, Any]
) -> None:
    del base["teams"][1]
    assert deployed.up(base).code == 0
    team = {
        "kind": "team",
        "environment": {"stack": "shop"},
        "team": {
            "name": "speech",
            "quota": {"mig": {"1g.10gb": 7}},
            "priority": "training",
            "members": ["group:speech"],
            "workloads": [{"name": "tune", "pool": "lab", "replicas": 2}],
        },
    }
    ran = deployed.up(team, "speech")
    assert ran.code == 0, ran.err
    pods = list(deployed.client.objects("v1", "Pod", namespace="speech"))
    assert [p["spec"].get("nodeName") for p in pods] == ["lab-0", "lab-0"]
    assert deployed.up(base).json["changes"]["changes"] == [], (
        "the environment leaves the team's objects unchanged"
    )
    file = deployed.folder / "Pulumi.speech.yaml"
    assert deployed.run("destroy", str(file), "--engine", "embedded", "--yes").code == 0
    assert deployed.client.get("v1", "Namespace", "speech") is None
    assert deployed.client.get("v1", "Namespace", "vision") is not None


def test_a_team_stack_without_its_environment_deployed_says_what_to_run_first(
    platform: Platform, base: dict[str, Any]
) -> None:
    environment = platform.write(base, "elsewhere")
    team = {
        "kind": "team",
        "environment": {"stack": "elsewhere"},
        "team": {"name": "speech", "quota": {"gpus": 0}, "priority": "training", "members": ["group:a"]},
    }
    ran = platform.up(team, "speech")
    assert ran.code == 3
    assert f"run `gpu-platform up {environment}` first" in ran.err


def test_destroy_leaves_nothing_of_the_stack_and_everything_else(deployed: Platform, base: dict[str, Any]) -> None:
    deployed.client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keep", "namespace": "default"}}
    )
    ran = deployed.run("destroy", str(deployed.write(base)), "--engine", "embedded", "--yes")
    assert ran.code == 0, ran.err
    assert list(deployed.client.objects("v1", "Node")) == []
    for kind, name in (
        ("Namespace", "vision"),
        ("Namespace", "gpu-operator"),
        ("Namespace", "gpu-platform-validation"),
    ):
        assert deployed.client.get("v1", kind, name) is None
    assert deployed.client.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy") is None
    assert (
        list(
            deployed.client.objects(
                "scheduling.k8s.io/v1", "PriorityClass", label_selector="applyset.kubernetes.io/part-of"
            )
        )
        == []
    )
    assert deployed.client.get("v1", "ConfigMap", "keep", "default") is not None
    again = deployed.run("destroy", str(deployed.write(base)), "--engine", "embedded", "--yes")
    assert again.code == 0


@pytest.mark.long
def test_an_interrupted_up_converges_when_it_is_run_again(platform: Platform, base: dict[str, Any]) -> None:
    platform.run("destroy", str(platform.write(base)), "--engine", "embedded", "--yes")
    file = str(platform.write(base))
    command = [*COMMAND, "up", file, "--engine", "embedded", "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: platform.client.get("v1", "Node", "train-0") or process.poll() is not None)
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert f"run `gpu-platform up {file}` to continue" in told
    assert "Traceback" not in told
    ran = platform.up(base)
    assert ran.code == 0, ran.err
    assert platform.up(base).json["changes"]["changes"] == []


@pytest.mark.long
def test_a_teams_workload_that_cannot_start_is_reported_and_fails_nothing(
    deployed: Platform, base: dict[str, Any]
) -> None:
    # A pod with this priority class cannot be preempted.
    deployed.pod("holder", "nvidia.com/gpu", 4, priorityClassName="system-cluster-critical")
    eventually(lambda: deployed.find_pod("holder")["status"].get("phase") == "Running")
    base["teams"][0]["quota"]["gpus"] = 8
    base["teams"][1]["quota"] = {"shared": 2}
    base["teams"][0]["workloads"] = [
        {"name": "pretrain", "pool": "train", "gpus": 4},
        {"name": "finetune", "pool": "train", "gpus": 4},
    ]
    for _ in ("changed", "unchanged"):
        ran = deployed.up(base)
        assert ran.code == 0, ran.err
        [unready] = ran.json["unready_workloads"]
        assert (unready["namespace"], unready["name"]) == ("vision", "finetune")
        assert unready["reason"] == "0 of 1 pod ready"
        assert "Insufficient nvidia.com/gpu" in unready["pods"][0]
    assert ran.json["changes"]["counts"]["update"] == 0
