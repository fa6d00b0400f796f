"""Workloads on pools whose nodes are requested from GKE. All pods of a provisioning request must be identical."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.queues.queue_admission import queue_policy
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

CLUSTER = {
    "provider": "gke",
    "name": "prod",
    "project": "my-project",
    "location": "us-central1",
    "kubernetes": "1.35",
}
IMAGE = "registry.example.com/x@sha256:" + "0" * 64


def gke_pool(name: str, capacity: dict[str, Any]) -> dict[str, Any]:
    nodes = {"machine_type": "g2-standard-48", "count": {"min": 0, "desired": 0, "max": 8}}
    if capacity.get("queued"):
        nodes["count"] = {"desired": 0, "max": 8}
    return pool(name, **nodes, zones=["us-central1-b"], capacity=capacity, workload="inference")


QUEUED = gke_pool("flex", {"type": "flex-start", "queued": True})
STEADY = gke_pool("steady", {"type": "spot"})


PARTS = {
    **gke_pool("parts", {"type": "spot"}),
    "machine_type": "a2-highgpu-2g",
    "count": {"desired": 2},
    "sharing": {"mode": "mig", "layout": {"1g.5gb": 7}},
}


def stack(*pools: dict[str, Any], **work: Any) -> dict[str, Any]:
    quota = {
        "gpus": {one["name"]: 16 for one in pools if "sharing" not in one},
        "mig": {"1g.5gb": 14} if PARTS in pools else {},
    }
    own = team(quota=quota, members=["user:a@example.com"], priority="inference", **work)
    addons = {"kuberay": "install", "leaderworkerset": "install"}
    return environment(*pools, cluster=CLUSTER, queueing={}, teams=[own], addons=addons)


def ray(*groups: tuple[str, int]) -> dict[str, Any]:
    workers = [
        {
            "name": f"group-{index}",
            "pool": name,
            "replicas": 2,
            "gpus": gpus,
            **({"profile": "1g.5gb"} if name == "parts" else {}),
        }
        for index, (name, gpus) in enumerate(groups)
    ]
    return {
        "ray_clusters": [
            {
                "name": "rc",
                "image": IMAGE,
                "version": "2.49.0",
                "run_as_user": 1000,
                "head": {},
                "workers": workers,
            }
        ]
    }


def service(nodes: int, where: str) -> dict[str, Any]:
    one = {"name": "big", "pool": where, "image": IMAGE, "run_as_user": 1000, "gpus": 4, "nodes": nodes}
    return {"inference_services": [{**one, "command": ["serve"]}]}


REFUSED = {
    "two groups on the queued pool": (ray(("flex", 4), ("flex", 2)), "ray_clusters[0]", "one group"),
    "the second group on a pool without queued provisioning": (
        ray(("flex", 4), ("steady", 4)),
        "ray_clusters[0]",
        "one group",
    ),
    "a leader and its workers": (service(2, "flex"), "inference_services[0]", "write nodes: 1"),
}
TAKEN = {
    "one group": ray(("flex", 4)),
    "groups on other pools": ray(("steady", 4), ("steady", 2)),
    "the second group with a resource that the queued pool does not have": ray(("flex", 4), ("parts", 1)),
    "a service of one node": service(1, "flex"),
    "a service on another pool": service(2, "steady"),
}


@pytest.mark.parametrize(("work", "place", "fix"), REFUSED.values(), ids=REFUSED.keys())
def test_an_entry_with_several_kinds_of_gpu_pods_is_refused_on_queued_capacity(
    work: dict[str, Any], place: str, fix: str
) -> None:
    with pytest.raises(BadInput) as refused:
        plan_platform(stack(QUEUED, STEADY, **work), "test")
    (problem,) = refused.value.problems
    assert problem.path == f"teams[0].{place}"
    assert "2 kinds of pods with GPUs, and pool flex with queued capacity" in problem.found
    assert fix in problem.fix
    assert problem.fix.endswith("or use pools without queued: true")


@pytest.mark.parametrize("work", TAKEN.values(), ids=TAKEN.keys())
def test_entries_with_one_kind_of_gpu_pods_are_accepted(work: dict[str, Any]) -> None:
    assert plan_platform(stack(QUEUED, STEADY, PARTS, **work), "test")


def messages(*pools: dict[str, Any]) -> list[str]:
    plan = plan_platform(stack(*pools), "test")
    assert plan.kind == "environment"
    assert plan.queues is not None
    (queue,) = plan.queues.teams
    return [rule.message for rule in queue_policy(queue).rules if rule.id == "queue-pod-sets"]


def test_members_are_told_to_keep_gpus_in_one_template() -> None:
    assert messages(STEADY) == []
    (alone,) = messages(QUEUED)
    assert alone.endswith("keep GPUs in one template")
    (beside,) = messages(QUEUED, STEADY)
    assert beside.endswith("or name another pool: nodeSelector: {gpu-platform.dev/pool: steady}")
