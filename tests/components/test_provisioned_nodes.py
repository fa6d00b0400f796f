"""Queued provisioning on GKE: the nodes that a workload requests before it starts, and their lifetime."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning.conftest import team
from tests.stack.field_cases import STACKS
from tests.support.definitions import CRDS, unknown_fields
from tests.support.recorded import Recorded, record_platform

IMAGE = "registry.example.com/train@sha256:" + "0" * 64
SECONDS = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
RUN = {"pool": "train", "image": IMAGE, "run_as_user": 1000, "command": ["run"]}
BEFORE_THE_START = 1800


def recorded(**flex: Any) -> Recorded:
    """Record the resources of a stack with a queued pool and one job for each API. `flex` sets fields of the
    pool's capacity.
    """
    stack = STACKS["gke"]
    queued = {
        **stack["pools"][0],
        "name": "train",
        "capacity": {"type": "flex-start", "queued": True, **flex},
        "count": {"desired": 0, "max": 4},
    }
    own = team(
        quota={"gpus": 8},
        members=["group:vision@example.com"],
        training_jobs=[
            {**RUN, "name": f"pretrain-{api}", "api": api, "deadline": "2h"}
            for api in ("job", "jobset", "trainjob")
        ],
        batch_jobs=[
            {**RUN, "name": "sweep", "deadline": "3h"},
            {**RUN, "name": "nightly", "deadline": "3h", "schedule": "0 2 * * *"},
        ],
        notebooks=[{"pool": "train", "image": IMAGE, "run_as_user": 1000, "name": "lab", "deadline": "4h"}],
        inference_services=[{**RUN, "name": "chat"}],
    )
    addons = {"jobset": "install", "trainer": "install"}
    return record_platform({**stack, "queueing": {}, "pools": [queued], "teams": [own], "addons": addons})


@pytest.fixture(scope="module")
def found() -> Recorded:
    return recorded()


def inputs(found: Recorded, kind: str, name: str) -> dict[str, Any]:
    return next(
        dict(one.inputs)
        for one in found.resources
        if one.inputs.get("kind") == kind and one.inputs["metadata"]["name"] == name
    )


def test_an_admission_check_requests_nodes_and_pods_run_only_on_them(
    found: Recorded,
) -> None:
    config = inputs(found, "ProvisioningRequestConfig", "nodes-of-train")
    assert config["spec"] == {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": ["nvidia.com/gpu"],
        "retryStrategy": {"backoffLimitCount": 2**31 - 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
        "podSetUpdates": {
            "nodeSelector": [
                {
                    "key": "autoscaling.gke.io/provisioning-request",
                    "valueFromProvisioningClassDetail": "ResizeRequestName",
                }
            ]
        },
    }
    check = inputs(found, "AdmissionCheck", "nodes-of-train")
    assert check["spec"] == {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {
            "apiGroup": "kueue.x-k8s.io",
            "kind": "ProvisioningRequestConfig",
            "name": "nodes-of-train",
        },
    }


def test_the_queue_requests_nodes_only_on_the_pools_flavor(found: Recorded) -> None:
    spec = inputs(found, "ClusterQueue", "vision")["spec"]
    flavors = [one["name"] for group in spec["resourceGroups"] for one in group["flavors"]]
    (check,) = spec["admissionChecksStrategy"]["admissionChecks"]
    assert check["name"] == "nodes-of-train"
    (flavor,) = check["onFlavors"]
    assert flavor in flavors
    assert inputs(found, "ResourceFlavor", flavor)["spec"]["nodeLabels"]["gpu-platform.dev/pool"] == "train"


@pytest.mark.parametrize(
    ("kind", "name", "hours"),
    [
        ("Job", "pretrain-job", 2),
        ("JobSet", "pretrain-jobset", 2),
        ("TrainJob", "pretrain-trainjob", 2),
        ("Job", "sweep", 3),
        ("CronJob", "nightly", 3),
        ("CronJob", "lab", 4),
    ],
)
def test_nodes_of_a_job_live_for_its_start_and_deadline(found: Recorded, kind: str, name: str, hours: int) -> None:
    """Kueue reads the annotation from the object that it queues. For a CronJob, it queues each Job."""
    one = inputs(found, kind, name)
    queued = one["spec"]["jobTemplate"] if kind == "CronJob" else one
    assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    assert queued["metadata"]["annotations"][SECONDS] == str(hours * 3600 + BEFORE_THE_START)
    if kind == "CronJob":
        assert SECONDS not in one["metadata"].get("annotations", {})


def test_nodes_live_no_longer_than_those_of_the_pool() -> None:
    job = inputs(recorded(max_run_duration="2h"), "Job", "pretrain-job")
    assert job["metadata"]["annotations"][SECONDS] == "7200"


def test_a_service_has_no_limit_on_the_life_of_its_nodes(found: Recorded) -> None:
    assert SECONDS not in str(inputs(found, "Deployment", "chat"))


def test_pools_without_queued_provisioning_have_neither_check_nor_annotation() -> None:
    plain = recorded(queued=False)
    kinds = {one.inputs.get("kind") for one in plain.resources}
    assert not {"AdmissionCheck", "ProvisioningRequestConfig"} & kinds
    assert SECONDS not in str([dict(one.inputs) for one in plain.resources])


@pytest.mark.skipif(not CRDS, reason="GPU_PLATFORM_CRDS is not set to a folder with CRDs")
@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ("AdmissionCheck", "nodes-of-train", "admissionchecks"),
        ("ProvisioningRequestConfig", "nodes-of-train", "provisioningrequestconfigs"),
        ("ClusterQueue", "vision", "clusterqueues"),
    ],
)
def test_kueue_objects_have_only_fields_of_their_crds(found: Recorded, kind: str, name: str, file: str) -> None:
    assert unknown_fields(inputs(found, kind, name), f"kueue.x-k8s.io_{file}") == []
