"""Events that end pods on a pool's nodes, compared with deadlines and grace periods of declared workloads."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
GKE = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1"}
KEPT = {"directory": "/checkpoints", "volume": "work"}
STORAGE = {"work": {"type": "bucket", "bucket": "acme-work", "purpose": "checkpoints", "read_only": False}}
GIVEN = {"pool": "train", "image": "registry.example.com/train:1.0", "cpu": "8", "memory": "64Gi"}
BLOCK = {
    "type": "capacity-block",
    "reservation": "cr-0a1b2c3d4e5f60718",
    "zone": "us-east-2a",
    "starts": "2026-12-01T11:30:00Z",
    "ends": "2026-12-03T11:30:00Z",
}
RESERVED = {"type": "reservation", "reservation": "h100", "zone": "us-central1-a"}
RESERVED |= {"starts": "2026-12-01T00:00:00Z", "ends": "2026-12-03T00:00:00Z"}
ON_EKS = {"machine_type": "p5.48xlarge", "zones": ["us-east-2a"]}
OFF_HOURS = {"start": "07:00", "stop": "19:00", "time_zone": "UTC", "stops_work": True}
NIGHTLY = {**ON_EKS, "schedule": OFF_HOURS}
KARPENTER = {"provisioner": "karpenter", "count": {"desired": 0, "max": 2}, **ON_EKS}
ON_GKE = {"machine_type": "a3-highgpu-8g", "zones": ["us-central1-a"], "placement": {"type": "none"}}
ON_GKE["image"] = {"release": "1.33.5-gke.2392000"}


def plan(nodes: dict[str, Any], cluster: dict[str, Any], **entries: Any) -> EnvironmentPlan:
    stack = environment(
        {**pool(count={"desired": 2}), **nodes},
        cluster=cluster,
        storage=STORAGE,
        queueing={},
        addons={"kuberay": "install"},
        teams=[team(quota={"gpus": 16}, priority="training", members=["user:ana@example.com"], **entries)],
    )
    found = plan_platform(stack, "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def job(**rest: Any) -> dict[str, Any]:
    return {**GIVEN, "name": "job", "command": ["run"], "gpus": 8, "grace": "10s", **rest}


def batch(**rest: Any) -> dict[str, Any]:
    return {**GIVEN, "name": "batch", "command": ["run"], "gpus": 8, **rest}


def warnings(found: EnvironmentPlan, what: str) -> list[str]:
    return [one.chosen for one in found.decisions if one.what == f"warning: {what}"]


@pytest.mark.parametrize(
    ("nodes", "cluster", "deadline", "most"),
    [
        ({**ON_EKS, "capacity": BLOCK}, EKS, "48h", "47 h 20 min"),
        ({**KARPENTER, "karpenter": {"expire_after": "2h"}}, EKS, "100h", "14 h"),
        ({**KARPENTER, "workload": "inference"}, EKS, "700h", "505 h"),
        ({**ON_GKE, "capacity": {"type": "flex-start"}, "count": {"desired": 0, "max": 2}}, GKE, "200h", "168 h"),
        ({**ON_GKE, "capacity": RESERVED}, GKE, "49h", "48 h"),
        (NIGHTLY, EKS, "24h", "12 h"),
    ],
    ids=["capacity-block", "karpenter-age", "karpenter-default", "flex-start", "reservation", "schedule"],
)
def test_a_deadline_beyond_what_nodes_live_is_warned_of(
    nodes: dict[str, Any], cluster: dict[str, Any], deadline: str, most: str
) -> None:
    (text,) = warnings(plan(nodes, cluster, training_jobs=[job(deadline=deadline)]), "deadline")
    assert text == f"{deadline}; a pod on pool train runs at most {most}"
    assert not warnings(plan(nodes, cluster, training_jobs=[job(deadline="1h")]), "deadline")
    resumed = plan(nodes, cluster, training_jobs=[job(deadline=deadline, checkpoints=KEPT)])
    assert not warnings(resumed, "deadline")
    parts = plan(nodes, cluster, batch_jobs=[batch(deadline=deadline)])
    assert warnings(parts, "deadline") == [text]
    assert not warnings(plan(nodes, cluster, batch_jobs=[batch(deadline="1h")]), "deadline")


def test_a_deadline_for_many_short_parts_is_no_warning() -> None:
    assert not warnings(plan(NIGHTLY, EKS, batch_jobs=[batch(deadline="24h", parts=3)]), "deadline")
    (text,) = warnings(plan(NIGHTLY, EKS, batch_jobs=[batch(deadline="48h", parts=3)]), "deadline")
    assert text == "48h for 3 parts one after another; a pod on pool train runs at most 12 h"


@pytest.mark.parametrize(
    ("nodes", "cluster", "seconds"),
    [
        ({**ON_EKS, "capacity": {"type": "spot"}}, EKS, 120),
        ({**KARPENTER, "capacity": {"type": "spot"}}, EKS, 120),
        ({**ON_EKS, "capacity": BLOCK}, EKS, 600),
        ({**KARPENTER, "workload": "development"}, EKS, 1800),
        ({**ON_GKE, "capacity": {"type": "spot"}}, GKE, 15),
        (NIGHTLY, EKS, 900),
        ({"machine_type": "g6.48xlarge", "network": {"rdma": False}}, EKS, 900),
        (ON_EKS, EKS, 3600),
    ],
    ids=[
        "eks-spot",
        "karpenter-spot",
        "capacity-block",
        "karpenter-drain",
        "gke-spot",
        "schedule",
        "zones",
        "on-demand",
    ],
)
def test_a_job_is_told_the_grace_that_its_nodes_give(
    nodes: dict[str, Any], cluster: dict[str, Any], seconds: int
) -> None:
    found = plan(nodes, cluster, training_jobs=[job(grace="1h", checkpoints=KEPT)])
    (of_team,) = found.workloads
    (planned,) = of_team.training_jobs
    assert planned.pod.env["GPU_PLATFORM_GRACE_SECONDS"] == str(seconds)
    assert planned.pod.grace_seconds == 3600
    assert len(warnings(found, "grace")) == (seconds < 3600)


def test_services_and_notebooks_are_compared_with_nodes_too() -> None:
    service = {**GIVEN, "name": "chat", "gpus": 8, "grace": "10m"}
    found = plan({**ON_EKS, "capacity": {"type": "spot"}}, EKS, inference_services=[service])
    assert warnings(found, "grace") == ["10m; a pod on pool train may get only 2 min"]
    notebook = {**GIVEN, "name": "lab", "deadline": "700h"}
    found = plan({**KARPENTER, "workload": "development"}, EKS, notebooks=[notebook])
    assert warnings(found, "deadline") == ["700h; a pod on pool train runs at most 336 h 30 min"]


@pytest.mark.parametrize(
    ("capacity", "most"),
    [
        ({"type": "flex-start", "max_run_duration": "24h"}, "24 h"),
        ({"type": "flex-start", "queued": True}, "168 h"),
        ({"type": "spot"}, None),
        (RESERVED, None),
    ],
    ids=["flex-start", "queued", "spot", "reservation"],
)
def test_services_on_nodes_that_end_get_a_warning(capacity: dict[str, Any], most: str | None) -> None:
    nodes = {**ON_GKE, "capacity": capacity}
    if capacity["type"] == "flex-start":
        nodes["count"] = {"desired": 0, "max": 2}
    image = "registry.example.com/ray:2.49.0"
    groups = ("a",) if capacity.get("queued") else ("a", "b")  # nodes of a queued pool run only identical pods
    workers = [{"name": name, "pool": "train", "gpus": 2, "cpu": "8", "memory": "64Gi"} for name in groups]
    ray = {"name": "ray", "image": image, "version": "2.49.0", "head": {"cpu": "2"}, "workers": workers}
    service = {**GIVEN, "name": "chat", "gpus": 8}
    other = {"name": "other", "pool": "train", "gpus": 4}
    found = plan(nodes, GKE, workloads=[other], inference_services=[service], ray_clusters=[ray])
    told = [one for one in found.decisions if one.what == "warning: node lifetime"]
    if most is None:
        assert told == []
        return
    assert [one.subject for one in told] == [
        "workload vision/other",
        "inference service vision/chat",
        "Ray cluster vision/ray",
    ]
    assert {one.chosen for one in told} == {f"a pod on pool train runs at most {most}"}
    for_ever = [one.subject for one in told if "wait forever" in one.why]
    assert for_ever == (["Ray cluster vision/ray"] if capacity.get("queued") else [])


def ray_warnings(
    nodes: dict[str, Any], cluster: dict[str, Any], *others: dict[str, Any], **head: Any
) -> list[str]:
    workers = [{"name": "w", "pool": "train", "gpus": 2, "cpu": "8", "memory": "64Gi"}]
    ray = {"name": "ray", "image": "registry.example.com/ray:2.49.0", "version": "2.49.0", "head": head}
    stack = environment(
        {**pool(count={"desired": 2}), **nodes},
        *others,
        cluster=cluster,
        addons={"kuberay": "install"},
        teams=[
            team(
                quota={"gpus": 16, "cpu": 32, "memory": "256Gi"},
                members=["user:ana@example.com"],
                ray_clusters=[{**ray, "workers": workers}],
            )
        ],
    )
    found = plan_platform(stack, "test")
    assert isinstance(found, EnvironmentPlan)
    return warnings(found, "moved pods")


MOVING = {"name": "cpu", "machine_type": "m7i.4xlarge", "workload": "general", "provisioner": "karpenter"}
MOVING |= {"count": {"desired": 0, "max": 2}}
UNDERUSED = "Karpenter removes underused nodes and replaces nodes at an age of 504h"


def test_check_warns_of_an_autoscaler_that_moves_the_head_of_a_ray_cluster() -> None:
    assert ray_warnings(ON_EKS, EKS, MOVING, pool="cpu") == [f"{UNDERUSED} of pool cpu, with the head"]
    assert ray_warnings(ON_EKS, EKS, MOVING) == [f"{UNDERUSED} of pool cpu, with the head (it may run there)"]


def test_check_warns_of_an_autoscaler_that_moves_workers_of_a_ray_cluster() -> None:
    gke = {**ON_GKE, "count": {"min": 1, "desired": 1, "max": 3}}
    assert ray_warnings({**KARPENTER, "workload": "inference"}, EKS) == [
        f"{UNDERUSED} of pool train, with workers w"
    ]
    assert ray_warnings(gke, GKE) == ["GKE's autoscaler removes underused nodes of pool train, with workers w"]


def test_ray_clusters_on_nodes_that_stay_have_no_warning() -> None:
    fixed = {**MOVING, "provisioner": "managed", "count": {"desired": 1}}
    assert not ray_warnings(ON_EKS, EKS, fixed, pool="cpu")
    assert not ray_warnings(KARPENTER, EKS)  # in training pools, Karpenter removes only empty nodes
    assert not ray_warnings(ON_GKE, GKE)
