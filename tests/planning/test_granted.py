"""Environment variables that describe a pod's GPUs, network and directories."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.workloads.section import PodPlan
from tests.planning.conftest import pool
from tests.planning.test_team_workloads import EKS, IMAGE, JOB, ZONE, refused, run

RUN = {"name": "embed", "pool": "train", "image": IMAGE, "command": ["python", "embed.py"]}


def pod_of(one: dict[str, Any], quota: dict[str, Any], **fields: Any) -> PodPlan:
    return run(one, cluster=EKS, quota=quota, training_jobs=[{**JOB, **fields}]).training_jobs[0].pod


def granted(pod: PodPlan) -> dict[str, str]:
    prefix = "GPU_PLATFORM_"
    return {name.removeprefix(prefix): value for name, value in pod.env.items() if name.startswith(prefix)}


def test_a_pod_with_whole_gpus_knows_their_memory_and_peak() -> None:
    found = granted(pod_of(pool(machine_type="p4de.24xlarge", zones=ZONE), {"gpus": 8}, gpus=8))
    assert found["GPUS"] == "8"
    assert found["GPU"] == "NVIDIA A100-SXM4-80GB"
    assert found["GPU_MEMORY_MIB"] == "81920"
    assert found["SHARING"] == "none"
    assert found["PEAK_TFLOPS"] == "312"
    assert "INTERCONNECT" not in found  # a single pod has no interconnect


@pytest.mark.parametrize(
    ("sharing", "quota", "fields", "memory", "mode"),
    [
        ({"mode": "time-slicing", "replicas": 4}, {"shared": 4}, {}, 23028 // 4, "time-slicing"),
        ({"mode": "time-slicing", "replicas": 4}, {"shared": 4}, {"gpu_memory": "5Gi"}, 5120, "time-slicing"),
        ({"mode": "mps", "replicas": 4}, {"shared": 4}, {}, 23028 // 4, "mps"),
    ],
)
def test_a_pod_with_a_share_knows_its_part(
    sharing: dict[str, Any], quota: dict[str, Any], fields: dict[str, Any], memory: int, mode: str
) -> None:
    one = pool(machine_type="g5.12xlarge", workload="development", sharing=sharing, zones=ZONE)
    found = granted(pod_of(one, quota, **fields))
    assert (found["GPU_MEMORY_MIB"], found["SHARING"]) == (str(memory), mode)
    assert "PEAK_TFLOPS" not in found  # the share of compute that other pods do not use is unknown


def test_a_pod_with_a_mig_instance_knows_its_memory() -> None:
    sharing = {"mode": "mig", "layout": {"2g.20gb": 2, "3g.40gb": 1}}
    one = pool(machine_type="p4de.24xlarge", workload="development", sharing=sharing, zones=ZONE)
    found = granted(pod_of(one, {"mig": {"2g.20gb": 4, "3g.40gb": 2}}, profile="2g.20gb"))
    assert found["SHARING"] == "mig"
    assert 19_000 < int(found["GPU_MEMORY_MIB"]) < 20_500


def test_pods_on_several_nodes_know_the_network_between_them() -> None:
    one = pool(machine_type="p5.48xlarge", count={"desired": 2}, zones=ZONE)
    assert granted(pod_of(one, {"gpus": 16}, gpus=8, replicas=2))["INTERCONNECT"] == "efa"
    small = pool(machine_type="g5.xlarge", count={"desired": 2}, zones=ZONE)
    assert granted(pod_of(small, {"gpus": 2}, replicas=2))["INTERCONNECT"] == "tcp"


def test_a_job_knows_the_time_that_it_has_to_save() -> None:
    pod = pod_of(pool(zones=ZONE), {"gpus": 8}, grace="5m")
    assert (granted(pod)["GRACE_SECONDS"], pod.grace_seconds) == ("300", 300)


def test_a_job_has_a_directory_on_the_local_disks_where_the_nodes_use_them() -> None:
    pod = pod_of(pool(machine_type="p4de.24xlarge", zones=ZONE), {"gpus": 8})
    assert granted(pod)["SCRATCH"] == "/scratch"
    assert [(one.name, one.path, one.claim, one.host_path) for one in pod.mounts] == [
        ("scratch", "/scratch", None, None)
    ]
    without = pod_of(pool(machine_type="p4de.24xlarge", local_nvme=False, zones=ZONE), {"gpus": 8})
    assert "SCRATCH" not in granted(without)
    assert without.mounts == ()


def test_a_directory_of_the_entry_is_not_hidden() -> None:
    storage = {"disk": {"type": "disk"}}
    kept = {"directory": "/scratch/kept", "storage_class": "disk", "size": "10Gi"}
    jobs = [{**JOB, "checkpoints": kept}]
    found = run(pool(zones=ZONE), cluster=EKS, quota={"gpus": 8}, storage=storage, training_jobs=jobs)
    assert [one.path for one in found.training_jobs[0].pod.mounts] == ["/scratch/kept"]


def test_what_the_entry_sets_itself_wins() -> None:
    pod = pod_of(pool(zones=ZONE), {"gpus": 8}, env={"GPU_PLATFORM_PEAK_TFLOPS": "280"})
    assert granted(pod)["PEAK_TFLOPS"] == "280"


def test_pods_without_gpus_get_no_variables_of_gpus() -> None:
    cpus = pool("cpus", machine_type="m7i.4xlarge", workload="general", zones=ZONE)
    jobs = [{**RUN, "pool": "cpus", "gpus": 0}]
    found = run(
        pool(zones=ZONE), cpus, cluster=EKS, quota={"gpus": 8, "cpu": 8, "memory": "32Gi"}, batch_jobs=jobs
    )
    assert granted(found.batch_jobs[0].pod) == {}


def test_an_exit_code_either_ends_a_job_or_starts_it_again() -> None:
    found = refused(training_jobs=[{**JOB, "stop_on": [2, 75]}])
    assert found["training_jobs[0].interrupted_on"].startswith("75, which stop_on contains too;")
