"""Reports of GPU memory, tested without a GPU: the allocator is simulated, and the tensors are in the node's
memory.
"""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from gpu_platform_training.memory import GpuMemory

_MIB = 2**20


class SimulatedAllocator:
    """Simulates the allocator of a GPU with 100 MiB. Counts the memory that `give` allocates, and raises PyTorch's
    error if the GPU is full.
    """

    def __init__(self) -> None:
        self.used = self.most = 0
        self.limited = 100 * _MIB
        self.device = torch.device("cpu")

    def give(self, tensor: torch.Tensor) -> torch.Tensor:
        size = tensor.untyped_storage().nbytes()
        if self.used + size > self.limited:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size // _MIB} MiB")
        self.used += size
        self.most = max(self.most, self.used)
        return tensor

    def total(self) -> int:
        return 100 * _MIB

    def allocated(self) -> int:
        return self.used

    def reserved(self) -> int:
        return self.used

    def most_allocated(self) -> int:
        return self.most

    def forget_most(self) -> None:
        self.most = self.used

    def limit(self, size: int) -> None:
        self.limited = size


def test_the_guard_names_what_holds_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    allocator = SimulatedAllocator()
    memory = GpuMemory(allocator)
    model = nn.Linear(2048, 2048, bias=False)  # 16 MiB
    allocator.give(model.weight)
    kept = []

    def step() -> None:
        with memory.tracking("attention"):
            kept.append(allocator.give(torch.zeros(5, 2**20)))  # 20 MiB

    for _ in range(4):
        step()
    with pytest.raises(torch.OutOfMemoryError) as raised, memory.guard(model):
        step()
    report = raised.value.__notes__[0]
    assert report in caplog.text
    assert "limit 100.0 MiB, tensors 96.0 MiB" in report
    assert "80.0 MiB  block attention" in report
    assert "parameters: weight (2048, 2048) torch.float32" in report
    assert "activations and others: tensor (5, 1048576) torch.float32" in report


def test_parameters_gradients_and_optimizer_state_are_distinguished() -> None:
    model = nn.Linear(512, 512, bias=False)  # 1 MiB
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 512)).sum().backward()
    optimizer.step()
    report = GpuMemory(SimulatedAllocator()).report(model, optimizer)
    for line in ("1.0 MiB  parameters", "1.0 MiB  gradients", "2.0 MiB  optimizer state"):
        assert line in report
    assert "optimizer state: weight.exp_avg (512, 512)" in report


def test_the_share_of_the_plan_is_the_limit_on_a_shared_gpu() -> None:
    allocator = SimulatedAllocator()
    memory = GpuMemory(allocator, share_mib=25)
    assert memory.info().limit == allocator.limited == 25 * _MIB
    with pytest.raises(torch.OutOfMemoryError) as raised, memory.guard():
        allocator.give(torch.zeros(8, 2**20))
    assert "the GPU has 100.0 MiB and is shared" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("sharing", "limit"), [("time-slicing", 35942 - 1664), ("mps", 35942 - 1280), ("none", 35942)]
)
def test_a_share_is_also_for_what_is_not_tensors(sharing: str, limit: int) -> None:
    class H200(SimulatedAllocator):
        def total(self) -> int:
            return 143155 * _MIB  # the total memory that CUDA reports (NVML reports 143771 MiB)

    memory = GpuMemory(H200(), share_mib=143771 // 4, sharing=sharing)
    assert memory.info().limit == limit * _MIB


def test_a_small_share_keeps_three_quarters_for_tensors() -> None:
    assert GpuMemory(SimulatedAllocator(), share_mib=40, sharing="time-slicing").info().limit == 30 * _MIB


def test_memory_that_only_autograd_holds_is_reported() -> None:
    allocator = SimulatedAllocator()
    memory = GpuMemory(allocator)
    text = "kept for the backward pass, and workspaces of libraries"
    assert text not in memory.report()
    allocator.used = 10**6 * _MIB  # more memory than the tensors of other tests can use
    assert re.search(rf"\d{{3}},\d{{3}}\.\d MiB  {text}", memory.report())


def test_tensors_in_node_memory_are_not_counted_as_gpu_memory() -> None:
    allocator = SimulatedAllocator()
    allocator.device = torch.device("meta")
    copy = torch.zeros(1234, 1)
    report = GpuMemory(allocator).report()
    assert str(tuple(copy.shape)) not in report


def test_the_most_that_was_used_is_counted_from_report_to_report() -> None:
    allocator = SimulatedAllocator()
    memory = GpuMemory(allocator)
    allocator.give(torch.zeros(10, 2**18))
    allocator.used = 0
    assert memory.take_most() == 10 * _MIB
    assert memory.take_most() == 0
