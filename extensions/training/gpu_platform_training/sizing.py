"""Computes the memory that training a model needs on each GPU, on the host and on its disks, and the layouts that
fit.

DeepSpeed uses these bytes for each parameter with AdamW and 16-bit precision: 2 for the parameter in 16 bits; 2
for its gradient in 16 bits, or 4 in 32 bits; 4 for the parameter in 32 bits; 8 for the optimizer's two moments.
Source: deepspeedai/DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py and stage3.py, estimate_zero2_... and
estimate_zero3_model_states_mem_needs (their comments name the parts). PyTorch's DDP and FSDP2 with torch.amp store
parameters and gradients only once, in 32 bits, so they use 16 bytes. Read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Fraction of a process's GPU memory for the model state. Activations, CUDA and fragmentation use the rest.
STATE_SHARE: Final = 0.6
# Bytes per parameter in PyTorch: parameter, gradient and the two moments of AdamW in 32 bits.
TORCH_STATE_BYTES: Final = 16
# Fraction of a container's memory for the model state. Data loaders, buffers and the program use the rest.
_HOST_SHARE: Final = 0.8
# DeepSpeed's estimators multiply the size of the state by this factor, to include buffers.
_BUFFER_FACTOR: Final = 1.5
# Assume that the largest layer has a sixteenth of the parameters, as in Llama 3 8B.
# In larger models, the largest layer has a smaller fraction of the parameters.
_LARGEST_LAYER: Final = 16
_GIB: Final = 2**30


class DoesNotFit(Exception):
    """The model's state does not fit in any layout. The message contains the required memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Number of parameters of a model, and of its largest layer. A layer is gathered as a whole."""

    parameters: int
    largest_layer: int

    @classmethod
    def of(cls, parameters: int, largest_layer: int | None = None) -> Model:
        """Return a model. By default, its largest layer has a sixteenth of the parameters."""
        return cls(parameters=parameters, largest_layer=largest_layer or -(-parameters // _LARGEST_LAYER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Resources of a job in bytes.

    `gpu_memory` is the memory of a GPU, share or MIG instance that a process may use. `host_memory` is the memory
    of each pod, and `disk` the free space on its local NVMe disks. A value of 0 means that there is none.
    """

    pods: int
    gpus: int
    """Number of processes in each pod."""
    gpu_memory: int
    host_memory: int
    disk: int = 0

    @property
    def processes(self) -> int:
        """Number of processes in the job."""
        return self.pods * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout of the model's state: bytes on each GPU, and in the memory and on the disks of each pod.

    `stage` is the ZeRO stage. `optimizer_on` and `parameters_on` are `gpu`, `cpu` or `nvme`.
    """

    stage: int
    optimizer_on: str = "gpu"
    parameters_on: str = "gpu"
    gpu: int
    host: int = 0
    disk: int = 0

    @property
    def name(self) -> str:
        """Description of the layout."""
        moved = [
            f"{what} on {where.upper() if where == 'cpu' else 'NVMe'}"
            for what, where in (("optimizer", self.optimizer_on), ("parameters", self.parameters_on))
            if where != "gpu"
        ]
        return ", ".join(["no ZeRO" if self.stage == 0 else f"ZeRO stage {self.stage}", *moved])

    def missing(self, machines: Machines) -> str | None:
        """Return which resource is too small for the layout, or None if the layout fits."""
        for need, has, what in (
            (self.gpu, int(machines.gpu_memory * STATE_SHARE), f"{STATE_SHARE:.0%} of a GPU's memory"),
            (self.host, int(machines.host_memory * _HOST_SHARE), f"{_HOST_SHARE:.0%} of the pod's memory"),
            (self.disk, machines.disk, "the pod's NVMe disks"),
        ):
            if need > has:
                return (
                    f"{gib(need)} needed, {gib(has)} are {what}" if has else f"needs {what}, but the pod has none"
                )
        return None


def zero_layouts(model: Model, machines: Machines) -> Iterator[Layout]:
    """Yield DeepSpeed's layouts, fastest first.

    Transfers over PCIe are slower than communication between GPUs, and disks are slower still.
    """
    all_of_it, processes, layer = model.parameters, machines.processes, 4 * model.largest_layer
    yield Layout(stage=0, gpu=20 * all_of_it)
    if processes > 1:
        yield Layout(stage=1, gpu=4 * all_of_it + 16 * all_of_it // processes)
        yield Layout(stage=2, gpu=2 * all_of_it + 18 * all_of_it // processes)
        yield Layout(stage=3, gpu=layer + 18 * all_of_it // processes)
    # Bytes for each pod, because the state is divided among the pods.
    state, weights = 16 * all_of_it // machines.pods, 2 * all_of_it // machines.pods
    on_gpu = layer + 2 * all_of_it // processes
    yield Layout(stage=3, optimizer_on="cpu", gpu=on_gpu, host=int(state * _BUFFER_FACTOR))
    buffers = int(machines.gpus * 4 * model.largest_layer * _BUFFER_FACTOR)
    yield Layout(stage=3, optimizer_on="nvme", gpu=on_gpu, host=buffers, disk=state)
    on_both = {"optimizer_on": "nvme", "parameters_on": "nvme"}
    yield Layout(stage=3, **on_both, gpu=layer, host=buffers, disk=state + weights)


def zero_layout(model: Model, machines: Machines) -> tuple[Layout, list[str]]:
    """Return the first layout that fits, and a line for each layout that does not fit. Raises DoesNotFit if no
    layout fits.
    """
    refused: list[str] = []
    for layout in zero_layouts(model, machines):
        missing = layout.missing(machines)
        if missing is None:
            return layout, refused
        refused.append(f"{layout.name}: {missing}")
    raise DoesNotFit("\n".join([*refused, _gpus_needed(model, machines)]))


def _gpus_needed(model: Model, machines: Machines) -> str:
    """Describe how many GPUs the state needs with ZeRO stage 3."""
    left = int(machines.gpu_memory * STATE_SHARE) - 4 * model.largest_layer
    if left <= 0:
        return (
            f"its largest layer, {model.largest_layer:,} parameters, does not fit into one of these GPUs: "
            "set --largest-layer if the layer is smaller; otherwise split the layer, or use larger GPUs"
        )
    return f"ZeRO stage 3 needs {-(-18 * model.parameters // left)} of these GPUs"


def gib(size: int) -> str:
    """Format a number of bytes in GiB."""
    return f"{size / _GIB:,.1f} GiB"
