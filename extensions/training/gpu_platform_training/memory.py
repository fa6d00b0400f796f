"""GPU memory of a process: total, limit, and a report of the largest tensors after an out-of-memory error."""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch

_MIB: Final = 2**20
_SHOWN: Final = 10
# Memory in MiB that a process uses on a shared GPU in addition to tensors.
# The CUDA context, kernels of CUDA libraries, NCCL, and part of the driver's reserved 616 MiB need this memory.
# Measured with NVML on an H200 (driver 580.159, PyTorch 2.11) on 2026-11-26:
# 610 before the first kernel, 758 in a training step, and 1,316 with NCCL. Under MPS: 166 and 876.
_OUTSIDE_TENSORS: Final = {"time-slicing": 1664, "mps": 1280}
# Largest fraction of the pod's GPU memory that is reserved for uses other than tensors.
# On small GPUs, a fixed number of MiB would reserve too much.
_MOST_OUTSIDE: Final = 0.25

log = logging.getLogger("workloads")


class Allocator(Protocol):
    """Interface to PyTorch's GPU memory allocator. All values are in bytes."""

    @property
    def device(self) -> torch.device: ...
    def total(self) -> int: ...
    def allocated(self) -> int: ...
    def reserved(self) -> int: ...
    def most_allocated(self) -> int: ...
    def forget_most(self) -> None: ...
    def limit(self, size: int) -> None: ...


class CudaAllocator:
    """PyTorch's allocator for one GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def total(self) -> int:
        """Return the memory of the GPU or MIG instance."""
        return torch.cuda.get_device_properties(self.device).total_memory

    def allocated(self) -> int:
        """Return the memory of all tensors."""
        return torch.cuda.memory_allocated(self.device)

    def reserved(self) -> int:
        """Return the GPU memory that the process has reserved for tensors, including the unused part."""
        return torch.cuda.memory_reserved(self.device)

    def most_allocated(self) -> int:
        """Return the peak memory of all tensors since the last call of `forget_most`."""
        return torch.cuda.max_memory_allocated(self.device)

    def forget_most(self) -> None:
        """Reset the peak that `most_allocated` returns."""
        torch.cuda.reset_peak_memory_stats(self.device)

    def limit(self, size: int) -> None:
        """Make allocations above `size` fail with torch.OutOfMemoryError."""
        torch.cuda.set_per_process_memory_fraction(size / self.total(), self.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInfo:
    """Memory of one GPU, share or MIG instance in bytes. This process may use `limit` of `total`."""

    total: int
    limit: int
    allocated: int
    reserved: int

    @property
    def free(self) -> int:
        """Memory that is still available for tensors."""
        return self.limit - self.allocated


class GpuMemory:
    """GPU memory of this process.

    `share_mib` is the pod's share of a GPU's memory in MiB, and `sharing` is the sharing mode. The share includes
    memory for uses other than tensors.
    """

    def __init__(self, allocator: Allocator, *, share_mib: int | None = None, sharing: str = "none") -> None:
        self._allocator = allocator
        self._names: dict[int, str] = {}
        self._blocks: dict[str, int] = {}
        total = allocator.total()
        self._limit = total if share_mib is None else min(total, _of_tensors(share_mib, sharing) * _MIB)
        if self._limit < total:
            allocator.limit(self._limit)

    def info(self) -> MemoryInfo:
        """Return the total memory, the limit and the used memory."""
        return MemoryInfo(
            total=self._allocator.total(),
            limit=self._limit,
            allocated=self._allocator.allocated(),
            reserved=self._allocator.reserved(),
        )

    def take_most(self) -> int:
        """Return the peak memory of all tensors since the last call."""
        most = self._allocator.most_allocated()
        self._allocator.forget_most()
        return most

    @contextmanager
    def tracking(self, name: str) -> Iterator[None]:
        """Record the memory that the body of a `with` statement allocates and keeps, for the report of `guard`."""
        before = self._allocator.allocated()
        try:
            yield
        finally:
            kept = self._allocator.allocated() - before
            self._blocks[name] = self._blocks.get(name, 0) + kept

    @contextmanager
    def guard(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None
    ) -> Iterator[None]:
        """Add a report about memory usage to an out-of-memory error, and log it."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            self.explain(error, model, optimizer)
            raise

    def explain(
        self,
        error: torch.OutOfMemoryError,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Add a report about memory usage to an out-of-memory error, and log it."""
        report = self.report(model, optimizer)
        log.error("out of GPU memory: %s\n%s", str(error).partition("\n")[0], report)
        error.add_note(report)

    def report(self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None) -> str:
        """Return a report on memory usage, largest first: kinds of tensors, then blocks and single tensors."""
        info = self.info()
        lines = [
            f"  limit {_mib(info.limit)}, tensors {_mib(info.allocated)}, reserved {_mib(info.reserved)}"
            + ("" if info.limit == info.total else f"; the GPU has {_mib(info.total)} and is shared")
        ]
        names = _names_of(model, optimizer)
        kinds: dict[str, int] = defaultdict(int)
        single: list[tuple[int, str]] = []
        for tensor in _live_tensors(self._allocator.device):
            kind, name = names.get(tensor.untyped_storage().data_ptr(), ("activations and others", ""))
            size = tensor.untyped_storage().nbytes()
            kinds[kind] += size
            single.append((size, f"{kind}: {name or 'tensor'} {tuple(tensor.shape)} {tensor.dtype}"))
        # Autograd also keeps tensors that the program no longer refers to.
        if (unseen := info.allocated - sum(kinds.values())) > 0:
            kinds["kept for the backward pass, and workspaces of libraries"] = unseen
        lines += [f"  {_mib(size):>12}  {kind}" for kind, size in _largest(kinds)]
        lines += [f"  {_mib(size):>12}  block {name}" for name, size in _largest(self._blocks) if size > 0]
        lines += [f"    {_mib(size):>12}  {text}" for size, text in sorted(single, reverse=True)[:_SHOWN]]
        return "\n".join(lines)


def _of_tensors(share_mib: int, sharing: str) -> int:
    """Return how much memory of a share is available for tensors, in MiB."""
    return share_mib - min(_OUTSIDE_TENSORS.get(sharing, 0), int(share_mib * _MOST_OUTSIDE))


def _largest(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(sizes.items(), key=lambda item: -item[1])


def _mib(size: int) -> str:
    return f"{size / _MIB:,.1f} MiB"


def _names_of(
    model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None
) -> dict[int, tuple[str, str]]:
    """Return the kind and name of tensors by the address of their memory."""
    found: dict[int, tuple[str, str]] = {}

    def note(tensor: Any, kind: str, name: str) -> None:  # noqa: ANN401
        if isinstance(tensor, torch.Tensor):
            local = _local(tensor)
            found[local.untyped_storage().data_ptr()] = (kind, name)

    parameters: dict[torch.Tensor, str] = {}
    if model is not None:
        for name, buffer in model.named_buffers():
            note(buffer, "buffers", name)
        for name, parameter in model.named_parameters():
            parameters[parameter] = name
            note(parameter.data, "parameters", name)
            note(parameter.grad, "gradients", name)
    if optimizer is not None:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                note(value, "optimizer state", f"{parameters.get(parameter, 'parameter')}.{key}")
    return found


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the local part of a sharded tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _live_tensors(device: torch.device) -> Iterator[torch.Tensor]:
    """Yield one tensor for each block of device memory that tensors of this process use."""
    seen: set[int] = set()
    for one in gc.get_objects():
        try:
            # Compare the type, because `isinstance` would query the class of lazy objects.
            if not issubclass(type(one), torch.Tensor) or hasattr(one, "to_local") or one.device != device:
                continue
            address, size = one.untyped_storage().data_ptr(), one.untyped_storage().nbytes()
        except (ReferenceError, RuntimeError, NotImplementedError):
            continue  # the tensor was deleted in the meantime, or has no memory
        if size and address not in seen:
            seen.add(address)
            yield one
