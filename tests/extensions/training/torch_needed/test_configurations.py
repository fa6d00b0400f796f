"""The generated configurations, read by the real libraries on a machine without GPUs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

from gpu_platform_training import configure
from gpu_platform_training.configurations import Job, launch_command
from gpu_platform_training.sizing import Layout, Machines, Model, zero_layouts

GIB = 2**30
POD = {
    "GPU_PLATFORM_GPUS": "8",
    "GPU_PLATFORM_GPU_MEMORY_MIB": "81559",
    "GPU_PLATFORM_GPU": "NVIDIA-H100-80GB-HBM3",
    "GPU_PLATFORM_MEMORY_MIB": "1000000",
    "GPU_PLATFORM_INTERCONNECT": "tcp",
    "PET_NNODES": "2",
    "PET_RDZV_ENDPOINT": "127.0.0.1:29517",
    "JOB_COMPLETION_INDEX": "1",
}
SIZES = ["1b", "8b", "12b", "20b", "30b"]


def _deepspeed(parameters: str, file: Path, **variables: str) -> DeepSpeedConfig:
    assert configure.main(["deepspeed", "--parameters", parameters, "--out", str(file)], {**POD, **variables}) == 0
    return DeepSpeedConfig(str(file))


@pytest.mark.parametrize("parameters", SIZES)
def test_deepspeed_reads_each_key_as_it_was_meant(parameters: str, tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    read = _deepspeed(parameters, file)
    declared = json.loads(file.read_text())["zero_optimization"]
    zero = json.loads(read.zero_config.model_dump_json(by_alias=True, exclude_unset=True))
    # DeepSpeed adds defaults, but must accept all keys that the program writes and keep their values.
    assert {key: zero[key] for key in declared if not key.startswith("offload")} == {
        key: value for key, value in declared.items() if not key.startswith("offload")
    }
    assert read.bfloat16_config.enabled
    assert read.gradient_clipping == 1.0
    assert read.train_micro_batch_size_per_gpu == 1


def test_deepspeed_offloads_to_the_scratch_directory_of_the_pod(tmp_path: Path) -> None:
    little = {"GPU_PLATFORM_MEMORY_MIB": "20000", "GPU_PLATFORM_SCRATCH": str(tmp_path)}
    config = ["deepspeed", "--parameters", "0.6b", "--largest-layer", "1m", "--out", str(tmp_path / "ds.json")]
    # The GPU's memory is too small for the state, but the model fits on the disk of any machine.
    pod = {**POD, **little, "GPU_PLATFORM_GPUS": "1", "GPU_PLATFORM_GPU_MEMORY_MIB": "2400", "PET_NNODES": "1"}
    pod["GPU_PLATFORM_MEMORY_MIB"] = "9000"
    assert configure.main(config, pod) == 0
    offload = DeepSpeedConfig(str(tmp_path / "ds.json")).zero_config.offload_optimizer
    assert (offload.device, offload.nvme_path) == ("nvme", tmp_path)


def _layout(machines: Machines, model: Model, stage: int, optimizer: str = "gpu") -> Layout:
    return next(
        one for one in zero_layouts(model, machines) if (one.stage, one.optimizer_on) == (stage, optimizer)
    )


@pytest.mark.parametrize(("pods", "gpus"), [(1, 8), (4, 8), (2, 1)])
def test_the_arithmetic_agrees_with_deepspeeds_estimators(pods: int, gpus: int) -> None:
    machines = Machines(pods=pods, gpus=gpus, gpu_memory=80 * GIB, host_memory=0)
    model = Model.of(8 * 10**9)
    of_job = {"num_gpus_per_node": gpus, "num_nodes": pods, "cpu_offload": False}
    second = estimate_zero2_model_states_mem_needs(model.parameters, **of_job)[1]
    third = estimate_zero3_model_states_mem_needs(
        model.parameters, model.largest_layer, **of_job, cpu_offload_params=False
    )[1]
    host, moved, _ = estimate_zero3_model_states_mem_needs(
        model.parameters, model.largest_layer, **{**of_job, "cpu_offload": True}, cpu_offload_params=False
    )
    assert _layout(machines, model, 2).gpu == pytest.approx(second, abs=8)
    assert _layout(machines, model, 3).gpu == pytest.approx(third, abs=8)
    offloaded = _layout(machines, model, 3, "cpu")
    assert (offloaded.gpu, offloaded.host) == (pytest.approx(moved, abs=8), pytest.approx(host, abs=8))


def _launched(file: Path) -> argparse.Namespace:
    """Return the arguments that `accelerate launch` derives from the file and from the command that the program
    prints.
    """
    _, _, *options = launch_command(Job.of(POD, 0), file)
    args, defaults, by_file = _validate_launch_command(launch_command_parser().parse_args([*options, "train.py"]))
    fields = [*defaults.deepspeed_config, *(["mixed_precision"] if by_file else [])]
    args.deepspeed_fields_from_accelerate_config = ",".join(fields)  # as Accelerate's launch_command does
    return args


@pytest.mark.parametrize("parameters", SIZES)
def test_accelerate_reads_the_file_and_starts_the_processes_of_its_pod(parameters: str, tmp_path: Path) -> None:
    file = tmp_path / "accelerate.yaml"
    assert configure.main(["accelerate", "--parameters", parameters, "--out", str(file)], POD) == 0
    load_config_from_file(str(file))  # raises an error for an unknown key
    args = _launched(file)
    environment = prepare_multi_gpu_env(args)
    assert (args.nnodes, args.nproc_per_node, args.node_rank) == ("2", "8", 1)
    assert (args.rdzv_backend, args.rdzv_endpoint) == ("c10d", "127.0.0.1:29517")
    assert environment["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert environment.get("FSDP_VERSION") == (None if parameters == "1b" else "2")


def test_accelerate_hands_deepspeed_its_file_and_starts_no_node_by_ssh(tmp_path: Path) -> None:
    zero, file = tmp_path / "ds.json", tmp_path / "accelerate.yaml"
    _deepspeed("30b", zero)
    options = ["--parameters", "30b", "--deepspeed-file", str(zero), "--out", str(file)]
    assert configure.main(["accelerate", *options], POD) == 0
    args = _launched(file)
    command, environment = prepare_deepspeed_cmd_env(args)
    assert command is None  # the launcher is torchrun, not `deepspeed` with ssh
    assert environment["ACCELERATE_DEEPSPEED_CONFIG_FILE"] == str(zero)
    assert environment["ACCELERATE_DEEPSPEED_ZERO3_INIT"] == "true"
    # Accelerate refuses a setting that is given both in the file and separately.
    assert environment["ACCELERATE_CONFIG_DS_FIELDS"] == (
        "deepspeed_config_file,deepspeed_multinode_launcher,zero3_init_flag"
    )
    assert (args.nnodes, args.rdzv_endpoint) == ("2", "127.0.0.1:29517")


def test_a_model_trains_in_one_process_as_the_files_say(tmp_path: Path) -> None:
    """The configuration is for a pod with one GPU, but this training runs on a CPU."""
    file = tmp_path / "accelerate.yaml"
    pod = {**POD, "GPU_PLATFORM_GPUS": "1", "PET_NNODES": "1"}
    assert configure.main(["accelerate", "--parameters", "1m", "--out", str(file)], pod) == 0
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nfrom accelerate import Accelerator\n"
        "accelerator = Accelerator()\nmodel = torch.nn.Linear(4, 1)\n"
        "model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1))\n"
        "x = torch.ones(8, 4)\n"
        "for _ in range(50):\n"
        "    loss = ((model(x) - 1) ** 2).mean()\n    accelerator.backward(loss)\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"
        "print('precision', accelerator.mixed_precision, 'learned', loss.item() < 0.05)\n"
    )
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--config_file",
        str(file),
        str(program),
    ]
    ran = subprocess.run(launch, capture_output=True, text=True, check=False)
    assert "precision bf16 learned True" in ran.stdout, ran.stderr


def test_two_processes_train_with_deepspeed_by_each_stage(tmp_path: Path) -> None:
    """The processes run on CPUs with gloo. The configurations are for GPUs of 100 MiB, and for models that just
    fit each stage.
    """
    pod = {"GPU_PLATFORM_GPUS": "2", "GPU_PLATFORM_GPU_MEMORY_MIB": "100", "GPU_PLATFORM_GPU": "NVIDIA-L4"}
    pod |= {"GPU_PLATFORM_MEMORY_MIB": "8000"}
    files = []
    for parameters in ("3m", "5m", "5.5m", "6.5m", "20m"):
        files.append(str(tmp_path / f"{parameters}.json"))
        options = ["--parameters", parameters, "--largest-layer", "1k", "--out", files[-1]]
        assert configure.main(["deepspeed", *options], pod) == 0
    program = str(Path(__file__).parent / "programs" / "zero.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program, *files]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, *launch], capture_output=True, text=True, check=False, env=variables)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = [json.loads(line.split(" ", 1)[1]) for line in ran.stdout.splitlines() if line.startswith("trained ")]
    assert [one["stage"] for one in found] == [0, 1, 2, 3, 3]
    assert json.loads(Path(files[-1]).read_text())["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert all(one["last"] < one["first"] / 100 for one in found)
