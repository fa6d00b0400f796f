"""Workloads that a stack file declares for a team run on the real control plane with Kueue's controller."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.live.client import KubernetesClient
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.impersonation import member
from tests.e2e.queues import QUEUE, stack
from tests.support.eventually import eventually
from tests.support.restricted import violations

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-team-workloads")]

Object = dict[str, Any]
IMAGE = "registry.example.com/train:1.0"
RUN: Object = {"pool": "train", "image": IMAGE, "command": ["sleep", "infinity"], "run_as_user": 1000}
KEPT = {"directory": "/checkpoints", "storage_class": "fast", "size": "10Gi"}
JOB: Object = {
    **RUN,
    "name": "pretrain",
    "gpus": 4,
    "replicas": 2,
    "checkpoints": {**KEPT, "storage_class": "shared"},
}
SERVICE: Object = {"name": "chat", "pool": "train", "image": IMAGE, "gpus": 2, "replicas": 2, "run_as_user": 1000}
BATCH: Object = {**RUN, "name": "embed", "replicas": 1, "parts": 2}
NOTEBOOK: Object = {"name": "lab", "pool": "train", "run_as_user": 1000}


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


@pytest.fixture
def declared(kueue_sandbox: Status) -> Object:
    platform = copy.deepcopy(stack(kueue_sandbox))
    platform["teams"][0] |= {
        "training_jobs": [JOB],
        "inference_services": [SERVICE],
        "batch_jobs": [BATCH],
        "notebooks": [NOTEBOOK],
    }
    return platform


@pytest.fixture(scope="module", autouse=True)
def volume(kueue_sandbox: Status) -> None:
    """Create the volume that a cloud's storage class would create for the claim. The sandbox has no storage
    driver.
    """
    KubernetesClient(kueue_sandbox.kubeconfig).create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "checkpoints"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "shared",
                "nfs": {"server": "nfs.example.com", "path": "/"},
            },
        }
    )


@pytest.fixture
def up(platform: Platform, declared: Object) -> Platform:
    if platform.state.get("shop") != declared:
        ran = platform.up(declared)
        assert ran.code == 0, ran.err
    return platform


def pods(client: KubernetesClient, name: str) -> list[Object]:
    return list(client.objects("v1", "Pod", namespace="vision", label_selector=f"{names.NAME_LABEL}={name}"))


def running(client: KubernetesClient, name: str) -> int:
    return sum(one["status"].get("phase") == "Running" for one in pods(client, name))


def find(client: KubernetesClient, api_version: str, kind: str, name: str) -> Object:
    found = client.get(api_version, kind, name, "vision")
    assert found is not None, f"{kind} {name} is gone"
    return found


def ended(client: KubernetesClient, pod: Object, code: int) -> None:
    """End the only container of a pod with an exit code, as its kubelet would report."""
    container = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
    state = {"terminated": {"exitCode": code, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": [{**container, "state": state}]}
    path = client.resource("v1", "Pod").path("vision", pod["metadata"]["name"]) + "/status"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod["metadata"]["name"]}, "status": status}
    connection: Any = client._connection
    connection.request("PATCH", path, "ending a pod", body=body, content_type="application/merge-patch+json")


def changes(ran: Any) -> set[tuple[str, str, str]]:
    assert ran.code == 0, ran.err
    return {(one["action"], one["kind"], one["name"]) for one in ran.json["changes"]["changes"]}


def test_all_pods_are_restricted_and_a_second_up_changes_nothing(up: Platform, declared: Object) -> None:
    eventually(lambda: running(up.client, "pretrain") == 2)
    eventually(lambda: running(up.client, "chat") == 2)
    eventually(lambda: running(up.client, "embed") == 1)
    for name in ("pretrain", "chat", "embed"):
        for one in pods(up.client, name):
            assert violations(one["spec"]) == []
    job = find(up.client, "batch/v1", "Job", "pretrain")
    assert job["metadata"]["labels"][QUEUE]
    ran = up.up(declared)
    assert changes(ran) == set()


def test_pods_of_a_training_job_find_the_first_one_by_its_name(up: Platform) -> None:
    eventually(lambda: running(up.client, "pretrain") == 2)
    service = find(up.client, "v1", "Service", "pretrain")
    hosts = {(one["spec"]["hostname"], one["spec"]["subdomain"]) for one in pods(up.client, "pretrain")}
    assert hosts == {("pretrain-0", "pretrain"), ("pretrain-1", "pretrain")}
    selector = service["spec"]["selector"].items()
    assert all(selector <= one["metadata"]["labels"].items() for one in pods(up.client, "pretrain"))
    for one in pods(up.client, "pretrain"):
        env = {given["name"]: given.get("value") for given in one["spec"]["containers"][0]["env"]}
        assert env["PET_RDZV_ENDPOINT"] == "pretrain-0.pretrain:29500"


def test_a_member_starts_a_notebook_of_the_cron_job_and_its_pod_runs(up: Platform) -> None:
    ada = member(up.kubeconfig, "vision")
    template = find(ada, "batch/v1", "CronJob", "lab")["spec"]
    assert template["suspend"] is True
    # The same object that `kubectl create job ana --from=cronjob/lab` creates.
    started = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "ana",
            "namespace": "vision",
            "labels": template["jobTemplate"]["metadata"]["labels"],
        },
        "spec": template["jobTemplate"]["spec"],
    }
    ada.create(started)
    try:
        # A real notebook server runs until it is idle, but containers in the sandbox end immediately.
        eventually(lambda: {one["status"].get("phase") for one in pods(ada, "lab")} & {"Running", "Succeeded"})
    finally:
        ada.delete(find(ada, "batch/v1", "Job", "ana"))
        eventually(lambda: not pods(up.client, "lab"))


def test_a_changed_job_is_started_again_and_preview_announces_it(up: Platform, declared: Object) -> None:
    before = find(up.client, "batch/v1", "Job", "pretrain")["metadata"]["uid"]
    declared["teams"][0]["training_jobs"] = [{**JOB, "image": "registry.example.com/train:2.0"}]
    file = up.write(declared)
    planned = changes(up.run("preview", str(file), "--engine", "embedded", "--format", "json"))
    assert ("replace", "Job.batch", "pretrain") in planned
    assert find(up.client, "batch/v1", "Job", "pretrain")["metadata"]["uid"] == before
    ran = up.up(declared)
    assert changes(ran) == planned
    assert find(up.client, "batch/v1", "Job", "pretrain")["metadata"]["uid"] != before
    eventually(lambda: running(up.client, "pretrain") == 2)
    assert {one["spec"]["containers"][0]["image"] for one in pods(up.client, "pretrain")} == {
        "registry.example.com/train:2.0"
    }


def test_checkpoints_outlive_the_entry(up: Platform, declared: Object) -> None:
    claim = find(up.client, "v1", "PersistentVolumeClaim", "pretrain-checkpoints")
    uid = claim["metadata"]["uid"]
    without = copy.deepcopy(declared)
    without["teams"][0]["training_jobs"] = []
    file = up.write(without)
    planned = changes(up.run("preview", str(file), "--engine", "embedded", "--format", "json"))
    assert ("retain", "PersistentVolumeClaim", "pretrain-checkpoints") in planned
    assert changes(up.up(without)) == planned
    assert find(up.client, "v1", "PersistentVolumeClaim", "pretrain-checkpoints")["metadata"]["uid"] == uid
    assert up.client.get("batch/v1", "Job", "pretrain", "vision") is None
    assert changes(up.up(without)) == set()


@pytest.mark.thorough  # test_team_retention.py tests that a returning team finds its data
def test_checkpoints_outlive_the_team_and_are_found_again(up: Platform, declared: Object) -> None:
    claim = find(up.client, "v1", "PersistentVolumeClaim", "pretrain-checkpoints")
    uid = claim["metadata"]["uid"]
    gone = copy.deepcopy(declared)
    del gone["teams"][0]
    assert ("retain", "Namespace", "vision") in changes(up.up(gone))
    assert find(up.client, "v1", "PersistentVolumeClaim", "pretrain-checkpoints")["metadata"]["uid"] == uid

    assert up.up(declared).code == 0
    claim = find(up.client, "v1", "PersistentVolumeClaim", "pretrain-checkpoints")
    assert claim["metadata"]["uid"] == uid
    assert names.RETAINED_LABEL not in claim["metadata"]["labels"]
    eventually(lambda: running(up.client, "pretrain") == 2)


def test_a_job_that_fails_is_reported_by_up_which_does_not_fail(up: Platform, declared: Object) -> None:
    job = find(up.client, "batch/v1", "Job", "embed")
    eventually(lambda: running(up.client, "embed") == 1)
    for one in pods(up.client, "embed"):
        ended(up.client, one, 127)
    eventually(lambda: "Failed" in str(find(up.client, "batch/v1", "Job", "embed")["status"].get("conditions")))
    assert find(up.client, "batch/v1", "Job", "embed")["metadata"]["uid"] == job["metadata"]["uid"]
    ran = up.up(declared)
    assert ran.code == 0
    (told,) = ran.json["unready_workloads"]
    assert (told["name"], "exit code 127" in told["reason"]) == ("embed", True)
