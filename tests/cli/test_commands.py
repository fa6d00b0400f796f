"""Commands that need no cluster, as a user calls them."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from gpu_platform.base.paths import STACKS_DIR
from tests.support.recordings import record_node


@pytest.mark.parametrize(("stack", "package"), [("eks-training", "aws"), ("gke-training", "gcp")])
@pytest.mark.parametrize(("command", "engine"), [("up", "auto"), ("preview", "embedded")])
def test_up_of_a_cloud_stack_without_the_pulumi_cli_names_it_and_changes_nothing(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stack: str, package: str, command: str, engine: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setenv("GPU_PLATFORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GPU_PLATFORM_NO_INSTALL", "1")

    code, _, err = run(command, stack, "--engine", engine)
    assert code == 2
    assert f"resources of {package}: found {package}:" in err
    assert "use the Pulumi CLI for this stack (https://www.pulumi.com/docs/install/)" in err
    assert len(err.splitlines()) < 8, "one problem per package, not one per resource"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stack", sorted(f.name.split(".")[1] for f in STACKS_DIR.glob("Pulumi.*.yaml")))
def test_every_shipped_stack_passes_check_without_credentials_and_without_a_network(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stack: str
) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "PULUMI_", "CLOUDSDK_", "KUBE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    def refuse(*_: object) -> None:
        raise AssertionError("check must not use a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    code, out, _ = run("check", stack)
    assert code == 0
    assert "policies: no violation" in out


def test_destroy_of_a_production_cluster_is_refused_without_any_engine(run: Any) -> None:
    code, _, err = run("destroy", "gke-training")
    assert code == 2
    assert (
        "set cluster.protect: false, run `gpu-platform up gke-training`, then destroy again; nothing was changed"
        in err
    )


def test_check_prints_what_was_chosen_and_why(run: Any) -> None:
    _, out, _ = run("check", "local", "--format", "json")
    decisions = json.loads(out)["decisions"]
    chosen = {(d["subject"], d["what"]): d for d in decisions}
    assert chosen["pool train", "Topology Manager"]["chosen"] == "restricted (container)"
    assert all(d["why"] for d in decisions)


def test_check_exits_with_1_only_for_violations_of_mandatory_rules(run: Any, tmp_path: Path) -> None:
    local = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")
    stack = tmp_path / "Pulumi.many.yaml"
    many = local.replace("{mode: time-slicing, replicas: 4}", "{mode: time-slicing, replicas: 6}")
    stack.write_text(many, "utf-8")
    code, out, _ = run("check", str(stack))
    assert code == 1
    assert "mandatory: sharing-replicas-bounded" in out
    stack.write_text(many.replace("level: mandatory", "level: advisory"), "utf-8")
    code, out, _ = run("check", str(stack))
    assert code == 0
    assert "advisory: sharing-replicas-bounded" in out


def test_an_advisory_rule_stops_only_if_the_stack_makes_it_mandatory(run: Any, tmp_path: Path) -> None:
    local = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")
    scattered = local.replace("workload: training\n", "workload: training\n        topology: {policy: none}\n", 1)
    assert scattered != local
    stack = tmp_path / "Pulumi.scattered.yaml"
    stack.write_text(scattered, "utf-8")
    code, out, _ = run("check", str(stack))
    assert (code, "advisory: topology-for-multi-gpu (medium)" in out) == (0, True)
    strict = "rules: {topology-for-multi-gpu: {enforcementLevel: mandatory}}"
    stack.write_text(scattered.replace("level: mandatory}", f"level: mandatory, {strict}}}"), "utf-8")
    code, out, _ = run("check", str(stack))
    assert (code, "mandatory: topology-for-multi-gpu (medium)" in out) == (1, True)


def test_an_unknown_policy_rule_in_a_stack_is_bad_input(run: Any, tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.typo.yaml"
    text = (STACKS_DIR / "Pulumi.local.yaml").read_text("utf-8")
    stack.write_text(text.replace("level: mandatory}", "level: mandatory, rules: {gpu-taint: {}}}"), "utf-8")
    code, _, err = run("check", str(stack))
    assert code == 2
    assert "gpu-taint" in err


def test_capacity_shows_physical_and_logical_gpus_grants_cost_and_waste(run: Any) -> None:
    code, out, _ = run("capacity", "local", "--format", "json")
    assert code == 0
    document = json.loads(out)
    pools = {pool["name"]: pool for pool in document["pools"]}
    assert pools["notebooks"]["physical_gpus"] == 8
    assert pools["notebooks"]["logical_gpus"] == {"nvidia.com/mig-1g.10gb": 56}
    assert {r["name"]: (r["allocated"], r["offered"]) for r in document["resources"]} == {
        "nvidia.com/gpu": (16, 16),
        "nvidia.com/gpu.shared": (4, 8),
        "nvidia.com/mig-1g.10gb": (42, 56),
    }
    assert document["cost"]["usd_per_hour"] == pytest.approx(3 * 27.44705 + 2 * 0.526)
    assert document["cost"]["unallocated_usd_per_hour"] == pytest.approx(0.25 * 27.44705 + 0.526, abs=1e-3)


def test_capacity_of_a_team_stack_points_at_its_environment(run: Any) -> None:
    code, _, err = run("capacity", "speech")
    assert code == 2
    assert "run `gpu-platform capacity local`" in err


def test_render_writes_resources_manifests_state_and_plan(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, told, _ = run("render", "local", "--out", str(out))
    assert code == 0
    resources = json.loads((out / "resources.json").read_text("utf-8"))
    assert f"{len(resources)} resources" in told
    assert resources[0]["type"] == "pulumi:pulumi:Stack"
    assert set(resources[1]) == {"urn", "type", "name", "custom", "inputs", "parent", "dependencies"}
    seen: set[str] = set()
    for resource in resources:
        assert set(resource["dependencies"]) <= seen, "resources are listed in registration order"
        seen.add(resource["urn"])
    kubernetes = [r for r in resources if r["type"].startswith("kubernetes:")]
    assert len(list((out / "manifests").rglob("*.yaml"))) == len(kubernetes)
    assert json.loads((out / "state.json").read_text("utf-8"))["version"] == 3
    assert json.loads((out / "plan.json").read_text("utf-8"))["stack"] == "local"


def test_render_refuses_a_folder_with_files_of_somebody_else(run: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    code, _, err = run("render", "local", "--out", str(tmp_path))
    assert code == 2
    assert str(tmp_path) in err
    assert [f.name for f in tmp_path.iterdir()] == ["thesis.txt"]


def test_rendered_numbers_are_whole_where_they_are_whole(run: Any, tmp_path: Path) -> None:
    run("render", "local", "--out", str(tmp_path / "out"))
    text = (tmp_path / "out" / "resources.json").read_text("utf-8")
    assert '"replicas": 4' in text
    assert '"replicas": 4.0' not in text


def test_doctor_lists_tools_with_what_they_are_for_and_what_to_do(run: Any) -> None:
    code, out, _ = run("doctor", "--format", "json")
    assert code == 0
    tools = {tool["name"]: tool for tool in json.loads(out)["tools"]}
    assert {"Python", "Pulumi CLI", "Go", "sandbox control plane", "NVML"} <= set(tools)
    assert all(tool["remedy"] and tool["needed_for"] for tool in tools.values())


def test_node_check_without_a_driver_is_unknown_and_says_what_to_do(run: Any) -> None:
    code, out, _ = run("node-check", "--machine", "p4de.24xlarge", "--format", "json")
    checks = json.loads(out)
    if code == 3:  # the usual case: the test machine has no GPU
        of_nvml = [check["verdict"] for check in checks if check["id"] != "xid"]
        assert set(of_nvml) <= {"unknown", "not-applicable"}
        assert any("driver" in check["remediation"] for check in checks)
    assert {"id", "verdict", "expected", "observed", "severity", "remediation"} <= set(checks[0])


def test_node_check_of_an_unknown_machine_type_suggests_one(run: Any) -> None:
    code, _, err = run("node-check", "--machine", "p5.48xlargee")
    assert code == 2
    assert "did you mean 'p5.48xlarge'?" in err


def test_node_check_takes_one_of_expect_and_machine(run: Any, tmp_path: Path) -> None:
    code, _, err = run("node-check", "--machine", "p5.48xlarge", "--expect", str(tmp_path / "e.json"))
    assert code == 2
    assert "one of --expect and --machine" in err


def test_the_topology_of_a_node_is_printed_with_what_its_labels_mean(run: Any, tmp_path: Path) -> None:
    record_node(tmp_path / "node.json", machine_type="g5.12xlarge", driver_version="580.126.20")

    code, out, _ = run("node-check", "--topology", "--replay", str(tmp_path / "node.json"))

    assert code == 0
    first, *rows = [line.split() for line in out.splitlines()[:5]]
    assert first == ["GPU0", "GPU1", "GPU2", "GPU3", "NUMA"]
    meanings = [line.split()[0] for line in out.split("\n\n")[1].splitlines()]
    assert {label for row in rows for label in row[1:-1]} <= set(meanings)


def test_a_topology_as_json_has_the_measured_and_the_expected_matrix(run: Any, tmp_path: Path) -> None:
    record_node(tmp_path / "node.json", machine_type="p4de.24xlarge", driver_version="580.126.20")
    arguments = ["--topology", "--replay", str(tmp_path / "node.json"), "--format", "json"]

    code, out, _ = run("node-check", *arguments, "--machine", "p4de.24xlarge")

    assert code == 0
    document = json.loads(out)
    assert [gpu["index"] for gpu in document["gpus"]] == list(range(8))
    assert document["matrix"][0] == ["X", *["NV12"] * 7]
    assert document["expected"] == document["matrix"]
    assert len(document["bestSets"]["2"]) == 28
    assert json.loads(run("node-check", *arguments)[1])["expected"] is None


def test_an_unknown_command_of_a_group_suggests_the_group(run: Any) -> None:
    code, _, err = run("suggest")
    assert code == 2
    assert "No such command 'suggest'. Did you mean 'capacity suggest'?" in err


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["up", "local", "--timeout", "10"], "Fix: write 10s, 10m or 10h"),
        (["cost", "local", "--prometheus", "localhost:9090"], "Fix: write http://localhost:9090"),
    ],
)
def test_a_wrong_value_of_an_option_has_a_fix(run: Any, arguments: list[str], fix: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert fix in err


@pytest.mark.parametrize(
    "arguments", [["chek", "local"], ["check"], ["check", "local", "--format", "xml"], ["--nope"]]
)
def test_a_wrong_call_is_bad_input_without_a_traceback(run: Any, arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert err


def test_the_status_of_a_missing_sandbox_is_a_finding(run: Any) -> None:
    code, out, _ = run("sandbox", "status", "--name", "nowhere", "--format", "json")
    assert code == 1
    assert json.loads(out)["state"] == "absent"


def _elsewhere(tmp_path: Path) -> str:
    """Write the shipped EKS stack with another region, which offers p5.48xlarge but neither G6 nor G6e."""
    text = (STACKS_DIR / "Pulumi.eks-training.yaml").read_text("utf-8").replace("us-east-2", "us-west-1")
    stack = tmp_path / "Pulumi.elsewhere.yaml"
    stack.write_text(text, "utf-8")
    return str(stack)


def test_check_warns_about_machine_types_not_offered_in_the_region(run: Any, tmp_path: Path) -> None:
    code, out, err = run("check", _elsewhere(tmp_path))
    assert code == 0
    assert "warning: pools[1].machine_type: region us-west-1 is not known to offer g6e.12xlarge; offered in" in err
    assert "eu-north-1, eu-south-2, us-east-1, us-east-2, us-west-2 (list of 2025-11-30;" in err
    assert "pools[0].machine_type" not in err, "us-west-1 offers p5.48xlarge"
    _, out, _ = run("check", _elsewhere(tmp_path), "--format", "json")
    document = json.loads(out)
    assert any("is not known to offer g6e.12xlarge" in warning for warning in document["warnings"])
    (prices,) = [one["chosen"] for one in document["decisions"] if one["what"] == "prices"]
    assert prices == "list, on demand, us-west-1, 2025-11-30; unknown in us-west-1 for serve, develop"


def test_capacity_prices_pools_of_the_region_and_leaves_the_others_unknown(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("capacity", _elsewhere(tmp_path))
    assert code == 0
    assert "prices: list, on demand, us-west-1, 2025-11-30; unknown in us-west-1 for serve, develop" in out
    assert "not included in the cost, because the price is unknown: serve, develop" in out
    assert "unknown: no list price for g6e.12xlarge in us-west-1; write pools[1].usd_per_hour" in out
    _, out, _ = run("capacity", _elsewhere(tmp_path), "--format", "json")
    document = json.loads(out)
    assert document["cost"]["usd_per_hour"] == pytest.approx(4 * 68.8)
    assert [pool["usd_per_hour"] for pool in document["pools"]] == [pytest.approx(4 * 68.8), None, None]
