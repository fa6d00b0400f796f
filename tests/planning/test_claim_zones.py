"""Disk claims for pods that may run on several nodes. Only one node in one zone can attach the disk."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.decision import Decision
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.eks_stacks import CREATED, plan_eks

HOME = {"directory": "/home/me", "size": "100Gi"}
HOURS = {"start": "07:00", "stop": "20:00"}
GROWS = {"count": {"min": 0, "desired": 0, "max": 4}}
LAB: dict[str, Any] = {"name": "labs", "machine_type": "g6.12xlarge", "workload": "development"}
ZONES = {"zones": ["us-east-2a", "us-east-2b"]}


def lab_team(**home: Any) -> dict[str, Any]:
    lab = {"name": "lab", "pool": "labs", "gpus": 1, "home": {**HOME, **home}}
    return team(
        "vision", quota={"gpus": 4}, priority="training", members=["user:ana@example.com"], notebooks=[lab]
    )


def warnings(pool: dict[str, Any], storage: dict[str, Any] | None = None, **home: Any) -> list[Decision]:
    cluster = {**CREATED, "create": {**CREATED["create"], **ZONES}}
    plan = plan_eks({**LAB, **pool}, cluster=cluster, storage=storage or {}, teams=[lab_team(**home)])
    return [one for one in plan.decisions if one.what == "warning: storage" and "notebook" in one.subject]


@pytest.mark.parametrize(
    "pool", [GROWS, {**GROWS, **ZONES}, {"count": {"desired": 1}, "schedule": HOURS}, {"count": {"desired": 1}}]
)
def test_check_warns_of_a_disk_whose_next_node_may_be_in_another_zone(pool: dict[str, Any]) -> None:
    (warning,) = warnings(pool)
    assert warning.subject == "notebook vision/lab"
    assert "claim lab-home is in one zone" in warning.chosen
    assert "storage_class of type nfs" in warning.why


@pytest.mark.parametrize(
    "pool",
    [
        {**GROWS, "zones": ["us-east-2a"]},
        {"count": {"desired": 0, "max": 4}, "provisioner": "karpenter"},
        {"count": {"desired": 2}, **ZONES},
    ],
)
def test_a_pool_whose_nodes_come_back_in_the_zone_of_the_disk_has_no_warning(pool: dict[str, Any]) -> None:
    assert not warnings(pool)


def with_queues(pool: dict[str, Any], cluster: dict[str, Any], **queueing: Any) -> list[Decision]:
    platform = environment({**LAB, **pool}, cluster=cluster, queueing=queueing, teams=[lab_team()])
    plan = plan_platform(platform, "test")
    return [one for one in plan.decisions if one.what == "warning: storage" and "notebook" in one.subject]


EKS = {**CREATED, "create": {**CREATED["create"], **ZONES}}
GKE: dict[str, Any] = {
    "provider": "gke",
    "name": "prod",
    "project": "my-project",
    "location": "us-central1",
    "create": {"system": {"min": 3, "max": 3}},
}
GKE_LAB = {"machine_type": "g2-standard-48", "zones": ["us-central1-a", "us-central1-b"]}


@pytest.mark.parametrize(
    ("pool", "cluster"), [({"count": {"desired": 3}}, EKS), ({**GKE_LAB, "count": {"desired": 4}}, GKE)]
)
def test_a_queue_that_chooses_nodes_may_choose_another_zone_than_the_disk(
    pool: dict[str, Any], cluster: dict[str, Any]
) -> None:
    (warning,) = with_queues(pool, cluster)
    assert "the queue may choose a node of pool labs in any of" in warning.chosen
    assert warning.why.endswith("or write queueing.topology: false")
    assert not with_queues(pool, cluster, topology=False)
    one_zone = GKE_LAB["zones"][:1] if cluster is GKE else ["us-east-2a"]
    assert not with_queues({**pool, "zones": one_zone}, cluster)


def test_a_directory_of_a_shared_file_system_is_in_every_zone() -> None:
    assert not warnings(GROWS, {"home": {"type": "nfs"}}, storage_class="home")


def test_a_declared_class_of_disks_is_in_one_zone_too() -> None:
    assert warnings(GROWS, {"fast": {"type": "disk"}}, storage_class="fast")


def test_disks_do_not_follow_the_next_block_into_another_zone() -> None:
    block = {"reservation": "cr-0a1b2c3d4e5f60718", "zone": "us-east-2a"}
    next_ = {"reservation": "cr-1a1b2c3d4e5f60718", "zone": "us-east-2b"}
    first = {**block, "starts": "2026-12-01T11:30:00Z", "ends": "2026-12-08T11:30:00Z"}
    second = {**next_, "starts": "2026-12-08T11:30:00Z", "ends": "2026-12-15T11:30:00Z"}
    job = {
        "name": "pretrain",
        "pool": "train",
        "image": "registry.example.com/train:1",
        "command": ["train"],
        "gpus": 8,
        "checkpoints": {"directory": "/checkpoints", "size": "100Gi"},
    }
    own = team(
        "vision", quota={"gpus": 8}, priority="training", members=["user:ana@example.com"], training_jobs=[job]
    )
    for provisioner, count in (("managed", {"desired": 1}), ("karpenter", {"desired": 0, "max": 1})):
        blocks = {"type": "capacity-block", "blocks": [first, second]}
        plan = plan_eks({"provisioner": provisioner, "count": count, "capacity": blocks}, teams=[own])
        (warning,) = (one for one in plan.decisions if one.what == "warning: storage")
        assert "start in any of us-east-2a, us-east-2b" in warning.chosen


def test_node_pools_of_gke_grow_in_the_zone_of_the_disk() -> None:
    cluster = {"provider": "gke", "name": "prod", "project": "my-project", "location": "us-central1", "create": {}}
    zones = ["us-central1-a", "us-central1-b"]
    nodes = {**pool("labs"), "machine_type": "g2-standard-48", "workload": "development", "zones": zones, **GROWS}
    plan = plan_platform(environment(nodes, cluster=cluster, teams=[lab_team()]), "test")
    assert not [one for one in plan.decisions if one.what == "warning: storage"]


def home_warnings(pool: dict[str, Any], storage: dict[str, Any] | None = None, **home: Any) -> list[Decision]:
    plan = plan_eks({**LAB, **pool}, storage=storage or {}, teams=[lab_team(**home)])
    return [one for one in plan.decisions if one.what == "warning: home"]


@pytest.mark.parametrize("of_class", [{}, {"storage_class": "fast"}])
def test_check_warns_of_notebooks_on_several_nodes_with_one_disk(of_class: dict[str, str]) -> None:
    (warning,) = home_warnings({"count": {"desired": 2}}, {"fast": {"type": "disk", "default": True}}, **of_class)
    assert "only one node at a time can attach the disk of claim lab-home" in warning.chosen
    assert "a storage_class of type nfs" in warning.why


def test_notebooks_on_one_node_or_with_a_shared_home_have_no_warning() -> None:
    shared = {"home": {"type": "nfs"}}
    assert not home_warnings({"count": {"desired": 1}})
    assert not home_warnings({"count": {"desired": 2}}, shared, storage_class="home")
