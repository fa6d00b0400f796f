"""The agent's service is ready only while the node passes its checks, the checks are recent, and reports are being
published.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from agent_tables import DRIVER, of_machine

from gpu_platform.base import names
from gpu_platform.planning.mig.progress import CHANGE_SECONDS, IN_PROGRESS
from sandbox.nvml import NodeProfile
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.http_servers import start_server, stop_server
from tests.support.ports import free_port
from validators.agent import serve
from validators.agent.api_server import ApiError
from validators.agent.calls import DID_NOT_RETURN
from validators.agent.checks import run_checks
from validators.agent.expectations import Expectations
from validators.agent.mig_change import MigChange
from validators.agent.nvml import _closed
from validators.agent.report import Identity
from validators.agent.serve import Publisher, Readiness
from validators.agent.snapshot import Reading, Snapshot
from validators.zipapp import build_agent


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def report(verdict="pass", **checks):
    return {
        "verdict": verdict,
        "expectations_hash": "h",
        "pod_uid": "u",
        "checks": [
            {"id": check, "device": None, "verdict": found, "severity": "critical"}
            for check, found in checks.items()
        ],
    }


def test_nothing_is_ready_before_the_first_check_has_finished():
    assert Readiness(60).why_not() == "the first check has not finished"


def test_a_node_that_passes_is_ready():
    readiness = Readiness(60)
    readiness.set(report(ecc="pass"), "")
    assert readiness.why_not() == ""


def test_a_node_that_does_not_pass_is_not_ready_and_says_what_is_wrong():
    readiness = Readiness(60)
    readiness.set(report("fail", ecc="pass", gpu_count="fail", mig="not-applicable"), "")
    assert readiness.why_not() == "fail: gpu_count"


def test_a_report_that_nobody_got_is_not_ready():
    readiness = Readiness(60)
    readiness.set(report(), "API server: 403")
    assert readiness.why_not() == "API server: 403"


def test_a_check_that_finished_too_long_ago_is_not_ready():
    clock = Clock()
    readiness = Readiness(60, clock)
    readiness.set(report(), "")
    clock.now = 61
    assert readiness.why_not() == "the last check finished 61 s ago"


def test_changed_reports_are_published_at_once_others_every_ten_minutes():
    clock, sent = Clock(), []
    publisher = Publisher(sent.append, clock)
    for moment, ecc in ((0, "pass"), (30, "pass"), (60, "fail"), (90, "fail"), (659, "fail"), (660, "fail")):
        clock.now = moment
        publisher.offer({**report(ecc=ecc), "time": moment})
    assert [each["time"] for each in sent] == [0, 60, 660]


def test_a_driver_that_goes_away_on_a_partitioned_node_is_published_at_once():
    clock, sent = Clock(), []
    publisher = Publisher(sent.append, clock)
    expected = of_machine("dgx-h100", mig_layouts=[{"1g.10gb": 7}] * 8, mig_source="stack")
    for moment, problem in ((0, DID_NOT_RETURN), (30, "driver-not-loaded"), (60, "driver-not-loaded")):
        clock.now = moment
        checks = run_checks(_closed(Reading(problem=problem, call="nvmlInitWithFlags")), expected)
        publisher.offer({**report(), "checks": checks, "time": moment})
    assert [each["time"] for each in sent] == [0, 30]


def test_a_report_that_could_not_be_published_is_offered_again():
    answers = iter([ApiError("API server: 500"), None])

    def publish(_):
        if (answer := next(answers)) is not None:
            raise answer

    publisher = Publisher(publish, Clock())
    assert [publisher.offer(report()), publisher.offer(report())] == ["API server: 500", ""]


@pytest.fixture
def service(tmp_path):
    """Return a function that starts the agent's service on a simulated node and returns its process and port."""
    running = []

    def start(*faults, expect=None, machine="g4dn.xlarge", **environment):
        agent, profile = tmp_path / "agent.pyz", tmp_path / "profile.json"
        expectations = tmp_path / "expectations.json"
        agent.write_bytes(build_agent())
        node = NodeProfile(machine_type=machine, driver_version=DRIVER, faults=faults)
        profile.write_text(node.model_dump_json())
        expected = {"gpu-count": {"value": 1}, **(expect or {})}
        expectations.write_text(json.dumps({"version": 1, "expect": expected}))
        port = free_port()
        command = [sys.executable, "-m", "sandbox.nvml.run", "--profile", str(profile), "--", str(agent), "serve"]
        command += ["--expect", str(expectations), "--port", str(port)]
        outside = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
        process = subprocess.Popen(command, env=outside | environment, stderr=subprocess.DEVNULL)
        running.append(process)
        return process, port

    yield start
    for process in running:
        process.kill()
        process.wait()


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_for(port, path, wanted):
    """Return the first answer to `path` for which `wanted` returns true."""

    def answer():
        try:
            found = get(port, path)
        except OSError:  # the service is not listening yet
            return None
        return found if wanted(found) else None

    found = eventually(answer)
    assert found is not None
    return found


def test_a_service_on_a_node_that_passes_publishes_it_and_is_ready(service, api, token):
    _, port = service(
        NODE_NAME="serve-1",
        POD_NAMESPACE="proofs",
        GPU_PLATFORM_API_SERVER=api.url,
        GPU_PLATFORM_TOKEN_FILE=token,
    )
    assert wait_for(port, "/ready", lambda answer: answer[0] == 200) == (200, "pass\n")
    [(_, _, sent)] = api.reports
    assert json.loads(sent["data"]["report.json"]) == json.loads(get(port, "/report")[1])


def test_the_gpus_are_not_read_while_the_mig_manager_changes_them(service, api, token):
    api.node["metadata"]["labels"] = {names.MIG_STATE_LABEL: "pending"}
    _, port = service(
        NODE_NAME="train-0",
        POD_NAMESPACE="proofs",
        GPU_PLATFORM_API_SERVER=api.url,
        GPU_PLATFORM_TOKEN_FILE=token,
        expect={"mig-mode": {"value": False}},
    )
    assert eventually(lambda: api.requests)
    assert {path.partition("?")[0] for path, *_ in api.requests} == {"/api/v1/nodes/train-0"}
    assert get(port, "/ready") == (503, "the first check has not finished\n")
    api.node["metadata"]["labels"] = {names.MIG_STATE_LABEL: "success"}
    assert wait_for(port, "/ready", lambda answer: answer[0] == 200) == (200, "pass\n")


@pytest.mark.parametrize(("asked", "verdict"), [("lab-new", "unknown"), ("lab-old", "fail")])
def test_a_node_that_has_its_next_layout_is_not_failed_by_the_one_before(service, api, token, asked, verdict):
    api.node["metadata"]["labels"] = {names.MIG_CONFIG_LABEL: asked, names.MIG_STATE_LABEL: "success"}
    _, port = service(
        NODE_NAME="train-0",
        POD_NAMESPACE="proofs",
        GPU_PLATFORM_API_SERVER=api.url,
        GPU_PLATFORM_TOKEN_FILE=token,
        machine="a2-highgpu-1g",
        expect={"mig-instances": {"value": [{"1g.10gb": 7}], "mig_config": "lab-old", "rolled": True}},
    )
    wait_for(port, "/report", lambda answer: answer[0] == 200)
    assert json.loads(get(port, "/report")[1])["verdict"] == verdict


@pytest.mark.parametrize("state", IN_PROGRESS)
def test_a_mig_manager_that_has_stopped_is_not_waited_for(state, api, token, monkeypatch):
    monkeypatch.setenv("GPU_PLATFORM_API_SERVER", api.url)
    monkeypatch.setenv("GPU_PLATFORM_TOKEN_FILE", token)
    api.node["metadata"]["labels"] = {names.MIG_STATE_LABEL: state}
    clock = Clock()
    change = MigChange(Identity("train-0"), clock)
    assert change.why_wait() == f"the MIG manager is changing the GPUs: {state}"
    clock.now = CHANGE_SECONDS
    assert change.why_wait() == ""


def test_a_service_that_cannot_publish_keeps_its_report_and_is_not_ready(service):
    _, port = service()
    _, text = wait_for(port, "/report", lambda answer: answer[0] == 200)
    assert json.loads(text)["verdict"] == "pass"
    assert get(port, "/ready") == (503, "not in a cluster: KUBERNETES_SERVICE_HOST is not set\n")
    assert get(port, "/nothing")[0] == 404


def test_a_service_on_a_failing_node_is_not_ready_and_ends_on_a_signal(service):
    process, port = service({"kind": "gpu-missing", "index": 0})
    answer = wait_for(port, "/ready", lambda answer: "first check" not in answer[1])
    assert answer == (503, "fail: gpu-count\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0


def test_a_client_that_holds_connections_does_not_block_others():
    readiness = Readiness(60)
    readiness.set(report(), "")
    server = serve._Server(0, readiness)
    port = server.server_address[1]
    start_server(server)
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(serve.MOST_CONNECTIONS_OF_ADDRESS)]
    try:
        with socket.create_connection(("127.0.0.1", port)) as refused:
            assert refused.recv(1) == b""
        with urllib.request.urlopen(f"http://[::1]:{port}/ready", timeout=PATIENCE_SECONDS) as answer:
            assert answer.status == 200
        for connection in held:
            connection.close()
        assert eventually(lambda: answered(port)) == (200, "pass\n")
    finally:
        for connection in held:
            connection.close()
        stop_server(server)


def answered(port):
    try:
        return get(port, "/ready")
    except OSError:
        return None


def test_an_agent_is_restarted_if_nvml_does_not_answer_for_long() -> None:
    now = [1.0]
    readiness = Readiness(stale_seconds=1e9, clock=lambda: now[0])
    blind = {"verdict": "unknown", "checks": [{"id": "nvml", "verdict": "unknown", "observed": "NVML hangs"}]}
    sees = {
        "verdict": "fail",
        "checks": [
            {"id": "nvml", "verdict": "pass", "observed": "answers"},
            {"id": "gpu-count", "verdict": "fail", "observed": "7"},
        ],
    }
    readiness.set(blind, "")
    now[0] += 299
    readiness.set(blind, "")
    assert readiness.why_not_alive() == ""
    now[0] += 2
    assert "NVML has not answered for 301 s" in readiness.why_not_alive()
    readiness.set(sees, "")
    assert readiness.why_not_alive() == "", "a failed check must not restart the agent"


@pytest.mark.parametrize("worked", [True, False])
def test_a_replaced_driver_restarts_an_agent_whose_library_worked(
    worked: bool,
) -> None:
    readiness = Readiness(stale_seconds=1e9, clock=lambda: 1.0)
    if worked:
        readiness.set({"verdict": "pass", "checks": run_checks(Snapshot(), Expectations())}, "")
    replaced = _closed(Reading(problem="version-mismatch", call="nvmlInitWithFlags"))
    readiness.set({"verdict": "unknown", "checks": run_checks(replaced, Expectations())}, "")
    assert ("the driver was replaced" in readiness.why_not_alive()) == worked
