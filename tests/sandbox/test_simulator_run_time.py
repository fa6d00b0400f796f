"""How long simulated pods run and how they end: first without a cluster, then as Jobs with the real Job
controller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from simulated_cluster import TOLERATION, Cluster

from gpu_platform.base import names
from sandbox.control_plane import Status
from sandbox.simulator.run_time import (
    DEFAULT_SECONDS,
    Ending,
    command_seconds,
    ended_status,
    ending_of,
    seconds_left,
)
from tests.support.eventually import eventually

START = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        (["sleep", "600"], 600.0),
        (["/bin/sleep", "10m"], 600.0),
        (["sleep", "infinity"], math.inf),
        (["sh", "-c", "sleep 600"], 600.0),
        (["/bin/bash", "-c", " sleep 1.5h "], 5400.0),
        (["sh", "-c", "sleep 600; exit 3"], DEFAULT_SECONDS),
        (["sh", "-c", "sleep $SECONDS"], DEFAULT_SECONDS),
        (["sh", "-c", "sleep 600 && python train.py"], DEFAULT_SECONDS),
        (["sh", "-c", "sleep '600"], DEFAULT_SECONDS),
        (["python", "train.py"], DEFAULT_SECONDS),
        (["sleep"], DEFAULT_SECONDS),
    ],
)
def test_a_command_shows_a_duration_only_where_it_is_certain(command: list[str], seconds: float) -> None:
    assert command_seconds({"name": "main", "command": command}) == seconds
    assert command_seconds({"name": "main", "command": command[:1], "args": command[1:]}) == seconds


def test_arguments_without_a_command_show_no_duration() -> None:
    assert command_seconds({"name": "main", "args": ["sleep", "600"]}) == DEFAULT_SECONDS


def test_a_pod_runs_as_long_as_its_longest_container() -> None:
    found = ending_of(running(*(["sleep", str(count)] for count in (5, 30))))
    assert found == Ending(30.0)


def test_the_annotation_comes_before_the_command() -> None:
    found = ending_of(running(["sleep", "5"], annotations={names.SANDBOX_RUN_SECONDS_ANNOTATION: "90"}))
    assert found == Ending(90.0)


def test_a_pod_that_belongs_to_no_job_runs_until_it_is_deleted() -> None:
    assert ending_of(running(["sleep", "5"], owner="ReplicaSet")) is None


def test_a_pod_that_belongs_to_no_job_ends_on_request() -> None:
    pod = running([], owner="ReplicaSet", annotations={names.SANDBOX_RUN_SECONDS_ANNOTATION: "5"})
    assert ending_of(pod) == Ending(5.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.SANDBOX_RUN_SECONDS_ANNOTATION, "ten minutes"),
        (names.SANDBOX_RUN_SECONDS_ANNOTATION, "-1"),
        (names.SANDBOX_RUN_SECONDS_ANNOTATION, "nan"),
        (names.SANDBOX_EXIT_CODE_ANNOTATION, "300"),
        (names.SANDBOX_EXIT_CODE_ANNOTATION, "OOM"),
    ],
)
def test_an_annotation_that_cannot_be_read_fails_the_pod_and_is_named(name: str, value: str) -> None:
    pod = running([], annotations={name: value})
    found = ending_of(pod)
    assert found is not None
    assert found.seconds == 0
    status = ended_status(pod, found, START)
    assert status["phase"] == "Failed"
    assert status["reason"] == "InvalidAnnotation"
    assert name in status["message"]
    assert repr(value) in status["message"]


def test_the_time_counts_from_the_start_of_the_last_container() -> None:
    pod = running(["sleep", "600"])
    ending = ending_of(pod)
    assert ending is not None
    assert seconds_left(pod, ending, START + timedelta(seconds=599)) == 1
    assert seconds_left(pod, ending, START + timedelta(seconds=601)) == -1


def test_a_container_that_fails_under_on_failure_starts_again_and_is_counted() -> None:
    pod = running([], annotations={names.SANDBOX_EXIT_CODE_ANNOTATION: "42"}, restart="OnFailure")
    status = ended_status(pod, Ending(1.0, 42, "Error"), START + timedelta(seconds=1))
    assert "phase" not in status
    (container,) = status["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 42
    assert container["state"] == {"running": {"startedAt": "2026-11-22T10:00:01Z"}}


def test_the_first_container_fails_and_the_others_complete() -> None:
    status = ended_status(running([], []), Ending(1.0, 137, "OOMKilled"), START)
    first, second = (each["state"]["terminated"] for each in status["containerStatuses"])
    assert (first["exitCode"], first["reason"]) == (137, "OOMKilled")
    assert (second["exitCode"], second["reason"]) == (0, "Completed")


def running(
    *commands: list[str],
    annotations: Mapping[str, str] | None = None,
    owner: str = "Job",
    restart: str = "Never",
) -> dict[str, Any]:
    """Return a pod that has been running since START, with one container per command."""
    containers = [{"name": f"c{index}", "command": command} for index, command in enumerate(commands)]
    state = {"running": {"startedAt": START.isoformat()}}
    return {
        "metadata": {"name": "pod", "annotations": annotations, "ownerReferences": [{"kind": owner}]},
        "spec": {"containers": containers, "restartPolicy": restart},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": each["name"], "state": state} for each in containers],
        },
    }


# -- on the real Job controller -------------------------------------------------------------------------------

JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
def cluster(sandbox: Status) -> Iterator[Cluster]:
    with Cluster(sandbox) as cluster:
        yield cluster


def job(
    cluster: Cluster, name: str, *, annotations: Mapping[str, str], command: list[str], **spec: Any
) -> dict[str, str]:
    """Run a Job on a separate node. Return the types and reasons of its conditions once it has ended."""
    node = cluster.node("g4dn.xlarge")
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {names.HOSTNAME_LABEL: node},
        "tolerations": [TOLERATION],
        "containers": [{"name": "main", "image": "none", "command": command}],
    }
    template = {"metadata": {"annotations": dict(annotations)}, "spec": pod}
    cluster.make(JOBS, {"metadata": {"name": name}, "spec": {"template": template, **spec}})

    def conditions() -> dict[str, str]:
        found = cluster.api.get(f"{JOBS}/{name}")["status"].get("conditions") or ()
        ended = {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}
        return ended if {"Complete", "Failed"} & set(ended) else {}

    return eventually(conditions)


@pytest.mark.sandbox
def test_a_job_runs_as_long_as_its_command_says(cluster: Cluster) -> None:
    assert "Complete" in job(cluster, "sleeps", annotations={}, command=["sh", "-c", "sleep 3"])
    status = cluster.api.get(f"{JOBS}/sleeps")["status"]
    took = datetime.fromisoformat(status["completionTime"]) - datetime.fromisoformat(status["startTime"])
    assert took >= timedelta(seconds=3)


@pytest.mark.sandbox
def test_a_job_that_fails_on_request_ends_at_its_backoff_limit(cluster: Cluster) -> None:
    failing = {names.SANDBOX_EXIT_CODE_ANNOTATION: "3", names.SANDBOX_RUN_SECONDS_ANNOTATION: "0"}
    found = job(cluster, "fails", annotations=failing, command=["python"], backoffLimit=1)
    assert found["Failed"] == "BackoffLimitExceeded"
    assert cluster.api.get(f"{JOBS}/fails")["status"]["failed"] == 2


@pytest.mark.sandbox
def test_a_pod_failure_policy_sees_the_exit_code(cluster: Cluster) -> None:
    failing = {names.SANDBOX_EXIT_CODE_ANNOTATION: "42", names.SANDBOX_EXIT_REASON_ANNOTATION: "BadData"}
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    found = job(
        cluster,
        "stops",
        annotations=failing,
        command=["python"],
        backoffLimit=6,
        podFailurePolicy={"rules": [rule]},
    )
    assert found["Failed"] == "PodFailurePolicy"
    assert cluster.api.get(f"{JOBS}/stops")["status"]["failed"] == 1
