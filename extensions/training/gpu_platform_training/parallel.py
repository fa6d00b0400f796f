"""Device, process groups and distribution of a model, from the environment that torchrun sets."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import nn

from gpu_platform_training.sizing import STATE_SHARE, TORCH_STATE_BYTES

Parallel = Literal["none", "ddp", "fsdp"]
Precision = Literal["float32", "bfloat16", "float16"]

log = logging.getLogger("workloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRank:
    """Rank and device of this process in the job."""

    rank: int
    local_rank: int
    processes: int
    processes_on_node: int
    device: torch.device


def join() -> ProcessRank:
    """Join the process group of the job that torchrun's environment variables describe."""
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        # gloo is used in addition to NCCL, because saving checkpoints and agreeing to stop need no GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return ProcessRank(
        rank=dist.get_rank(),
        local_rank=local_rank,
        processes=dist.get_world_size(),
        processes_on_node=int(os.environ["LOCAL_WORLD_SIZE"]),
        device=device,
    )


def bus_bandwidth(place: ProcessRank, size_mib: int, rounds: int = 5) -> float | None:
    """Return the bus bandwidth of an all-reduce in GB/s per GPU, as in nccl-tests, or None for a single process.

    The call also sets up NCCL's connections, so that the first training step does not wait for them.
    """
    if place.processes == 1:
        return None
    tensor = torch.ones(size_mib * 2**18, dtype=torch.float32, device=place.device)
    for _ in range(2):
        dist.all_reduce(tensor)
    _synchronise(place.device)
    begun = time.monotonic()
    for _ in range(rounds):
        dist.all_reduce(tensor)
    _synchronise(place.device)
    seconds = (time.monotonic() - begun) / rounds
    moved = tensor.numel() * tensor.element_size() * 2 * (place.processes - 1) / place.processes
    return moved / seconds / 1e9


def chosen_parallel(
    wanted: Parallel | Literal["auto"], model: nn.Module, place: ProcessRank, memory: int | None
) -> Parallel:
    """Return how to distribute a model.

    FSDP2 is used if the model's state leaves too little of `memory` (in bytes) for activations.
    """
    if wanted != "auto":
        return wanted
    if place.processes == 1:
        return "none"
    state = TORCH_STATE_BYTES * sum(parameter.numel() for parameter in model.parameters())
    return "fsdp" if memory is not None and state > STATE_SHARE * memory else "ddp"


def distributed(
    model: nn.Module,
    parallel: Parallel,
    place: ProcessRank,
    precision: Precision,
    blocks: Sequence[type[nn.Module]],
) -> nn.Module:
    """Return the distributed model.

    FSDP2 gathers the parameters of one module at a time. `blocks` are the types of these modules.
    """
    if parallel == "ddp":
        return nn.parallel.DistributedDataParallel(
            model, device_ids=[place.device] if place.device.type == "cuda" else None
        )
    if parallel == "none":
        return model
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(
        param_dtype=None if precision == "float32" else getattr(torch, precision), reduce_dtype=torch.float32
    )
    for module in list(model.modules()):
        if isinstance(module, tuple(blocks)):
            fully_shard(module, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
