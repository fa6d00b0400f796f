"""A declared workload that could never run is refused. Other declared workloads are planned with defaults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_platform.base.errors import BadInput
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.workloads import TeamWorkloadsPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.conftest import environment, pool, team
from tests.support.size import size

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
IMAGE = "registry.example.com/train:1.0"
JOB = {"name": "pretrain", "pool": "train", "image": IMAGE, "command": ["torchrun", "train.py"]}
SERVICE = {"name": "chat", "pool": "train", "image": IMAGE}
SPOT = {"type": "spot"}
ZONE = ["us-east-2a"]


def plan(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    found = plan_platform(environment(*pools, **rest), "test")
    assert isinstance(found, EnvironmentPlan)
    return found


def run(*pools: dict[str, Any], quota: dict[str, Any] | None = None, **entries: Any) -> TeamWorkloadsPlan:
    rest = {key: entries.pop(key) for key in ("cluster", "addons", "storage", "queueing") if key in entries}
    teams = [team(quota=quota or {"gpus": 16}, **entries)]
    (found,) = plan(*(pools or (pool(count={"desired": 2}),)), teams=teams, **rest).workloads
    return found


def refused(*pools: dict[str, Any], quota: dict[str, Any] | None = None, **entries: Any) -> dict[str, str]:
    """Return the problems by their place below the team."""
    with pytest.raises(BadInput) as caught:
        run(*pools, quota=quota, **entries)
    return {one.path.removeprefix("teams[0]."): f"{one.found}; {one.allowed}" for one in caught.value.problems}


def test_a_pod_without_cpu_and_memory_gets_its_gpus_part_of_the_node() -> None:
    half = run(training_jobs=[{**JOB, "gpus": 4}]).training_jobs[0].pod.workload
    whole = run(training_jobs=[{**JOB, "gpus": 8}]).training_jobs[0].pod.workload
    for of_half, of_whole in ((half.cpu, whole.cpu), (half.memory, whole.memory)):
        assert float(parse_quantity(of_half)) * 2 == pytest.approx(float(parse_quantity(of_whole)), rel=1e-4)
    assert 90 < parse_quantity(whole.cpu) < 96  # a p4de.24xlarge has 96 CPUs


@settings(max_examples=size(15, 400))
@given(
    gpus=st.integers(1, 8),
    replicas=st.integers(1, 20),
    nodes=st.integers(1, 3),
    machine=st.sampled_from(["p5.48xlarge", "p4de.24xlarge"]),
)
def test_a_training_job_is_accepted_if_and_only_if_all_its_pods_fit_at_once(
    gpus: int, replicas: int, nodes: int, machine: str
) -> None:
    """By default, pods request the same share of a node's CPU and memory as of its GPUs. So only the number of
    requested GPUs decides whether the pods fit.
    """
    fits = replicas <= 8 // gpus * nodes and replicas * gpus <= 8 * nodes
    one = pool(machine_type=machine, count={"min": 1, "desired": 1, "max": nodes}, zones=ZONE)
    entries = {"quota": {"gpus": 24}, "training_jobs": [{**JOB, "gpus": gpus, "replicas": replicas}]}
    stack = environment(one, cluster=EKS, teams=[team(**entries)], overcommit=10.0)
    if fits:
        plan_platform(stack, "test")
    else:
        with pytest.raises(
            BadInput, match=r"pods at the same time|nvidia.com/gpu together with pods that always run"
        ):
            plan_platform(stack, "test")


def test_services_are_counted_together_and_each_job_beside_them() -> None:
    found = refused(
        inference_services=[{**SERVICE, "gpus": 8}],
        training_jobs=[{**JOB, "gpus": 8}, {**JOB, "name": "large", "gpus": 8, "replicas": 2}],
    )
    assert list(found) == ["training_jobs[1]"]
    assert "24 nvidia.com/gpu together with pods that always run; at most 16" in found["training_jobs[1]"]


def test_with_queues_a_job_may_use_what_other_teams_lend() -> None:
    other = team(name="search", quota={"gpus": 8}, members=["group:search"])
    large = team(quota={"gpus": 8}, training_jobs=[{**JOB, "gpus": 8, "replicas": 2}])
    two = pool(count={"desired": 2})
    assert plan(two, teams=[large, other], queueing={}).workloads
    with pytest.raises(BadInput, match=r"at most 8: the team's quota.gpus"):
        plan(two, teams=[large, other])
    service = team(quota={"gpus": 8}, inference_services=[{**SERVICE, "gpus": 8, "replicas": 2}])
    with pytest.raises(BadInput, match=r"16 nvidia.com/gpu in all"):
        plan(two, teams=[service, other], queueing={})


def test_training_on_spot_capacity_needs_checkpoints() -> None:
    spot = pool(capacity=SPOT, count={"min": 0, "desired": 1, "max": 2}, zones=ZONE)
    found = refused(spot, cluster=EKS, training_jobs=[JOB])
    assert "spot" in found["training_jobs[0].checkpoints"]
    kept = {"directory": "/checkpoints", "volume": "work"}
    storage = {"work": {"type": "bucket", "bucket": "acme-work", "purpose": "checkpoints"}}
    job = run(spot, cluster=EKS, storage=storage, training_jobs=[{**JOB, "checkpoints": kept}]).training_jobs[0]
    assert job.pod.env["CHECKPOINTS"] == "/checkpoints"
    assert [(one.claim, one.path) for one in job.pod.mounts] == [("work", "/checkpoints"), (None, "/scratch")]
    assert job.claim is None


@pytest.mark.parametrize(
    ("command", "named"),
    [(["torchrun", "train.py"], True), (["python", "-m", "gpu_platform_training.train", "my_module:main"], False)],
)
def test_checkpoints_in_s3_are_reported_unless_written_without_renaming(command: list[str], named: bool) -> None:
    kept = {"directory": "/checkpoints", "volume": "work"}
    job = {**JOB, "command": command, "checkpoints": kept}
    teams = [team(quota={"gpus": 16}, training_jobs=[job])]
    bucket = {"work": {"type": "bucket", "bucket": "acme-work", "purpose": "checkpoints"}}
    two = pool(count={"desired": 2}, zones=["us-east-2a"])
    decisions = plan(two, teams=teams, cluster=EKS, storage=bucket).decisions
    (why,) = [one.why for one in decisions if one.subject.startswith("training job") and one.what == "pods"]
    assert ("files in work cannot be renamed" in why) is named
    assert (
        "start the program with gpu_platform_training.train, which works there, or use lustre or nfs" in why
    ) is named


def test_checkpoints_of_several_pods_need_a_class_that_many_nodes_write() -> None:
    storage = {"disk": {"type": "disk"}, "shared": {"type": "lustre", "zone": "us-east-2a"}}
    two = pool(count={"desired": 2}, zones=["us-east-2a"])

    def job(storage_class: str | None, **fields: Any) -> dict[str, Any]:
        kept = {"directory": "/kept", "size": "1200Gi", "storage_class": storage_class}
        return {"cluster": EKS, "storage": storage, "training_jobs": [{**JOB, "checkpoints": kept, **fields}]}

    assert (
        "disks that only one node can attach"
        in refused(two, **job("disk", replicas=2))["training_jobs[0].checkpoints.storage_class"]
    )
    assert (
        "a declared storage class ('disk', 'shared')"
        in refused(two, **job("fast"))["training_jobs[0].checkpoints.storage_class"]
    )
    assert "default" in refused(two, **job(None))["training_jobs[0].checkpoints.storage_class"]
    for classes, fix in ((storage, "write storage_class: shared"), ({}, "declare a class of type nfs or lustre")):
        several = {**job(None, replicas=2), "storage": classes}
        with pytest.raises(BadInput, match=rf"no storage class, with several replicas.*{fix}"):
            run(two, **several)
    claim = run(two, **job("shared", replicas=2)).training_jobs[0].claim
    assert claim is not None
    assert (claim.name, claim.storage_class, claim.size, claim.shared) == (
        "pretrain-checkpoints",
        "shared",
        "1200Gi",
        True,
    )


def test_memory_beyond_the_quota_is_a_quantity_as_the_quota_is() -> None:
    (found,) = refused(
        quota={"gpus": 16, "memory": "1Ti"}, batch_jobs=[{**JOB, "gpus": 1, "cpu": 1, "memory": "1025Gi"}]
    ).values()
    assert found.startswith(f"{1025 * 1024}Mi of memory")


def test_all_mistakes_of_an_entry_are_reported_in_one_run() -> None:
    found = refused(
        training_jobs=[
            {**JOB, "volumes": {"data": "/data"}, "api": "trainjob", "topology": "required", "gpus": 0}
        ],
        inference_services=[
            {**SERVICE, "nodes": 2, "route": {"gateway": "edge/public"}, "shared_memory": "9000Gi"}
        ],
        ray_clusters=[
            {
                "name": "ray",
                "image": IMAGE,
                "version": "2.49.0",
                "head": {},
                "workers": [{"name": "w", "pool": "x"}],
            }
        ],
    )
    assert {
        "training_jobs[0].volumes.data",
        "training_jobs[0].api",
        "training_jobs[0].topology",
        "training_jobs[0].gpus",
        "inference_services[0].nodes",
        "inference_services[0].route",
        "inference_services[0].shared_memory",
        "ray_clusters[0]",
        "ray_clusters[0].workers[0].pool",
    } <= set(found)


@pytest.mark.parametrize("field", ["workloads", "inference_services", "notebooks"])
def test_a_name_is_that_of_one_entry_of_all_lists(field: str) -> None:
    again = {"name": "pretrain", "pool": "train", **({"image": IMAGE} if field == "inference_services" else {})}
    entries: dict[str, Any] = {field: [again]}
    found = refused(training_jobs=[JOB], **entries)
    assert any("'pretrain' again" in text for text in found.values())


DIGIT = {"name": "7b-chat", "pool": "train", "gpus": 1, "image": IMAGE, "run_as_user": 1000}
RAY = {
    "name": "2nd-tune",
    "image": IMAGE,
    "version": "2.50.0",
    "run_as_user": 1000,
    "head": {},
    "workers": [{"name": "gpu", "pool": "train", "gpus": 1, "replicas": 1}],
}
BEFORE, AFTER = ({"provider": "existing", "name": "dev", "kubernetes": version} for version in ("1.35", "1.36"))
ADDONS = dict.fromkeys(("jobset", "kuberay", "leaderworkerset"), "present")


@pytest.mark.parametrize(
    ("entries", "cluster", "kind"),
    [
        ({"inference_services": [DIGIT]}, BEFORE, "a Service before Kubernetes 1.36"),
        ({"inference_services": [DIGIT]}, AFTER, None),
        ({"inference_services": [{**DIGIT, "gpus": 8, "nodes": 2}]}, AFTER, "a LeaderWorkerSet"),
        ({"training_jobs": [{**JOB, "name": "3d", "api": "job", "replicas": 2}]}, BEFORE, "a Service"),
        ({"training_jobs": [{**JOB, "name": "3d", "api": "job", "replicas": 1}]}, BEFORE, None),
        ({"training_jobs": [{**JOB, "name": "3d", "api": "jobset", "replicas": 1}]}, AFTER, "a JobSet"),
        ({"ray_clusters": [RAY]}, AFTER, "a RayCluster"),
    ],
)
def test_a_name_begins_with_a_letter_if_an_object_requires_it(
    entries: dict[str, Any], cluster: dict[str, Any], kind: str | None
) -> None:
    nodes = pool(count={"desired": 2}, nodes={"names": ["a", "b"]})
    if kind is None:
        run(nodes, cluster=cluster, addons=ADDONS, **entries)
        return
    found = refused(nodes, cluster=cluster, addons=ADDONS, **entries)
    assert [text for path, text in found.items() if path.endswith(".name") and kind in text]


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "db_password", "AWS_SECRET"])
def test_a_variable_with_the_name_of_a_secret_is_refused(name: str) -> None:
    found = refused(training_jobs=[{**JOB, "env": {name: "x"}}])
    assert any("no secret" in text for text in found.values())
    assert "xyzzy" not in str(refused(training_jobs=[{**JOB, "env": {name: "xyzzy"}}]))


def test_a_variable_that_gives_devices_is_refused() -> None:
    found = refused(training_jobs=[{**JOB, "env": {"NVIDIA_VISIBLE_DEVICES": "all"}}])
    assert any("a variable that does not assign devices" in text for text in found.values())


@pytest.mark.parametrize(
    ("addons", "api"), [({}, "job"), ({"jobset": "present"}, "jobset"), ({"trainer": "present"}, "trainjob")]
)
def test_a_training_job_is_run_by_the_strongest_controller_that_there_is(addons: dict[str, Any], api: str) -> None:
    existing = {"provider": "existing", "name": "dev", "kubernetes": "1.36"}
    one = pool(nodes={"names": ["train-0"]})
    found = run(one, cluster=existing, addons=addons, quota={"gpus": 8}, training_jobs=[JOB])
    assert found.training_jobs[0].api == api


def test_a_pod_with_all_gpus_of_a_node_uses_its_fabric() -> None:
    two = pool(count={"desired": 2}, zones=ZONE)
    whole = run(two, cluster=EKS, training_jobs=[{**JOB, "gpus": 8, "replicas": 2}]).training_jobs[0].pod
    assert whole.workload.requests["vpc.amazonaws.com/efa"] == "4"
    assert whole.fabric is not None
    assert whole.env["FI_PROVIDER"] == "efa"
    part = run(two, cluster=EKS, training_jobs=[{**JOB, "gpus": 4}]).training_jobs[0].pod
    assert part.fabric is None


def test_the_capacity_proof_counts_services_and_the_guide_leaves_room_for_them() -> None:
    two = pool(count={"desired": 2})
    full = plan(two, teams=[team(quota={"gpus": 16}, inference_services=[{**SERVICE, "gpus": 8, "replicas": 2}])])
    assert full.guides[0].examples == ()
    free = plan(two, teams=[team(quota={"gpus": 16}, inference_services=[{**SERVICE, "gpus": 8}])])
    assert max(one.workload.units * one.workload.replicas for one in free.guides[0].examples) == 8


def test_a_job_may_borrow_a_resource_without_its_own_quota() -> None:
    other = team(name="search", quota={"gpus": 16}, members=["group:search"])
    mig = pool("lab", count={"desired": 2}, sharing={"mode": "mig", "layout": {"1g.10gb": 7}})
    quota, queue = {"mig": {"1g.10gb": 7}}, {"borrow": {"gpus": 8}}

    def team_with(gpus: int) -> dict[str, Any]:
        return team(quota=quota, queue=queue, training_jobs=[{**JOB, "gpus": gpus // 2, "replicas": 2}])

    two = pool(count={"desired": 2})
    assert plan(two, mig, teams=[team_with(8), other], queueing={}).workloads
    with pytest.raises(
        BadInput, match=r"10 nvidia.com/gpu on pool train; allowed: at most 8 .*: the team's quota on this pool"
    ):
        plan(two, mig, teams=[team_with(10), other], queueing={})
    instances = {**JOB, "pool": "lab", "profile": "1g.10gb", "gpus": 1, "replicas": 8}
    own = team(quota=quota, queue=queue, training_jobs=[instances])
    with pytest.raises(BadInput, match=r"8 nvidia.com/mig-1g.10gb on pool lab; allowed: at most 7 "):
        plan(two, mig, teams=[own, other], queueing={})


def aligned(**rest: Any) -> dict[str, Any]:
    """Return a training pool on a cloud, where the kubelets use the Topology Manager policy `restricted`."""
    return pool(machine_type="p5.48xlarge", count={"desired": 2}, zones=ZONE, **rest)


def cpu_of(one: dict[str, Any], job: dict[str, Any]) -> str:
    """Return the CPU request of a training job's pods."""
    return run(one, cluster=EKS, training_jobs=[{**JOB, **job}]).training_jobs[0].pod.workload.cpu


@pytest.mark.parametrize(
    ("gpus", "cpu"),
    [
        (8, "64"),  # the GPUs are on two NUMA nodes, but 64 CPUs fit one NUMA node of 96 CPUs
        (8, "8"),
        (5, "96"),
        (2, "100"),
    ],
)
def test_whole_cpus_on_other_numa_nodes_than_the_gpus_are_not_exclusive(gpus: int, cpu: str) -> None:
    assert cpu_of(aligned(), {"gpus": gpus, "cpu": cpu}) == f"{int(cpu) * 1000 - 1}m"


@pytest.mark.parametrize(("gpus", "cpu"), [(8, "63900m"), (8, "100"), (4, "48"), (1, "1")])
def test_cpus_that_the_kubelet_aligns_with_the_gpus_are_those_declared(gpus: int, cpu: str) -> None:
    assert cpu_of(aligned(), {"gpus": gpus, "cpu": cpu}) == cpu


def test_where_no_kubelet_aligns_pods_whole_cpus_are_exclusive() -> None:
    for policy in ("best-effort", "none"):
        assert cpu_of(aligned(topology={"policy": policy}), {"gpus": 8, "cpu": "64"}) == "64"


def test_the_plan_says_why_cpus_are_not_those_declared() -> None:
    whole = {"name": "fit", "pool": "train", "gpus": 8, "cpu": 64}
    found = plan(aligned(), cluster=EKS, teams=[team(quota={"gpus": 8}, workloads=[whole])])
    assert [one.cpu for one in found.teams[0].workloads] == ["63999m"]
    (why,) = [one for one in found.decisions if one.what == "CPUs"]
    assert (why.subject, why.chosen) == ("vision/fit", "63999m")
    assert why.why.startswith("64 whole CPUs would be exclusive, and not on the same NUMA nodes as the pod's GPUs")


def test_memory_outside_the_gpus_numa_nodes_is_refused() -> None:
    static = aligned(topology={"policy": "restricted", "memory": "static"})
    job = {**JOB, "gpus": 8, "memory": "500Gi"}
    found = refused(static, cluster=EKS, training_jobs=[job])
    assert list(found) == ["training_jobs[0].memory"]
    assert "more than 1024Gi" in found["training_jobs[0].memory"]
    assert run(static, cluster=EKS, training_jobs=[{**job, "memory": "1500Gi"}]).training_jobs
    assert run(aligned(), cluster=EKS, training_jobs=[job]).training_jobs


def test_more_gpus_than_one_numa_node_has_are_refused_under_single_numa_node() -> None:
    single = aligned(topology={"policy": "single-numa-node"}, workload="inference")
    service = {**SERVICE, "gpus": 5}
    found = refused(single, cluster=EKS, inference_services=[service])
    assert "at most 4" in found["inference_services[0].gpus"]
    assert run(single, cluster=EKS, inference_services=[{**service, "gpus": 4}]).inference_services


SHARED_BY_MPS = pool("serve", "g6.12xlarge", workload="inference", sharing={"mode": "mps", "replicas": 4})


def test_pods_that_share_a_gpu_by_mps_keep_the_shared_memory_of_the_daemon() -> None:
    found = run(
        SHARED_BY_MPS,
        quota={"shared": 16},
        cluster=EKS,
        addons={"kuberay": "install"},
        training_jobs=[{**JOB, "pool": "serve"}],
        inference_services=[{**SERVICE, "pool": "serve"}],
        notebooks=[{"name": "lab", "pool": "serve"}],
        batch_jobs=[{**JOB, "name": "batch", "pool": "serve"}],
        ray_clusters=[
            {
                "name": "ray",
                "image": IMAGE,
                "version": "2.49.0",
                "head": {},
                "workers": [{"name": "w", "pool": "serve"}],
            }
        ],
    )
    pods = [one for one in found.all_pods if one.workload.units]
    assert len(pods) == 5
    assert {one.workload.shared_memory for one in pods} == {None}


def test_shared_memory_that_hides_the_mps_daemons_is_refused() -> None:
    entries = {"inference_services": [{**SERVICE, "pool": "serve", "shared_memory": "1Gi"}]}
    found = refused(SHARED_BY_MPS, quota={"shared": 4}, **entries)
    assert "on pool serve, which shares its GPUs with MPS" in found["inference_services[0].shared_memory"]
    sliced = {**SHARED_BY_MPS, "sharing": {"mode": "time-slicing", "replicas": 4}}
    (service,) = run(sliced, quota={"shared": 4}, **entries).inference_services
    assert service.pod.workload.shared_memory == "1Gi"


def test_no_volume_is_mounted_over_the_shared_memory_of_a_pod() -> None:
    volumes = {"data": "/dev/shm"}
    assert "inference_services[0].volumes.data" in refused(inference_services=[{**SERVICE, "volumes": volumes}])


def users_warned_of(mode: str, *users: int | None) -> list[str]:
    services = [
        {**SERVICE, "name": f"s{index}", "pool": "serve", **({} if user is None else {"run_as_user": user})}
        for index, user in enumerate(users)
    ]
    one = {**SHARED_BY_MPS, "sharing": {"mode": mode, "replicas": 4}}
    found = plan(one, teams=[team(quota={"shared": 16}, inference_services=services)])
    return [decision.chosen for decision in found.decisions if decision.what == "warning: users on pool serve"]


def test_users_that_one_mps_server_would_not_serve_together_are_named() -> None:
    assert users_warned_of("mps", 1000, 2000) == ["1000: s0; 2000: s1"]
    assert users_warned_of("mps", 1000, 1000) == []
    assert users_warned_of("mps", 1000, None) == []
    assert users_warned_of("time-slicing", 1000, 2000) == []
