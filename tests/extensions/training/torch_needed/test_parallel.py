from __future__ import annotations

from torch import nn

from gpu_platform_training.parallel import ProcessRank, bus_bandwidth, chosen_parallel
from gpu_platform_training.training import _seed

_MODEL = nn.Linear(1000, 1000, bias=False)  # the weights, the gradients and AdamW's state use 16 MB


def _place(alone: ProcessRank, processes: int) -> ProcessRank:
    return ProcessRank(rank=0, local_rank=0, processes=processes, processes_on_node=1, device=alone.device)


def test_a_model_that_leaves_no_room_for_activations_is_sharded(alone: ProcessRank) -> None:
    assert chosen_parallel("auto", _MODEL, _place(alone, 8), 20_000_000) == "fsdp"
    assert chosen_parallel("auto", _MODEL, _place(alone, 8), 40_000_000) == "ddp"


def test_one_process_needs_no_distribution_unless_it_is_declared(alone: ProcessRank) -> None:
    assert chosen_parallel("auto", _MODEL, alone, 20_000_000) == "none"
    assert chosen_parallel("fsdp", _MODEL, alone, 40_000_000) == "fsdp"


def test_one_process_has_no_bus_bandwidth(alone: ProcessRank) -> None:
    assert bus_bandwidth(alone, 1) is None


def test_random_numbers_differ_by_step_and_process_and_not_by_attempt() -> None:
    assert _seed(0, 5, 1) == _seed(0, 5, 1)
    assert len({_seed(seed, step, rank) for seed in range(3) for step in range(50) for rank in range(4)}) == 600
