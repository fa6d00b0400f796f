"""The agent publishes its report to an API server, which these tests simulate with a small HTTP server."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from agent_tables import DRIVER, of_machine

from gpu_platform.base import names
from sandbox.nvml import NodeProfile
from validators.agent.api_server import ApiError, ApiServer
from validators.agent.checks import run_checks
from validators.agent.hold import FAILED_TAINT, STARTUP_TAINT, Holding, NodeTaints
from validators.agent.mark import NodeMarks
from validators.agent.nvml import _closed
from validators.agent.publish import publish
from validators.agent.report import Identity
from validators.agent.snapshot import Reading
from validators.zipapp import build_agent

REPORT = {"version": 1, "node": "train-0", "pool": "train", "verdict": "pass", "checks": []}
HERE = Identity("train-0", "validate-train-abcde", "uid-1", "gpu-platform-validation")


def test_a_report_is_applied_as_a_config_map_that_its_pod_owns(api, token):
    publish(REPORT, HERE, ApiServer(api.url, token, ""))
    [(path, headers, sent)] = api.requests
    assert path == (
        "/api/v1/namespaces/gpu-platform-validation/configmaps/node-validation-train-0"
        "?fieldManager=gpu-platform-node-agent&force=true"
    )
    assert headers["Authorization"] == "Bearer secret-token"
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(sent["data"].pop("report.json")) == REPORT
    assert sent == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "node-validation-train-0",
            "namespace": "gpu-platform-validation",
            "labels": {"gpu-platform.dev/validation-report": "train"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "validate-train-abcde", "uid": "uid-1"}
            ],
        },
        "data": {},
    }


def test_the_token_is_read_anew_for_every_report(api, token):
    server = ApiServer(api.url, token, "")
    publish(REPORT, HERE, server)
    with open(token, "w") as file:
        file.write("renewed")
    publish(REPORT, HERE, server)
    assert [headers["Authorization"] for _, headers, _ in api.requests] == [
        "Bearer secret-token",
        "Bearer renewed",
    ]


def test_a_refusal_is_reported_with_the_api_servers_own_message(api, token):
    api.status, api.body = 403, {"message": "configmaps is forbidden"}
    with pytest.raises(ApiError, match="403 configmaps is forbidden"):
        publish(REPORT, HERE, ApiServer(api.url, token, ""))


def test_a_proxy_of_the_environment_is_not_used(api, token, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    publish(REPORT, HERE, ApiServer(api.url, token, ""))
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, "https://[fd00::1]:443"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "GPU_PLATFORM_API_SERVER": "https://api/"}, "https://api"),
    ],
)
def test_the_api_server_is_the_clusters_unless_said_otherwise(environment, url):
    assert ApiServer.of_environment(environment).url == url


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "not in a cluster"),
        ({"GPU_PLATFORM_API_SERVER": "http://api.example.com"}, "not an https URL"),
        ({"GPU_PLATFORM_API_SERVER": "file:///etc/passwd"}, "not an https URL"),
    ],
)
def test_a_token_never_leaves_in_the_clear(environment, said):
    with pytest.raises(ApiError, match=said):
        ApiServer.of_environment(environment)


FAILED = {
    "id": "gpu-count",
    "device": None,
    "verdict": "fail",
    "expected": "8",
    "observed": "7",
    "remediation": "drain the node",
}


def marked(api, token, *reports):
    """Mark the node with each report in turn. Return the label, the condition and the Events after each report."""
    marks, found = NodeMarks(HERE, ApiServer(api.url, token, ""), Holding(0)), []
    for report in reports:
        api.requests.clear()
        marks.set({**REPORT, "expectations_hash": "abc", **report})
        sent = {path.partition("?")[0]: body for path, _, body in api.requests}
        [condition] = sent.pop("/api/v1/nodes/train-0/status")["status"]["conditions"]
        labels = sent.pop("/api/v1/nodes/train-0")["metadata"]["labels"]
        found.append((labels, condition, [path for path in sent if path.endswith("/default/events")]))
    return found


def test_only_a_node_that_passes_has_the_hash_of_its_expectations(api, token):
    passed, failed = marked(api, token, {}, {"verdict": "fail", "checks": [FAILED]})
    assert (passed[0], passed[1]["status"], passed[2]) == ({"gpu-platform.dev/validated": "abc"}, "True", [])
    assert (failed[0], failed[1]["status"], len(failed[2])) == ({}, "False", 1)
    assert failed[1]["message"] == "gpu-count: expected 8, observed 7"


@pytest.mark.parametrize(("verdict", "kept"), [("pass", True), ("fail", False), ("unknown", False)])
def test_a_restarted_agent_keeps_since_when_the_condition_has_its_status(api, token, verdict, kept):
    earlier = "2026-11-20T08:00:00Z"
    live = {"type": "GpuPlatformValidated", "status": "True", "lastTransitionTime": earlier}
    api.node["status"] = {"conditions": [{"type": "Ready", "status": "False"}, live]}
    [(_, condition, _)] = marked(api, token, {"verdict": verdict})
    assert (condition["lastTransitionTime"] == earlier) == kept


def test_an_event_that_exists_already_is_no_error_and_another_refusal_is(api, token):
    api.answers = {"events": 409}
    marked(api, token, {"verdict": "fail", "checks": [FAILED]})
    api.answers = {"events": 403}
    with pytest.raises(ApiError, match="403"):
        marked(api, token, {"verdict": "fail", "checks": [FAILED]})


def test_a_long_message_is_cut_to_what_an_event_takes(api, token):
    many = [{**FAILED, "id": f"check-{index}", "observed": "x" * 300} for index in range(20)]
    [(_, condition, events)] = marked(api, token, {"verdict": "fail", "checks": many})
    assert len(condition["message"]) <= 1024
    sent = [body for path, _, body in api.requests if path.endswith("/events")]
    assert len(sent) == 10
    assert all(len(event["message"]) <= 1024 for event in sent)
    assert events


@pytest.fixture
def check(api, token, tmp_path):
    """Return a function that runs `check --publish` on a simulated node with faults."""
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(build_agent())
    profile = tmp_path / "profile.json"

    def run(*faults, machine="g4dn.xlarge", expect=None, **environment):
        profile.write_text(
            NodeProfile(machine_type=machine, driver_version=DRIVER, faults=faults).model_dump_json()
        )
        expected = tmp_path / "expectations.json"
        expected.write_text(json.dumps({"version": 1, "expect": expect or {}}))
        command = [sys.executable, "-m", "sandbox.nvml.run", "--profile", str(profile), "--", str(agent)]
        return subprocess.run(
            [*command, "check", "--format", "json", "--publish", *(["--expect", str(expected)] if expect else [])],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "NODE_NAME": "serve-1",
                "POD_NAME": "validate-serve-x",
                "POD_UID": "uid-2",
                "POD_NAMESPACE": "proofs",
                "GPU_PLATFORM_API_SERVER": api.url,
                "GPU_PLATFORM_TOKEN_FILE": token,
                "GPU_PLATFORM_CA_FILE": "",
                **environment,
            },
        )

    return run


def test_what_is_published_is_what_is_printed(check, api):
    done = check()
    [(path, _, sent)] = api.reports
    assert done.returncode == 0
    assert path.startswith("/api/v1/namespaces/proofs/configmaps/node-validation-serve-1?")
    assert json.loads(sent["data"]["report.json"]) == json.loads(done.stdout)
    assert json.loads(done.stdout)["pod_uid"] == "uid-2"


@pytest.mark.parametrize(("asked", "verdict"), [("lab-new", "unknown"), ("lab-old", "fail")])
def test_a_single_pass_judges_a_layout_by_the_label_of_the_node_too(check, api, asked, verdict):
    api.node["metadata"]["labels"] = {names.MIG_CONFIG_LABEL: asked}
    expect = {"mig-instances": {"value": [{"1g.10gb": 7}], "mig_config": "lab-old", "rolled": True}}
    assert json.loads(check(machine="a2-highgpu-1g", expect=expect).stdout)["verdict"] == verdict


def test_a_pass_that_could_not_be_published_is_no_pass_and_is_printed(check, api):
    api.status = 500
    done = check()
    assert done.returncode == 3
    assert json.loads(done.stdout)["verdict"] == "pass"
    assert "the report could not be published: API server: 500" in done.stderr


def test_a_failure_that_could_not_be_published_is_still_a_failure(check, tmp_path):
    done = check({"kind": "thermal", "index": 0}, GPU_PLATFORM_TOKEN_FILE=str(tmp_path / "none"))
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "fail"
    assert "could not be published" in done.stderr


GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
STARTING = {"key": STARTUP_TAINT, "value": "true", "effect": "NoSchedule"}
HELD = {"key": FAILED_TAINT, "value": "held-train-1", "effect": "NoSchedule"}


def tainted(api, token, verdict, taints, most=0):
    """Set a node's taints for a verdict.

    Return the agent's message, and the agent's requests by the last segment of the request path.
    """
    api.node["spec"] = {"taints": taints}
    report = {**REPORT, "verdict": verdict}
    said = NodeTaints(HERE, ApiServer(api.url, token, ""), Holding(most)).set(report, api.node, "now")
    return said, {
        path.partition("?")[0].rpartition("/")[2]: sent for path, _, sent in api.requests if sent is not None
    }


@pytest.mark.parametrize(
    ("verdict", "taints", "left"),
    [
        ("pass", [GPU, STARTING], [GPU]),
        ("pass", [STARTING], []),
        ("pass", [GPU], None),
        ("fail", [GPU, STARTING], None),
        ("unknown", [GPU, STARTING], None),
        ("fail", [GPU], None),
    ],
)
def test_the_startup_taint_goes_with_the_first_pass_alone(api, token, verdict, taints, left):
    said, sent = tainted(api, token, verdict, taints)
    wanted = {"metadata": {"resourceVersion": "7"}, "spec": {"taints": left}}
    assert (said, sent) == ("", {} if left is None else {"train-0": wanted})


@pytest.mark.parametrize(
    ("check", "expected", "observed", "again"),
    [
        ("mig-mode", "on", "off", True),
        ("mig-instances", "7 x 1g.10gb", "no instances", True),
        ("mig-mode", "off", "on", False),
        ("mig-instances", "7 x 1g.10gb", "6 x 1g.10gb", False),
        ("gpu-count", "8", "7", False),
    ],
)
@pytest.mark.parametrize("most", ["0", "1"])
def test_a_node_that_has_lost_its_instances_is_held_back_as_a_new_one(
    api, token, check, expected, observed, again, most
):
    api.node["spec"], api.leases = {"taints": [GPU]}, {"held-train-0": "train-7"}
    entry = {"id": check, "device": None, "verdict": "fail", "expected": expected, "observed": observed}
    report = {**REPORT, "verdict": "fail", "checks": [entry]}
    holding = Holding.of_environment({"GPU_PLATFORM_MOST_HELD": most})
    said = NodeTaints(HERE, ApiServer(api.url, token, ""), holding).set(report, api.node, "now")
    sent = [sent["spec"]["taints"] for path, _, sent in api.requests if sent and "/nodes/" in path]
    assert sent == ([[GPU, STARTING]] if again else [])
    assert bool(said) == (most == "1"), "with a maximum of 1, the agent reports that another node is held back"


@pytest.mark.parametrize("problem", ["driver-not-loaded", "version-mismatch"])
@pytest.mark.parametrize(
    ("layout", "held"),
    [([{"1g.10gb": 7}] * 8, True), ([{}] * 8, False), (None, False)],
    ids=["mig", "off", "none"],
)
def test_a_mig_node_that_loses_its_driver_is_held_back_as_a_new_node(api, token, problem, layout, held):
    api.node["spec"] = {"taints": [GPU]}
    gone = _closed(Reading(problem=problem, call="nvmlInitWithFlags"))
    checks = run_checks(gone, of_machine("dgx-h100", mig_layouts=layout, mig_source="stack"))
    report = {**REPORT, "verdict": "unknown", "checks": checks}
    holding = Holding.of_environment({"GPU_PLATFORM_MOST_HELD": "0"})
    NodeTaints(HERE, ApiServer(api.url, token, ""), holding).set(report, api.node, "now")
    sent = [sent["spec"]["taints"] for path, _, sent in api.requests if sent and "/nodes/" in path]
    assert sent == ([[GPU, STARTING]] if held else [])


def test_pools_without_a_gate_do_not_hold_back_unpartitioned_nodes(api, token):
    api.node["spec"] = {"taints": [GPU]}
    entry = {"id": "mig-mode", "device": None, "verdict": "fail", "expected": "on", "observed": "off"}
    report = {**REPORT, "verdict": "fail", "checks": [entry]}
    assert (
        NodeTaints(HERE, ApiServer(api.url, token, ""), Holding.of_environment({})).set(report, api.node, "now")
        == ""
    )
    assert api.requests == []


def test_a_lease_holds_a_failing_node_back_until_it_passes_or_is_gone(api, token):
    said, sent = tainted(api, token, "fail", [GPU], most=2)
    assert said == ""
    assert sent["held-train-0"]["spec"] == {"holderIdentity": "train-0"}
    assert [owner["kind"] for owner in sent["held-train-0"]["metadata"]["ownerReferences"]] == ["Node"]
    [_, taint] = sent["train-0"]["spec"]["taints"]
    assert taint == {"key": FAILED_TAINT, "value": "held-train-0", "effect": "NoSchedule", "timeAdded": "now"}
    api.requests.clear()
    _, sent = tainted(api, token, "pass", [GPU, HELD], most=2)
    assert sent["train-0"]["spec"]["taints"] == [GPU]
    assert api.leases == {}


def test_parts_of_a_pool_have_the_leases_of_the_whole(api, token):
    api.leases = {"held-lab-0": "train-7"}
    api.node["spec"] = {"taints": [GPU]}
    holding = Holding.of_environment({"GPU_PLATFORM_MOST_HELD": "1", "GPU_PLATFORM_HELD_WITH": "lab"})
    report = {**REPORT, "pool": "lab-halves", "verdict": "fail"}
    said = NodeTaints(HERE, ApiServer(api.url, token, ""), holding).set(report, api.node, "now")
    assert said == "the pool already has the maximum number of held-back nodes (1)"


@pytest.mark.parametrize("verdict", ["fail", "unknown"])
def test_a_node_that_is_held_back_stays_so_until_it_passes(api, token, verdict):
    api.leases = {"held-train-1": "train-0"}
    assert tainted(api, token, verdict, [GPU, HELD], most=2) == ("", {})
    assert api.leases == {"held-train-1": "train-0"}


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown"])
def test_a_held_node_is_released_where_failing_nodes_are_no_longer_held_back(api, token, verdict):
    api.leases = {"held-train-1": "train-0"}
    _, sent = tainted(api, token, verdict, [GPU, HELD], most=0)
    assert (sent["train-0"]["spec"]["taints"], api.leases) == ([GPU], {})


@pytest.mark.parametrize("verdict", ["pass", "unknown"])
def test_a_lease_ends_whoever_removed_the_taint(api, token, verdict):
    api.leases = {"held-train-0": "train-7", "held-train-1": "train-0"}
    assert tainted(api, token, verdict, [GPU], most=2)[0] == ""
    assert api.leases == {"held-train-0": "train-7"}


def test_a_lease_that_could_not_be_deleted_is_deleted_in_the_next_pass(api, token):
    api.leases, api.answers = {"held-train-1": "train-0"}, {"held-train-1": 503}
    with pytest.raises(ApiError, match="503"):
        tainted(api, token, "pass", [GPU, HELD], most=2)
    api.answers = {}
    _, sent = tainted(api, token, "pass", [GPU, HELD], most=2)
    assert (sent["train-0"]["spec"]["taints"], api.leases) == ([GPU], {})


def test_a_failing_node_whose_taint_was_removed_keeps_its_lease(api, token):
    api.leases = {"held-train-1": "train-0"}
    _, sent = tainted(api, token, "fail", [GPU], most=2)
    assert (sent["train-0"]["spec"]["taints"][1]["value"], list(api.leases)) == ("held-train-1", ["held-train-1"])


def test_a_held_node_whose_lease_was_deleted_takes_one_again(api, token):
    api.leases = {"held-train-0": "train-7"}
    assert tainted(api, token, "fail", [GPU, HELD], most=2)[0] == ""
    assert api.leases == {"held-train-0": "train-7", "held-train-1": "train-0"}


def test_no_more_nodes_are_held_back_than_allowed(api, token):
    api.leases = {"held-train-0": "train-7", "held-train-1": "train-8"}
    said, sent = tainted(api, token, "fail", [GPU], most=2)
    assert (said, sent) == ("the pool already has the maximum number of held-back nodes (2)", {})


def test_a_lower_maximum_releases_no_node(api, token):
    api.leases = {"held-train-0": "train-7", "held-train-1": "train-0"}
    assert tainted(api, token, "fail", [GPU, HELD], most=1) == ("", {})
    assert api.leases == {"held-train-0": "train-7", "held-train-1": "train-0"}


@pytest.mark.parametrize(
    ("leases", "lease"),
    [
        ({"held-train-2": "train-7", "held-train-3": "train-8"}, None),
        ({"held-train-3": "train-8"}, "held-train-0"),
        ({"held-train-0": "train-7", "held-train-1": "train-6", "held-train-2": "train-8"}, None),
        ({"held-train-big-0": "train-big-0", "held-train-big-1": "train-big-1"}, "held-train-0"),
    ],
)
def test_nodes_above_a_lower_maximum_are_counted(leases, lease, api, token):
    api.leases = dict(leases)
    said, _ = tainted(api, token, "fail", [GPU], most=2)
    assert (said == "", api.leases) == (lease is not None, {**leases, **({lease: "train-0"} if lease else {})})


def test_a_held_node_without_a_lease_takes_one_above_the_maximum(api, token):
    api.leases = {"held-train-0": "train-7", "held-train-1": "train-8"}
    assert tainted(api, token, "fail", [GPU, HELD], most=2)[0] == ""
    assert api.leases["held-train-2"] == "train-0"


def test_nodes_that_fail_at_once_do_not_exceed_a_lower_maximum(api, token):
    class Listed(dict):
        """Fake Leases. Their list lacks the newest Lease, as if it had been created after the list was read."""

        def items(self):
            return dict(list(super().items())[:-1]).items()

    api.leases = Listed({"held-train-3": "train-8", "held-train-0": "train-7"})
    said, sent = tainted(api, token, "fail", [GPU], most=2)
    assert (said != "", list(sent)) == (True, ["held-train-0"])


def test_the_taints_of_a_node_that_somebody_else_changes_are_read_again(api, token):
    api.answers = {"train-0?fieldManager=gpu-platform-node-agent": 409}
    with pytest.raises(ApiError, match="409"):
        tainted(api, token, "pass", [GPU, STARTING])
