"""On GKE, pods that mount a bucket receive a sidecar container that reads the bucket. The main container requests
fewer CPUs to make room for the sidecar.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from tests.components.gke.gke_recorded import CREATED, platform_of
from tests.components.test_team_workloads import templates
from tests.support.recorded import Recorded, record_platform

ANNOTATION = "gke-gcsfuse/volumes"
RUN: dict[str, Any] = {
    "pool": "train",
    "gpus": 8,
    "image": f"registry.example.com/train@sha256:{'0' * 64}",
    "run_as_user": 1000,
}
STORAGE = {
    "data": {"type": "bucket", "bucket": "acme-data"},
    "runs": {"type": "bucket", "bucket": "acme-runs", "purpose": "checkpoints"},
}
DATA = {"volumes": {"data": "/data"}}
ENTRIES: dict[str, dict[str, Any]] = {
    "training_jobs": {**DATA, "command": ["run"]},
    "inference_services": DATA,
    "batch_jobs": {**DATA, "command": ["run"], "parts": 1},
    "notebooks": DATA,
}


def recorded(field: str, **entry: Any) -> Recorded:
    team: dict[str, Any] = {
        "name": "vision",
        "quota": {"gpus": 8},
        "priority": "training",
        "members": ["group:vision@example.com"],
        field: [{**RUN, "name": "one", **entry}],
    }
    platform = platform_of({"name": "train", "count": {"desired": 1}}, cluster=CREATED)
    return record_platform({**platform, "storage": STORAGE, "teams": [team]})


def pods(found: Recorded) -> list[dict[str, Any]]:
    """Return the metadata and spec of each pod of the declared workload."""
    kinds = {"Job", "CronJob", "Deployment"}
    objects = [one.inputs for one in found.resources if one.inputs.get("kind") in kinds]
    whole = [
        one for one in objects if one["metadata"]["name"] == "one" and one["metadata"]["namespace"] == "vision"
    ]
    return [template for one in whole for template in _with_metadata(one["spec"])]


def _with_metadata(node: Any) -> list[dict[str, Any]]:
    if not isinstance(node, dict):
        return []
    if templates(node.get("spec")) == [node.get("spec")]:
        return [node]
    return [found for value in node.values() for found in _with_metadata(value)]


def cpus(pod: dict[str, Any]) -> int:
    """Return the CPU request of the main container, in millicores."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


@pytest.mark.parametrize("field", ENTRIES)
def test_each_pod_with_a_bucket_has_the_annotation_and_leaves_room_for_the_sidecar(field: str) -> None:
    (with_bucket,) = pods(recorded(field, **ENTRIES[field]))
    (without,) = pods(recorded(field, **{key: value for key, value in ENTRIES[field].items() if key != "volumes"}))
    assert with_bucket["metadata"]["annotations"][ANNOTATION] == "true"
    assert ANNOTATION not in without["metadata"].get("annotations", {})
    assert cpus(without) - cpus(with_bucket) == 250


@pytest.mark.parametrize("field", ENTRIES)
def test_no_pod_with_a_bucket_is_evicted_at_the_default_limit_of_ephemeral_storage(field: str) -> None:
    (with_bucket,) = pods(recorded(field, **ENTRIES[field]))
    annotations = with_bucket["metadata"]["annotations"]
    assert annotations["gke-gcsfuse/ephemeral-storage-limit"] == "0"
    # If CPU and memory limits differed from the requests, the pod would lose the QoS class Guaranteed.
    assert not {key for key in annotations if key.startswith(("gke-gcsfuse/cpu", "gke-gcsfuse/memory"))}


def test_checkpoints_in_a_bucket_need_it_too() -> None:
    kept = {"directory": "/runs", "volume": "runs"}
    (pod,) = pods(recorded("training_jobs", command=["run"], checkpoints=kept))
    assert pod["metadata"]["annotations"][ANNOTATION] == "true"


def test_two_buckets_have_one_sidecar() -> None:
    (one,) = pods(recorded("training_jobs", command=["run"], volumes={"data": "/data"}))
    (two,) = pods(recorded("training_jobs", command=["run"], volumes={"data": "/data", "runs": "/runs"}))
    assert cpus(one) == cpus(two)


def test_pods_that_request_no_more_than_the_sidecar_are_refused() -> None:
    with pytest.raises(BadInput) as refused:
        recorded("inference_services", **DATA, cpu="250m", memory="200Mi")
    assert {(one.path, one.found) for one in refused.value.problems} == {
        ("teams[0].inference_services[0].cpu", "250m"),
        ("teams[0].inference_services[0].memory", "200Mi"),
    }
