"""Objects that the clean-up finds (ended long ago, expired, or measured as idle), and those that it keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpu_platform.catalog.template_kinds import STARTED_KINDS, TRAIN_JOBS
from gpu_platform.cleanup.kinds import JOB, KINDS, POD, REPLICA_SET, Kind
from gpu_platform.cleanup.rules import Finding, Settings, find

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
DAY = 86_400
BY_NAME = {kind.name: kind for kind in (*KINDS, REPLICA_SET)}


def ago(**age: float) -> str:
    return (NOW - timedelta(**age)).strftime("%Y-%m-%dT%H:%M:%SZ")


def live(name: str, status: dict[str, Any] | None = None, owner: tuple[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "vision",
        "uid": name,
        "creationTimestamp": ago(days=30),
    }
    if owner is not None:
        kind, of = owner
        metadata["ownerReferences"] = [{"kind": kind, "name": of, "uid": of, "controller": True}]
    return {"metadata": metadata, "status": status or {}}


def ended(condition: str, **age: float) -> dict[str, Any]:
    return {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": ago(**age)}]}


def found(settings: Settings, activity: Any = None, **objects: Any) -> dict[str, str]:
    by_kind: dict[Kind, list[dict[str, Any]]] = {BY_NAME[kind]: of for kind, of in objects.items()}
    findings, _ = find(by_kind, ["declared"], settings, activity, NOW)
    return {one.live["metadata"]["name"]: one.rule for one in findings}


WEEK = Settings(finished_after=7 * DAY)


def test_every_kind_that_starts_with_all_of_its_pods_is_cleaned_up():
    cleaned = {(kind.group, kind.plural) for kind in KINDS}
    assert {(kind.group, kind.resource) for kind in STARTED_KINDS} | {TRAIN_JOBS} <= cleaned


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Job", ended("Complete", days=8)),
        ("Job", ended("Failed", days=8)),
        ("JobSet", ended("Completed", days=8)),
        ("TrainJob", ended("Failed", days=8)),
        ("PyTorchJob", ended("Succeeded", days=8)),
        ("MPIJob", ended("Failed", days=8)),
        ("RayJob", {"jobDeploymentStatus": "Complete", "endTime": ago(days=8)}),
        ("Pod", {"phase": "Failed", "conditions": [{"type": "Ready", "lastTransitionTime": ago(days=8)}]}),
        (
            "Pod",
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"finishedAt": ago(days=8)}}}]},
        ),
    ],
)
def test_what_ended_long_enough_ago_is_found(kind: str, status: dict[str, Any]) -> None:
    assert found(WEEK, **{kind: [live("old", status)]}) == {"old": "finished"}
    assert found(Settings(finished_after=9 * DAY), **{kind: [live("old", status)]}) == {}
    assert found(Settings(), **{kind: [live("old", status)]}) == {}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Job", {"conditions": [{"type": "Complete", "status": "False", "lastTransitionTime": ago(days=8)}]}),
        ("Job", ended("Suspended", days=8)),
        ("Pod", {"phase": "Running"}),
        ("RayJob", {"jobDeploymentStatus": "Running"}),
        ("Deployment", ended("Available", days=8)),
    ],
)
def test_what_has_not_ended_is_not_found(kind: str, status: dict[str, Any]) -> None:
    assert found(WEEK, **{kind: [live("old", status)]}) == {}


@pytest.mark.parametrize("day", ["2026-11-24", "2020-01-01"])
def test_a_workload_is_found_when_its_last_day_is_over(day: str) -> None:
    assert found(Settings(), Deployment=[labelled("demo", {"gpu-platform.dev/expires-on": day})]) == {
        "demo": "expired"
    }


@pytest.mark.parametrize("day", ["2026-11-25", "2027-01-01"])
def test_a_workload_stays_until_the_end_of_its_last_day(day: str) -> None:
    assert found(Settings(), StatefulSet=[labelled("demo", {"gpu-platform.dev/expires-on": day})]) == {}


def labelled(name: str, labels: dict[str, str], **rest: Any) -> dict[str, Any]:
    made = live(name, **rest)
    made["metadata"]["labels"] = labels
    return made


def test_a_label_that_is_no_date_is_a_problem_and_ends_nothing() -> None:
    soon = labelled("demo", {"gpu-platform.dev/expires-on": "soon"})
    findings, problems = find({JOB: [soon]}, [], Settings(), None, NOW)
    assert not findings
    assert problems == [
        "Job vision/demo: label gpu-platform.dev/expires-on: found 'soon'; allowed: a date such as 2026-12-31"
    ]


def test_declared_owned_marked_and_terminating_objects_are_kept() -> None:
    old = ended("Complete", days=30)
    going = live("going", old)
    going["metadata"]["deletionTimestamp"] = ago(minutes=1)
    jobs = [
        live("declared", old),
        live("owned", old, owner=("CronJob", "nightly")),
        labelled("marked", {"gpu-platform.dev/cleanup": "never"}, status=old),
        going,
        live("left", old),
    ]
    assert found(WEEK, Job=jobs) == {"left": "finished"}


IDLE = Settings(idle_after=7200, prometheus="http://p")
LABEL = {"gpu-platform.dev/ends-when-idle": "true"}


def notebook(name: str, hours: float = 5, **rest: Any) -> dict[str, Any]:
    return labelled(name, LABEL, status={"phase": "Running", "startTime": ago(hours=hours)}, **rest)


@pytest.mark.parametrize(
    ("activity", "hours", "rule"),
    [
        ({"nb-1": 0.0}, 5, {"nb": "idle"}),
        ({"nb-1": 0.4}, 5, {}),
        ({"nb-1": 0.0}, 1, {}),  # the notebook has just started
        ({}, 5, {}),  # without metrics, the use of the notebook is unknown
    ],
)
def test_a_notebook_is_idle_by_what_was_measured_for_long_enough(
    activity: dict[str, float], hours: float, rule: dict[str, str]
) -> None:
    job, pod = live("nb"), notebook("nb-1", hours, owner=("Job", "nb"))
    assert found(IDLE, activity, Job=[job], Pod=[pod]) == rule


def test_without_prometheus_nothing_is_idle_and_this_is_reported() -> None:
    findings, problems = find({POD: [notebook("nb-1")]}, [], IDLE, None, NOW)
    assert (findings, problems) == ([], ["idle GPUs: Prometheus did not answer, so nothing counts as idle"])


def test_a_deployment_is_found_only_if_all_its_pods_are_idle() -> None:
    sets = [live("lab-abc", owner=("Deployment", "lab"))]
    pods = [notebook(f"lab-abc-{place}", owner=("ReplicaSet", "lab-abc")) for place in range(2)]
    rest = {"Deployment": [live("lab")], "ReplicaSet": sets, "Pod": pods}
    assert found(IDLE, {"lab-abc-0": 0.0, "lab-abc-1": 0.5}, **rest) == {}
    assert found(IDLE, {"lab-abc-0": 0.0, "lab-abc-1": 0.0}, **rest) == {"lab": "idle"}


@pytest.mark.parametrize(
    "other",
    [
        live("lab-abc-1", {"phase": "Running", "startTime": ago(days=2)}, owner=("ReplicaSet", "lab-abc")),
        live("lab-abc-1", {"phase": "Pending"}, owner=("ReplicaSet", "lab-abc")),
    ],
    ids=["a busy pod without the label", "a pod that has not started"],
)
def test_an_object_with_a_busy_or_starting_pod_is_not_idle(other: dict[str, Any]) -> None:
    sets = [live("lab-abc", owner=("Deployment", "lab"))]
    idle = notebook("lab-abc-0", owner=("ReplicaSet", "lab-abc"))
    objects = {"Deployment": [live("lab")], "ReplicaSet": sets}
    assert found(IDLE, {"lab-abc-0": 0.0}, **objects, Pod=[idle, other]) == {}
    assert found(IDLE, {"lab-abc-0": 0.0}, **objects, Pod=[idle]) == {"lab": "idle"}


def test_idle_objects_owned_by_other_controllers_are_kept() -> None:
    owned = live("nb", owner=("Notebook", "nb"))
    pod = notebook("nb-0", owner=("StatefulSet", "nb"))
    assert found(IDLE, {"nb-0": 0.0}, StatefulSet=[owned], Pod=[pod]) == {}


def test_a_stateful_set_whose_claims_are_deleted_with_it_stays() -> None:
    expired = labelled("lab", {"gpu-platform.dev/expires-on": "2026-01-01"})
    assert found(Settings(), StatefulSet=[expired]) == {"lab": "expired"}
    expired["spec"] = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    assert found(Settings(), StatefulSet=[expired]) == {}


def test_a_pod_without_the_label_is_never_idle() -> None:
    pod = live("train-0", {"phase": "Running", "startTime": ago(days=2)})
    assert found(IDLE, {"train-0": 0.0}, Pod=[pod]) == {}


def test_no_kind_holds_data() -> None:
    assert not [kind for kind in KINDS if "Volume" in kind.name or kind.name in ("Secret", "ConfigMap")]


def test_a_finding_has_the_time_since_when() -> None:
    (one,), _ = find({JOB: [live("old", ended("Complete", days=8))]}, [], WEEK, None, NOW)
    assert isinstance(one, Finding)
    assert one.why == "it ended 8 days ago"
