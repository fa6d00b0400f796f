"""DeepSpeed and Hugging Face Accelerate configurations for the GPUs, memory and network of a pod.

The keys are from DeepSpeed 0.19.8 (runtime/zero/config.py, offload_config.py, runtime/constants.py) and Accelerate
1.15.0 (commands/config/config_args.py, commands/launch.py, utils/launch.py); read 2026-11-25.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from gpu_platform_training.granted import PREFIX, Granted, WrongSetting
from gpu_platform_training.sizing import (
    STATE_SHARE,
    TORCH_STATE_BYTES,
    DoesNotFit,
    Layout,
    Machines,
    Model,
    gib,
    zero_layout,
)

Configuration = dict[str, Any]
_MIB: Final = 2**20
# DeepSpeed's default number of elements in a bucket. Small GPUs use fewer.
_BUCKET: Final = 500_000_000
# Largest fraction of the GPU memory for each bucket of 16-bit elements.
_BUCKET_SHARE: Final = 0.01
# GPUs older than Ampere, whose tensor cores do not support bfloat16.
_WITHOUT_BFLOAT16: Final = re.compile(r"\b(T4G?|V100|P100|P40?|K80|M60)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Rendezvous for the pods of a job.

    With `static`, `address` is the address of the first pod, and every pod has its own `number`.
    """

    address: str
    port: int
    number: int
    static: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of one or more pods, with the resources of one pod."""

    granted: Granted
    machines: Machines
    meeting: Rendezvous | None

    @classmethod
    def of(cls, environment: Mapping[str, str], disk: int) -> Job:
        """Read the environment variables of the pod. `disk` is the free space in its scratch directory, in bytes.

        Raises WrongSetting if a value that a configuration needs is unknown.
        """
        granted = Granted.from_environment(environment)
        if granted.gpus is None or granted.gpu_memory_mib is None:
            raise WrongSetting(
                f"{PREFIX}GPUS and {PREFIX}GPU_MEMORY_MIB are not set: they contain the resources of the pod. "
                "Run this command in a pod of the platform, or set the variables"
            )
        pods = _number(environment, "PET_NNODES", 1)
        # A pod with MIG instances or shares runs one process, because CUDA shows one device to this process.
        gpus = _number(environment, "PET_NPROC_PER_NODE", granted.gpus if granted.sharing == "none" else 1)
        machines = Machines(
            pods=pods,
            gpus=gpus,
            gpu_memory=granted.gpu_memory_mib * _MIB,
            host_memory=(granted.memory_mib or 0) * _MIB,
            disk=disk if granted.scratch is not None else 0,
        )
        return cls(granted=granted, machines=machines, meeting=_rendezvous(environment) if pods > 1 else None)

    @property
    def precision(self) -> str:
        """bf16 if the GPU's tensor cores support it, otherwise fp16."""
        return "fp16" if _WITHOUT_BFLOAT16.search((self.granted.gpu or "").replace("-", " ")) else "bf16"

    @property
    def slow_network(self) -> bool:
        """Whether the job's pods communicate over TCP, which is much slower than NVLink within a node."""
        return self.machines.pods > 1 and self.granted.interconnect in (None, "tcp")


def deepspeed(
    job: Job, model: Model, *, micro_batch: int, accumulate: int, clip: float
) -> tuple[Configuration, list[str]]:
    """Return the configuration and the reasons for it. Raises DoesNotFit if the model fits in no layout."""
    machines = job.machines
    layout, refused = zero_layout(model, machines)
    zero: Configuration = {"stage": layout.stage}
    why = [*refused, f"{layout.name}: {_holds(layout)}"]
    if layout.stage > 0:
        bucket = min(_BUCKET, int(machines.gpu_memory * _BUCKET_SHARE) // 2)
        zero |= {"overlap_comm": machines.processes > 1, "contiguous_gradients": True}
        zero |= {"reduce_bucket_size": bucket}
        zero |= {"allgather_bucket_size": bucket} if layout.stage < 3 else {"stage3_prefetch_bucket_size": bucket}
    if layout.stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    scratch = job.granted.scratch
    for field, where in (("offload_optimizer", layout.optimizer_on), ("offload_param", layout.parameters_on)):
        if where != "gpu":
            zero[field] = {"device": where, "pin_memory": True}
        if where == "nvme":
            zero[field]["nvme_path"] = str(scratch)
    second = _copy_within_the_node(job, model, layout)
    if second is not None:
        zero["zero_hpz_partition_size"] = machines.gpus
        why.append(
            f"a second copy of the 16-bit parameters on each node, {second}, because the job's pods "
            "communicate over TCP"
        )
    if layout.optimizer_on != "gpu":
        why.append("the optimizer runs on CPUs: use deepspeed.ops.adam.DeepSpeedCPUAdam")
    found: Configuration = {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": accumulate,
        "gradient_clipping": clip,
        # A loss_scale of 0 means dynamic scaling, which starts with 2**16 for fp16.
        job.precision: {"enabled": True, **({"loss_scale": 0} if job.precision == "fp16" else {})},
        "zero_optimization": zero,
    }
    return found, why


def _copy_within_the_node(job: Job, model: Model, layout: Layout) -> str | None:
    """Return the GPU memory for a second copy of the parameters within the node, as a string, or None if there is
    no copy.

    With this copy, a backward pass gathers the parameters within the node. No copy is made if it is not needed, or
    if the GPU memory is too small.

    Source: DeepSpeed docs, ZeRO++, hierarchical partitioning (hpZ); read 2026-11-25.
    """
    machines = job.machines
    copy = 2 * model.parameters // machines.gpus
    fits = layout.gpu + copy <= machines.gpu_memory * STATE_SHARE
    if (
        not job.slow_network
        or layout.stage != 3
        or layout.parameters_on != "gpu"
        or machines.gpus == 1
        or not fits
    ):
        return None
    return gib(copy)


def accelerate(
    job: Job, model: Model, *, layer_class: str | None, deepspeed_file: Path | None
) -> tuple[Configuration, list[str]]:
    """Return the configuration and the reasons for it. Raises DoesNotFit.

    `layer_class` is the class of the modules that FSDP2 shards one by one. If `deepspeed_file` is given, DeepSpeed
    shards the state as configured in this file.
    """
    machines, meeting = job.machines, job.meeting
    found: Configuration = {
        "compute_environment": "LOCAL_MACHINE",
        "num_machines": machines.pods,
        "num_processes": machines.processes,
        "machine_rank": 0 if meeting is None else meeting.number,
        "main_training_function": "main",
        "use_cpu": False,
    }
    if meeting is not None:
        found |= {
            "main_process_ip": meeting.address,
            "main_process_port": meeting.port,
            "rdzv_backend": "static" if meeting.static else "c10d",
            # True for a static rendezvous at the first pod, False for torchrun's rendezvous at this address.
            "same_network": meeting.static,
        }
    if deepspeed_file is not None:
        stage = _stage(deepspeed_file)
        found |= {
            "distributed_type": "DEEPSPEED",
            "deepspeed_config": {
                "deepspeed_config_file": str(deepspeed_file),
                # By default, DeepSpeed starts the processes on other nodes over ssh, which does not work in pods.
                "deepspeed_multinode_launcher": "standard",
                "zero3_init_flag": stage == 3,
            },
        }
        return found, [f"DeepSpeed, by {deepspeed_file}"]
    found["mixed_precision"] = job.precision
    state, limit = TORCH_STATE_BYTES * model.parameters, int(machines.gpu_memory * STATE_SHARE)
    if state <= limit:
        kind, text = ("MULTI_GPU", "DDP") if machines.processes > 1 else ("NO", "one process")
        return {**found, "distributed_type": kind}, [f"{text}: {gib(state)} of {gib(limit)} on each GPU"]
    return _fsdp(job, model, found, layer_class)


def _stage(file: Path) -> int:
    """Return the ZeRO stage of a DeepSpeed configuration."""
    try:
        return int(json.loads(file.read_text())["zero_optimization"]["stage"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongSetting(
            f"{file} is not a DeepSpeed configuration with zero_optimization.stage ({error!r}): write it first "
            "with `python -m gpu_platform_training.configure deepspeed --out`"
        ) from None


def _fsdp(
    job: Job, model: Model, found: Configuration, layer_class: str | None
) -> tuple[Configuration, list[str]]:
    machines = job.machines
    limit = int(machines.gpu_memory * STATE_SHARE)
    state, layer = TORCH_STATE_BYTES * model.parameters, 4 * model.largest_layer
    why = [f"DDP: {gib(state)} needed, {gib(limit)} are {STATE_SHARE:.0%} of a GPU's memory"]
    shard = layer + state // machines.processes
    # On a slow network, keep gathered parameters until the backward pass to halve the traffic for gathering.
    kept = job.slow_network and shard + 2 * model.parameters <= limit
    offload = machines.processes == 1 or shard > limit
    of_pod = Layout(stage=3, optimizer_on="cpu", gpu=layer, host=state // machines.pods)
    if offload:
        missing = of_pod.missing(machines)
        sharded = f"FSDP2: {gib(shard)} needed, {gib(limit)} are {STATE_SHARE:.0%} of a GPU's memory"
        why += [sharded] if machines.processes > 1 else []
        if missing is not None:
            raise DoesNotFit("\n".join([*why, f"FSDP2, state on CPU: {missing}"]))
    on = f"{gib(layer if offload else shard)} on each GPU"
    why.append(f"FSDP2: {on}" + (f", {gib(of_pod.host)} in memory of each pod" if offload else ""))
    if kept:
        why.append(
            "parameters stay gathered between forward and backward pass, because the job's pods "
            "communicate over TCP"
        )
    fsdp: Configuration = {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": not kept,
        "fsdp_offload_params": offload,
        "fsdp_cpu_ram_efficient_loading": True,
        # Each process writes one file. More or fewer processes can read the files later.
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_activation_checkpointing": False,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    }
    if layer_class is not None:
        fsdp["fsdp_transformer_layer_cls_to_wrap"] = layer_class
    return {**found, "distributed_type": "FSDP", "fsdp_config": fsdp}, why


def launch_command(job: Job, file: Path) -> list[str]:
    """Return the command that starts a program with an Accelerate configuration.

    Accelerate 1.15.0 reads `rdzv_backend` only from the command line, because the default of this option overrides
    the file (commands/launch.py, _validate_launch_command).
    """
    rendezvous = ["--rdzv_backend", "c10d"] if job.meeting is not None and not job.meeting.static else []
    return ["accelerate", "launch", "--config_file", str(file), *rendezvous]


def to_yaml(configuration: Mapping[str, Any], indent: str = "") -> str:
    """Return a configuration of plain values and dictionaries as YAML."""
    lines: list[str] = []
    for key, value in configuration.items():
        if isinstance(value, Mapping):
            inner = to_yaml(cast("Mapping[str, Any]", value), f"{indent}  ")
            lines += [f"{indent}{key}:", inner.rstrip("\n")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def _holds(layout: Layout) -> str:
    parts = [f"{gib(layout.gpu)} on each GPU"]
    parts += [f"{gib(layout.host)} in memory of each pod"] if layout.host else []
    parts += [f"{gib(layout.disk)} on its NVMe disks"] if layout.disk else []
    return ", ".join(parts)


def _rendezvous(environment: Mapping[str, str]) -> Rendezvous:
    """Return the rendezvous of the pods, from the variables of torchrun or of Kubeflow Trainer."""
    endpoint = environment.get("PET_RDZV_ENDPOINT", "")
    if endpoint:
        address, _, port = endpoint.rpartition(":")
        number = _number(environment, "JOB_COMPLETION_INDEX", 0)
        return Rendezvous(address=address, port=int(port), number=number, static=False)
    address = environment.get("PET_MASTER_ADDR", "")
    if not address:
        raise WrongSetting("PET_NNODES is above 1, but neither PET_RDZV_ENDPOINT nor PET_MASTER_ADDR is set")
    return Rendezvous(
        address=address,
        port=_number(environment, "PET_MASTER_PORT", 29500),
        number=_number(environment, "PET_NODE_RANK", _number(environment, "JOB_COMPLETION_INDEX", 0)),
        static=True,
    )


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in a torchrun variable. For a range of nodes, return its upper end."""
    found = environment.get(name, "")
    if not found or found in {"auto", "gpu", "cpu"}:
        return default
    last = found.rpartition(":")[2]
    if not last.isdecimal():
        raise WrongSetting(f"{name}: found {found!r}, expected a whole number")
    return int(last)
