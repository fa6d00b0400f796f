"""Mixed precision, activation checkpointing and torch.compile. Each can be enabled by an option."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpu_platform_training.parallel import Precision

_AMPERE: Final = (8, 0)  # first compute capability whose tensor cores support bfloat16

log = logging.getLogger("workloads")


def chosen_precision(wanted: Precision | Literal["auto"], device: torch.device) -> Precision:
    """Return bfloat16 if the GPU supports it, otherwise float16, or float32 without a GPU."""
    if wanted != "auto":
        return wanted
    if device.type != "cuda":
        return "float32"
    return "bfloat16" if torch.cuda.get_device_capability(device) >= _AMPERE else "float16"


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return the context manager that runs a forward pass with the precision."""
    dtype = torch.bfloat16 if precision == "float32" else getattr(torch, precision)
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "float32")


def recompute(model: nn.Module, blocks: Sequence[type[nn.Module]]) -> int:
    """Recompute the activations of the `blocks` of a model in the backward pass instead of keeping them.

    Return the number of these modules. The names of parameters do not change, so checkpoints can be loaded with
    and without this option.
    """
    found = [module for module in model.modules() if isinstance(module, tuple(blocks))]
    for module in found:
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    return len(found)


def compiled(model: nn.Module, backend: str | Callable[..., Any] = "inductor") -> nn.Module:
    """Compile a model in place at its first call.

    Parts of the model that cannot be compiled are logged and run uncompiled.
    """
    model.compile(backend=_with_fallback(backend))
    return model


def _with_fallback(backend: str | Callable[..., Any]) -> Callable[..., Any]:
    build = torch._dynamo.lookup_backend(backend) if isinstance(backend, str) else backend

    def compile_or_run(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:  # noqa: ANN401
        try:
            return build(graph, inputs, **options)
        except Exception as error:
            reason = str(error).strip().splitlines()
            log.warning(
                "torch.compile failed; this part of the model runs uncompiled: %s: %s",
                type(error).__name__,
                reason[0] if reason else "",
            )
            return graph.forward

    return compile_or_run
