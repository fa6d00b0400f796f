"""Configurations of DeepSpeed and Accelerate, computed from hand-written variables and from planned pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_platform.stack.loaded import plan_platform
from gpu_platform.workload_manifests import TeamPods, training_job
from gpu_platform_training import configure
from gpu_platform_training.configurations import Job, deepspeed, launch_command
from gpu_platform_training.granted import WrongSetting
from gpu_platform_training.sizing import DoesNotFit, Layout, Machines, Model, zero_layout
from tests.planning.conftest import environment, pool, team

GIB = 2**30
H100 = {
    "GPU_PLATFORM_GPUS": "8",
    "GPU_PLATFORM_GPU_MEMORY_MIB": "81559",
    "GPU_PLATFORM_GPU": "NVIDIA-H100-80GB-HBM3",
    "GPU_PLATFORM_MEMORY_MIB": "1900000",
}
TWO_PODS = {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "pretrain-0.pretrain:29500"}
MIG = {
    "GPU_PLATFORM_GPUS": "1",
    "GPU_PLATFORM_GPU_MEMORY_MIB": "9856",
    "GPU_PLATFORM_GPU": "NVIDIA-A100-SXM4-80GB",
    "GPU_PLATFORM_SHARING": "mig",
    "GPU_PLATFORM_MEMORY_MIB": "16000",
}


def written(
    capsys: pytest.CaptureFixture[str], variables: dict[str, str], library: str, *options: str
) -> tuple[dict[str, Any], str]:
    """Return the configuration that the command writes, and the explanation that it prints."""
    assert configure.main([library, *options], variables) == 0
    told = capsys.readouterr()
    return yaml.safe_load(told.out), told.err


def stage(machines: Machines, parameters: float) -> Layout:
    return zero_layout(Model.of(int(parameters)), machines)[0]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (2.4e9, "no ZeRO"),  # each GPU needs 48 of 51 GB: 20 bytes per parameter
        (8e9, "ZeRO stage 1"),  # each GPU needs 40 GB: 4 + 16/16 bytes per parameter
        (13e9, "ZeRO stage 2"),  # each GPU needs 41 GB: 2 + 18/16 bytes per parameter
        (30e9, "ZeRO stage 3"),  # each GPU needs 41 GB: 18/16 bytes per parameter, and 4 in the largest layer
        (70e9, "ZeRO stage 3, optimizer on CPU"),  # each pod needs 840 of 1,594 GB: 24/2 bytes per parameter
        (140e9, "ZeRO stage 3, optimizer on NVMe"),  # the pod would need 1,680 GB, but has 1,594 GB
    ],
)
def test_the_stage_is_the_lowest_one_whose_state_fits(parameters: float, expected: str) -> None:
    machines = Machines(pods=2, gpus=8, gpu_memory=80 * GIB, host_memory=1856 * GIB, disk=30_000 * GIB)
    model = Model.of(int(parameters), largest_layer=int(min(parameters / 16, 2e9)))
    assert zero_layout(model, machines)[0].name == expected


def test_state_goes_to_nvme_only_where_the_pod_has_such_disks() -> None:
    machines = Machines(pods=1, gpus=8, gpu_memory=80 * GIB, host_memory=900 * GIB, disk=7000 * GIB)
    assert stage(machines, 65e9).optimizer_on == "nvme"
    with pytest.raises(DoesNotFit) as refused:
        stage(Machines(pods=1, gpus=8, gpu_memory=80 * GIB, host_memory=900 * GIB), 65e9)
    lines = str(refused.value).splitlines()
    assert "ZeRO stage 3, optimizer on NVMe: needs the pod's NVMe disks, but the pod has none" in lines
    assert lines[-1] == "ZeRO stage 3 needs 34 of these GPUs"


def test_every_way_that_did_not_fit_is_named_with_what_was_too_small() -> None:
    machines = Machines(pods=1, gpus=1, gpu_memory=10 * GIB, host_memory=16 * GIB)
    with pytest.raises(DoesNotFit) as refused:
        stage(machines, 1e9)
    assert str(refused.value).splitlines()[:2] == [
        "no ZeRO: 18.6 GiB needed, 6.0 GiB are 60% of a GPU's memory",
        "ZeRO stage 3, optimizer on CPU: 22.4 GiB needed, 12.8 GiB are 80% of the pod's memory",
    ]


def test_the_limit_is_that_of_the_instance_or_share(capsys: pytest.CaptureFixture[str]) -> None:
    small, why = written(capsys, MIG, "deepspeed", "--parameters", "250m")
    assert why.startswith("no ZeRO: 4.7 GiB on each GPU")
    assert small["zero_optimization"] == {"stage": 0}
    offloaded, why = written(capsys, MIG, "deepspeed", "--parameters", "500m")
    assert "5.8 GiB are 60% of a GPU's memory" in why
    zero = offloaded["zero_optimization"]
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    # Each bucket may use one percent of the instance's memory, with 2 bytes per element.
    assert zero["reduce_bucket_size"] == 9856 * 2**20 // 100 // 2


def test_a_share_of_a_gpu_has_one_process_whatever_its_number() -> None:
    shares = {**MIG, "GPU_PLATFORM_GPUS": "2", "GPU_PLATFORM_SHARING": "time-slicing"}
    assert Job.of(shares, 0).machines.processes == 1


@pytest.mark.parametrize(
    ("gpu", "precision"),
    [
        ("Tesla-T4", "fp16"),
        ("NVIDIA-T4G-SHARED", "fp16"),
        ("Tesla-V100-SXM2-16GB", "fp16"),
        ("NVIDIA-L4", "bf16"),
        ("NVIDIA-A100-SXM4-80GB", "bf16"),
    ],
)
def test_bfloat16_is_taken_where_the_gpu_computes_with_it(
    capsys: pytest.CaptureFixture[str], gpu: str, precision: str
) -> None:
    found, _ = written(capsys, {**MIG, "GPU_PLATFORM_GPU": gpu}, "deepspeed", "--parameters", "100m")
    assert found[precision]["enabled"] is True
    assert len({"bf16", "fp16"} & found.keys()) == 1


@pytest.mark.parametrize(("network", "copied"), [("tcp", True), ("efa", False)])
def test_where_pods_communicate_by_tcp_parameters_are_gathered_within_the_node(network: str, copied: bool) -> None:
    job = Job.of({**H100, **TWO_PODS, "GPU_PLATFORM_INTERCONNECT": network}, 0)
    found, why = deepspeed(job, Model.of(25 * 10**9, 5 * 10**8), micro_batch=1, accumulate=1, clip=1.0)
    assert found["zero_optimization"]["stage"] == 3
    assert found["zero_optimization"].get("zero_hpz_partition_size") == (8 if copied else None)
    assert any("communicate over TCP" in line for line in why) is copied


def test_accelerate_takes_ddp_then_fsdp2_then_memory_of_the_pod(capsys: pytest.CaptureFixture[str]) -> None:
    two = {**H100, **TWO_PODS, "GPU_PLATFORM_INTERCONNECT": "efa"}
    ddp, _ = written(capsys, two, "accelerate", "--parameters", "1b")
    fsdp, _ = written(capsys, two, "accelerate", "--parameters", "8b", "--layer-class", "LlamaDecoderLayer")
    moved, why = written(capsys, two, "accelerate", "--parameters", "70.6b", "--largest-layer", "1.05b")
    assert (ddp["distributed_type"], ddp["num_processes"]) == ("MULTI_GPU", 16)
    assert (fsdp["distributed_type"], fsdp["fsdp_config"]["fsdp_offload_params"]) == ("FSDP", False)
    assert fsdp["fsdp_config"]["fsdp_transformer_layer_cls_to_wrap"] == "LlamaDecoderLayer"
    assert moved["fsdp_config"]["fsdp_offload_params"] is True
    assert "526.0 GiB in memory of each pod" in why
    assert (fsdp["main_process_ip"], fsdp["main_process_port"]) == ("pretrain-0.pretrain", 29500)
    assert (fsdp["rdzv_backend"], fsdp["same_network"]) == ("c10d", False)
    assert "start the program with: accelerate launch --config_file FILE --rdzv_backend c10d PROGRAM" in why


def test_pods_of_a_train_job_meet_at_the_address_that_its_controller_sets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trainer = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "a.b", "PET_MASTER_PORT": "29400"}
    found, _ = written(capsys, {**H100, **trainer}, "accelerate", "--parameters", "1b")
    assert (found["machine_rank"], found["main_process_ip"], found["main_process_port"]) == (1, "a.b", 29400)
    assert (found["rdzv_backend"], found["same_network"]) == ("static", True)
    assert launch_command(Job.of({**H100, **trainer}, 0), Path("a.yaml"))[-1] == "a.yaml"


def test_accelerate_uses_the_file_of_deepspeed_and_starts_no_node_by_ssh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, two = tmp_path / "ds.json", {**H100, **TWO_PODS}
    assert configure.main(["deepspeed", "--parameters", "30b", "--out", str(file)], two) == 0
    found, _ = written(capsys, two, "accelerate", "--parameters", "30b", "--deepspeed-file", str(file))
    assert found["distributed_type"] == "DEEPSPEED"
    assert found["deepspeed_config"] == {
        "deepspeed_config_file": str(file),
        "deepspeed_multinode_launcher": "standard",
        "zero3_init_flag": True,
    }
    assert "mixed_precision" not in found


def test_missing_variables_of_the_platform_are_reported() -> None:
    with pytest.raises(WrongSetting, match="Run this command in a pod of the platform, or set the variables"):
        Job.of({}, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["deepspeed", "--parameters", "405b"], "set --largest-layer if the layer is smaller"),
        (["deepspeed", "--parameters", "405b", "--largest-layer", "3.2b"], "ZeRO stage 3 needs 190 of these GPUs"),
        (["accelerate", "--parameters", "405b"], "FSDP2, state on CPU: "),
        (["accelerate", "--parameters", "1b", "--deepspeed-file", "/nowhere/ds.json"], "write it first"),
        (["deepspeed", "--parameters", "1b", "--out", "/nowhere/ds.json"], "/nowhere/ds.json cannot be written"),
    ],
)
def test_what_cannot_be_written_ends_with_2_and_one_reason(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert configure.main(options, {**H100, **TWO_PODS}) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert not told.out


# -- planned pods -------------------------------------------------------------------------------------------

EKS = {"provider": "eks", "name": "prod", "region": "us-east-2"}
JOB = {
    "name": "pretrain",
    "pool": "train",
    "gpus": 8,
    "replicas": 2,
    "image": "registry.example.com/train:1.0",
    "command": ["accelerate", "launch", "train.py"],
}


def planned(**of_pool: Any) -> dict[str, str]:
    """Return the environment variables of the pods of a planned two-node job."""
    nodes = pool(count={"desired": 2}, zones=["us-east-2a"], **of_pool)
    stack = environment(nodes, cluster=EKS, teams=[team(quota={"gpus": 16}, training_jobs=[JOB])])
    plan = plan_platform(stack, "test")
    assert plan.kind == "environment"
    (team_plan,) = plan.teams
    (workloads,) = plan.workloads
    job = training_job(TeamPods(team_plan, None), workloads.training_jobs[0])[-1]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def test_a_planned_job_is_configured_with_its_nodes_resources(tmp_path: Path) -> None:
    variables = planned(machine_type="p5.48xlarge")
    job = Job.of(variables, disk=28_000 * GIB)
    assert (job.machines.pods, job.machines.gpus) == (2, 8)
    assert job.machines.gpu_memory == 81559 * 2**20
    assert (job.granted.interconnect, job.slow_network) == ("efa", False)
    found, _ = deepspeed(job, Model.of(140 * 10**9, 2 * 10**9), micro_batch=1, accumulate=4, clip=1.0)
    assert found["zero_optimization"]["offload_optimizer"] == {
        "device": "nvme",
        "pin_memory": True,
        "nvme_path": "/scratch",
    }
    assert json.loads(json.dumps(found)) == found


def test_nodes_whose_disks_are_not_used_give_no_path_for_nvme() -> None:
    job = Job.of(planned(machine_type="p5.48xlarge", local_nvme=False), disk=28_000 * GIB)
    assert (job.granted.scratch, job.machines.disk) == (None, 0)
    with pytest.raises(DoesNotFit, match="needs the pod's NVMe disks, but the pod has none"):
        deepspeed(job, Model.of(140 * 10**9, 2 * 10**9), micro_batch=1, accumulate=1, clip=1.0)
