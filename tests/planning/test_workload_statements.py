"""What `check` prints about the queue, topology and storage of declared workloads, and whether they fit."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team

IMAGE = "registry.example.com/train:1.0"
EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
GIVEN = {"pool": "train", "image": IMAGE, "cpu": "8", "memory": "64Gi", "shared_memory": "8Gi"}
KEPT = {"storage_class": "shared", "size": "1200Gi"}
SCALING = {"max_replicas": 3, "query": "sum(gpu:active:ratio{})", "threshold": 1}
ENTRIES: dict[str, Any] = {
    "training_jobs": [
        {
            **GIVEN,
            "name": "pretrain",
            "command": ["torchrun"],
            "gpus": 8,
            "replicas": 2,
            "volumes": {"data": "/data"},
            "checkpoints": {"directory": "/checkpoints", **KEPT},
        }
    ],
    "inference_services": [
        {
            **GIVEN,
            "name": "chat",
            "gpus": 4,
            "autoscaling": SCALING,
        },
        {**GIVEN, "name": "large", "gpus": 8, "nodes": 2, "health_path": "/health"},
    ],
    "ray_clusters": [
        {
            "name": "ray",
            "image": IMAGE,
            "version": "2.49.0",
            "head": {},
            "workers": [{"name": "w", "pool": "train", "gpus": 2, "replicas": 2, "cpu": "4", "memory": "32Gi"}],
        }
    ],
    "notebooks": [{**GIVEN, "name": "lab", "home": {"directory": "/home/me", **KEPT}}],
    "batch_jobs": [
        {**GIVEN, "name": "sweep", "command": ["python"], "gpus": 2, "replicas": 5, "parts": 9},
    ],
}


def plan(**rest: Any) -> EnvironmentPlan:
    stack = environment(
        pool(count={"desired": 8}, zones=["us-east-2a"]),
        **{
            "cluster": EKS,
            "addons": dict.fromkeys(("kuberay", "leaderworkerset", "keda", "prometheus"), "install"),
            "storage": {
                "shared": {"type": "lustre", "zone": "us-east-2a"},
                "data": {"type": "bucket", "bucket": "acme-data", "purpose": "datasets"},
            },
            "teams": [team(quota={"gpus": 64}, queue={"borrow": {"gpus": 0}}, **ENTRIES)],
            "queueing": {},
            **rest,
        },
    )
    found = plan_platform(stack, "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def statements(found: EnvironmentPlan, subject: str) -> dict[str, tuple[str, str]]:
    return {one.what: (one.chosen, one.why) for one in found.decisions if one.subject == subject}


# Always-on workloads use 32 GPUs: 3 x 4 for chat, 2 x 8 for large and 2 x 2 for ray.
# A p4de.24xlarge has 8 GPUs, 96 CPUs and 1152 GiB.
# Pods that use GPUs on both NUMA nodes request 1m less CPU, so that they have no exclusive CPUs.
ALWAYS = "with always-on workloads) of the 64 that the team's quota"
EXPECTED = {
    "training job vision/pretrain": {
        "pods": (
            "2 pods, each with 7999m CPU, 64Gi of memory and 8 nvidia.com/gpu, as an indexed Job",
            "no add-on",
        ),
        "queue": (
            "default",
            "Kueue starts all 2 pods or none; "
            f"the pods use 16 nvidia.com/gpu (48 {ALWAYS} with borrowing allows on train",
        ),
        "topology": (
            "preferred topology.k8s.aws/network-node-layer-3",
            "Kueue starts the pods on nodes that are close to each other",
        ),
        "storage": (
            "/data: volume data, read-only; /checkpoints: new claim pretrain-checkpoints, 1200Gi of class shared; "
            "/scratch: disk of the node; /dev/shm: 8Gi of the pod's memory",
            "claims outlive the pods",
        ),
        "fits": ("2 pods at once (at most 8 fit)", "pool train has 8 nodes, each with capacity for 1 pod"),
    },
    "inference service vision/chat": {
        "pods": (
            "1 to 3 pods, each with 8 CPU, 64Gi of memory and 4 nvidia.com/gpu, as a Deployment",
            "each replica is one pod",
        ),
        "queue": (
            "default",
            f"Kueue starts each pod; the pods use 12 nvidia.com/gpu (32 {ALWAYS} allows on train",
        ),
        "topology": (
            "different zones and nodes where possible",
            "replicas do not fail together",
        ),
        "storage": ("/dev/shm: 8Gi of the pod's memory", "files are deleted with the pods"),
        "health check": (
            "GET /healthz on port 8080, within 10 min",
            "health_path is not set, so the server must answer on the default path; vLLM serves /health, and "
            "Triton /v2/health/ready, both on port 8000",
        ),
        "fits": ("3 pods at once (at most 16 fit)", "pool train has 8 nodes, each with capacity for 2 pods"),
    },
    "inference service vision/large": {
        "pods": (
            "2 pods, each with 7999m CPU, 64Gi of memory and 8 nvidia.com/gpu, as a LeaderWorkerSet",
            "each replica is 2 pods",
        ),
        "queue": (
            "default",
            "Kueue starts all 2 pods of a replica or none; "
            f"the pods use 16 nvidia.com/gpu (32 {ALWAYS} allows on train",
        ),
        "topology": (
            "preferred topology.k8s.aws/network-node-layer-3",
            "Kueue starts the pods on nodes that are close to each other",
        ),
        "storage": ("/dev/shm: 8Gi of the pod's memory", "files are deleted with the pods"),
        "fits": ("2 pods at once (at most 8 fit)", "pool train has 8 nodes, each with capacity for 1 pod"),
    },
    "Ray cluster vision/ray": {
        "pods": (
            "head: 1 pod with 2 CPU and 8Gi of memory; "
            "w: 2 pods, each with 4 CPU, 32Gi of memory and 2 nvidia.com/gpu, as a RayCluster",
            "addons contains kuberay",
        ),
        "queue": (
            "default",
            f"Kueue starts all 3 pods or none; the pods use 4 nvidia.com/gpu (32 {ALWAYS} allows on train",
        ),
        "topology": (
            "w: preferred topology.k8s.aws/network-node-layer-3",
            "Kueue starts the pods on nodes that are close to each other",
        ),
        "storage": ("/dev/shm: 32Gi of the pod's memory", "files are deleted with the pods"),
        "fits": (
            "w: 2 pods at once (at most 32 fit)",
            "w: pool train has 8 nodes, each with capacity for 4 pods; "
            "head: runs on any node without GPUs; the plan does not count these nodes",
        ),
    },
    "notebook vision/lab": {
        "pods": (
            "1 pod with 8 CPU, 64Gi of memory and 1 nvidia.com/gpu, "
            "as a suspended CronJob, from which members create Jobs",
            "a Job releases its GPU when it finishes",
        ),
        "queue": (
            "default",
            "Kueue starts each notebook; "
            f"the pods use 1 nvidia.com/gpu (33 {ALWAYS} with borrowing allows on train",
        ),
        "topology": ("none", "one pod"),
        "storage": (
            "/home/me: new claim lab-home, 1200Gi of class shared; /dev/shm: 8Gi of the pod's memory",
            "claims outlive the pods",
        ),
        "fits": ("1 pod at once (at most 64 fit)", "pool train has 8 nodes, each with capacity for 8 pods"),
    },
    "batch job vision/sweep": {
        "pods": (
            "5 pods, each with 8 CPU, 64Gi of memory and 2 nvidia.com/gpu, as an indexed Job",
            "9 parts, 5 at a time",
        ),
        "queue": (
            "default",
            "Kueue starts all 5 parts or none at first; the pods use 10 nvidia.com/gpu "
            f"(42 {ALWAYS} with borrowing allows on train",
        ),
        "topology": ("any nodes of the pool", "parts do not communicate"),
        "storage": (
            "/scratch: disk of the node; /dev/shm: 8Gi of the pod's memory",
            "files are deleted with the pods",
        ),
        "fits": ("5 pods at once (at most 32 fit)", "pool train has 8 nodes, each with capacity for 4 pods"),
    },
}


@pytest.fixture(scope="module")
def found() -> EnvironmentPlan:
    return plan()


@pytest.mark.parametrize("subject", EXPECTED)
def test_each_kind_of_entry_states_its_pods_queue_topology_storage_and_room(
    found: EnvironmentPlan, subject: str
) -> None:
    assert statements(found, subject) == EXPECTED[subject]


def test_a_batch_job_of_one_part_at_a_time_starts_it_and_not_all_at_first() -> None:
    sweep = {**ENTRIES["batch_jobs"][0], "replicas": 1}
    one = plan(teams=[team(quota={"gpus": 64}, queue={"borrow": {"gpus": 0}}, batch_jobs=[sweep])])
    assert statements(one, "batch job vision/sweep")["queue"][1].startswith(
        "Kueue starts its part; the pods use 2 nvidia.com"
    )


def test_without_queues_an_entry_says_that_its_pods_wait_for_nodes_alone() -> None:
    found = plan(queueing=None, teams=[team(quota={"gpus": 64}, **ENTRIES)])
    job = statements(found, "training job vision/pretrain")
    assert job["queue"] == (
        "none",
        "without `queueing`, pods start as soon as nodes have room; the pods use 16 nvidia.com/gpu (48 with "
        "always-on workloads) of the 64 that the team's quota allows",
    )
    assert job["topology"] == ("none", "no `queueing`")
    # The parts can run one after another. With a topology, Kueue would start all concurrent parts together.
    assert statements(found, "batch job vision/sweep")["fits"][0] == "1 pod at once (at most 32 fit)"


def problems(stack: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(BadInput) as caught:
        plan_platform(stack, "test")
    return {one.path: f"{one.found}; {one.allowed}; {one.fix}" for one in caught.value.problems}


def test_pods_that_fit_only_the_sum_of_all_nodes_are_refused() -> None:
    """Three pods with 5 GPUs each need 15 of the 16 GPUs, but each of the two nodes has room for only one pod."""
    job = {"name": "pretrain", "pool": "train", "image": IMAGE, "command": ["torchrun"], "gpus": 5, "replicas": 3}
    stack = environment(pool(count={"desired": 2}), teams=[team(quota={"gpus": 16}, training_jobs=[job])])
    assert problems(stack) == {
        "teams[0].training_jobs[0].replicas": "3 pods at the same time; at most 2 (1 on each of the 2 nodes that "
        "pool train may have); lower replicas or the requests of each pod, or raise the pool's count.desired"
    }
    job["replicas"] = 4  # 20 GPUs exceed the capacity of the pool and the team's quota
    assert list(problems(stack)) == ["teams[0].training_jobs[0].replicas", "teams[0].training_jobs[0]"]


def test_pods_that_claim_more_devices_than_a_node_has_are_refused() -> None:
    job = {"name": "pretrain", "pool": "train", "image": IMAGE, "command": ["torchrun"], "claim": "five"}
    one = pool(machine_type="p5.48xlarge", count={"min": 0, "desired": 1, "max": 2}, zones=["us-east-2a"])
    own = team(
        quota={"devices": {"gpu.nvidia.com": 16}},
        claims=[{"name": "five", "count": 5}],
        training_jobs=[{**job, "replicas": 3, "cpu": "1", "memory": "1Gi"}],
    )
    stack = environment({**one, "sharing": {"mode": "dra"}}, cluster={**EKS, "kubernetes": "1.36"}, teams=[own])
    found = problems(stack)
    assert found["teams[0].training_jobs[0].replicas"].startswith(
        "3 pods at the same time; at most 2 (1 on each of the 2 nodes"
    )


@pytest.mark.parametrize("topology", [True, False])
def test_parts_that_a_queue_starts_together_must_fit_at_once(topology: bool) -> None:
    """Kueue stops an indexed Job and all its parts if one of them is not ready in time."""
    batch = {"name": "sweep", "pool": "train", "image": IMAGE, "command": ["python"], "gpus": 5, "replicas": 3}
    two = pool(count={"desired": 2}, zones=["us-east-2a"])
    stack = environment(two, cluster=EKS, teams=[team(quota={"gpus": 16}, batch_jobs=[batch])])
    assert plan_platform(stack, "test")  # the parts run one after another
    stack["queueing"] = {"topology": topology}
    assert problems(stack)["teams[0].batch_jobs[0].replicas"].startswith("3 pods at the same time; at most 2")
    batch["parts"] = 2  # only two pods of the Job run at the same time
    assert plan_platform(stack, "test")


def test_the_deadline_of_a_jobset_is_stated_to_apply_to_each_attempt() -> None:
    # Each restart creates the Job, and with it the deadline, again (kubernetes-sigs/jobset#1186).
    addons = dict.fromkeys(("jobset", "kuberay", "leaderworkerset", "keda", "prometheus"), "install")
    _, why = statements(plan(addons=addons), "training job vision/pretrain")["pods"]
    assert why == "addons contains jobset; the deadline applies to each attempt, because a JobSet has no deadline"
    _, why = statements(plan(addons={**addons, "trainer": "install"}), "training job vision/pretrain")["pods"]
    assert "deadline" not in why
