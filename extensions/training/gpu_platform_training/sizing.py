"""Memory of a model in training, by arithmetic: what each GPU, the host and its disks hold, and what fits.

Bytes for each parameter with AdamW and 16-bit precision, as DeepSpeed counts them: 2 of the parameter in 16 bits;
2 of its gradient in 16 bits, 4 in 32; 4 of the parameter in 32 bits; 8 of the optimizer's two moments.
Source: deepspeedai/DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py and stage3.py, estimate_zero2_... and
estimate_zero3_model_states_mem_needs (their comments name the parts). PyTorch's DDP and FSDP2 with torch.amp have
parameters and gradients once, in 32 bits: 16 bytes. Read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Of the GPU memory that a process may use; the rest is for activations, CUDA itself and fragments.
STATE_SHARE: Final = 0.6
# PyTorch: parameter, gradient and the two moments of AdamW in 32 bits.
TORCH_STATE_BYTES: Final = 16
# Of a container's memory: the rest is for data loaders, pinned buffers of communication and the program.
_HOST_SHARE: Final = 0.8
# DeepSpeed's estimators allow as much more than the state for its buffers.
_BUFFER_FACTOR: Final = 1.5
# A layer of an unknown model: Llama 3 8B has a sixteenth of its parameters in the largest one, larger models less.
_LARGEST_LAYER: Final = 16
_GIB: Final = 2**30


class DoesNotFit(Exception):
    """The model's state fits in no way, with what would hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Parameters of a model and of its largest layer, which is gathered as a whole."""

    parameters: int
    largest_layer: int

    @classmethod
    def of(cls, parameters: int, largest_layer: int | None = None) -> Model:
        """Return a model; without `largest_layer` with a sixteenth of its parameters there."""
        return cls(parameters=parameters, largest_layer=largest_layer or -(-parameters // _LARGEST_LAYER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What a job has. Bytes; `gpu_memory`: that a process may use of its GPU, share or MIG instance.

    `host_memory`: of each pod; `disk`: free on its local NVMe disks. 0: none.
    """

    pods: int
    gpus: int
    """Processes of each pod."""
    gpu_memory: int
    host_memory: int
    disk: int = 0

    @property
    def processes(self) -> int:
        """All processes of the job."""
        return self.pods * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to hold the state: bytes on each GPU, and in memory and on the disks of each pod.

    `stage`: of ZeRO; `optimizer_on`, `parameters_on`: gpu, cpu or nvme.
    """

    stage: int
    optimizer_on: str = "gpu"
    parameters_on: str = "gpu"
    gpu: int
    host: int = 0
    disk: int = 0

    @property
    def name(self) -> str:
        """The layout in words."""
        moved = [
            f"{what} on {where.upper() if where == 'cpu' else 'NVMe'}"
            for what, where in (("optimizer", self.optimizer_on), ("parameters", self.parameters_on))
            if where != "gpu"
        ]
        return ", ".join(["no ZeRO" if self.stage == 0 else f"ZeRO stage {self.stage}", *moved])

    def missing(self, machines: Machines) -> str | None:
        """Return what is too small for it; None: it fits."""
        for need, has, what in (
            (self.gpu, int(machines.gpu_memory * STATE_SHARE), f"{STATE_SHARE:.0%} of a GPU"),
            (self.host, int(machines.host_memory * _HOST_SHARE), f"{_HOST_SHARE:.0%} of the pod's memory"),
            (self.disk, machines.disk, "the pod's NVMe disks"),
        ):
            if need > has:
                return (
                    f"{gib(need)} needed, {gib(has)} are {what}" if has else f"{what} needed, and there are none"
                )
        return None


def zero_layouts(model: Model, machines: Machines) -> Iterator[Layout]:
    """Yield the ways of DeepSpeed, the fastest first: communication, then PCIe, then disks cost time."""
    all_of_it, processes, layer = model.parameters, machines.processes, 4 * model.largest_layer
    yield Layout(stage=0, gpu=20 * all_of_it)
    if processes > 1:
        yield Layout(stage=1, gpu=4 * all_of_it + 16 * all_of_it // processes)
        yield Layout(stage=2, gpu=2 * all_of_it + 18 * all_of_it // processes)
        yield Layout(stage=3, gpu=layer + 18 * all_of_it // processes)
    # Of the pod: its part of what all processes hold together.
    state, weights = 16 * all_of_it // machines.pods, 2 * all_of_it // machines.pods
    on_gpu = layer + 2 * all_of_it // processes
    yield Layout(stage=3, optimizer_on="cpu", gpu=on_gpu, host=int(state * _BUFFER_FACTOR))
    buffers = int(machines.gpus * 4 * model.largest_layer * _BUFFER_FACTOR)
    yield Layout(stage=3, optimizer_on="nvme", gpu=on_gpu, host=buffers, disk=state)
    on_both = {"optimizer_on": "nvme", "parameters_on": "nvme"}
    yield Layout(stage=3, **on_both, gpu=layer, host=buffers, disk=state + weights)


def zero_layout(model: Model, machines: Machines) -> tuple[Layout, list[str]]:
    """Return the first way that fits, and a line for each that does not. Raises DoesNotFit."""
    refused: list[str] = []
    for layout in zero_layouts(model, machines):
        missing = layout.missing(machines)
        if missing is None:
            return layout, refused
        refused.append(f"{layout.name}: {missing}")
    raise DoesNotFit("\n".join([*refused, _gpus_needed(model, machines)]))


def _gpus_needed(model: Model, machines: Machines) -> str:
    """Return how many of these GPUs hold the state together, as ZeRO stage 3 divides it."""
    left = int(machines.gpu_memory * STATE_SHARE) - 4 * model.largest_layer
    if left <= 0:
        return (
            f"its largest layer, {model.largest_layer:,} parameters, does not fit into one of these GPUs: "
            "if it is smaller write --largest-layer, else split it, or use larger GPUs"
        )
    return f"ZeRO stage 3 needs {-(-18 * model.parameters // left)} of these GPUs"


def gib(size: int) -> str:
    """Return bytes for people."""
    return f"{size / _GIB:,.1f} GiB"
