"""Converts C arguments of simulated NVML functions to Python values for their handlers, and converts results back.

A handler is a plain function. It receives the node (or GPU) and the input arguments as Python values. It returns
the value of the output argument. For several output arguments, it returns a tuple, and for the fields of a struct,
a mapping. It raises errors as `Status`. Output arguments are character buffers and arguments passed by reference.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from sandbox.nvml._hardware import MigInstance, SimulatedGpu, SimulatedNode

SUCCESS: Final = 0
UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
TIMEOUT: Final = 10
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
ARGUMENT_VERSION_MISMATCH: Final = 25

ERROR_STRINGS: Final = {
    SUCCESS: "Success",
    UNINITIALIZED: "Uninitialized",
    INVALID_ARGUMENT: "Invalid Argument",
    NOT_SUPPORTED: "Not Supported",
    NO_PERMISSION: "Insufficient Permissions",
    NOT_FOUND: "Not Found",
    INSUFFICIENT_SIZE: "Insufficient Size",
    TIMEOUT: "Timeout",
    FUNCTION_NOT_FOUND: "Function Not Found",
    GPU_IS_LOST: "GPU is lost",
    ARGUMENT_VERSION_MISMATCH: "Argument Version Mismatch",
}
MIB: Final = 1 << 20


class Status(Exception):
    """NVML status other than SUCCESS, raised by a handler. It may also contain values of output arguments."""

    def __init__(self, code: int, outputs: object = ()) -> None:
        super().__init__(ERROR_STRINGS.get(code, str(code)))
        self.code = code
        self.outputs = outputs


Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Symbol:
    """An exported function with its handler, and the kind of its first argument."""

    handler: Handler
    subject: str  # "node", "gpu", "mig" (a MIG device) or "any" (a GPU or a MIG device)
    raw: bool = False


SYMBOLS: dict[str, Symbol] = {}


def symbol(*names: str, subject: str = "gpu", raw: bool = False) -> Callable[[Handler], Handler]:
    """Register a handler under its exported names. A `raw` handler writes the C arguments itself."""

    def register(handler: Handler) -> Handler:
        for name in names:
            SYMBOLS[name] = Symbol(handler, subject, raw)
        return handler

    return register


# A device handle is a small number: GPU i is (i + 1) << 8, and its MIG device j has j + 1 in the low byte.
def gpu_handle(index: int) -> int:
    """Return the handle of a GPU."""
    return (index + 1) << 8


def mig_handle(index: int, place: int) -> int:
    """Return the handle of a GPU's MIG device."""
    return gpu_handle(index) | (place + 1)


def resolve(node: SimulatedNode, handle: int) -> tuple[SimulatedGpu, MigInstance | None]:
    """Return the GPU for a handle, and the MIG device if the handle refers to one.

    Raises Status with INVALID_ARGUMENT if there is no such device, or GPU_IS_LOST if the GPU fell off the bus.
    """
    index, place = (handle >> 8) - 1, (handle & 0xFF) - 1
    if not 0 <= index < len(node.gpus):
        raise Status(INVALID_ARGUMENT)
    gpu = node.gpus[index]
    if gpu.lost:
        raise Status(GPU_IS_LOST)
    if place >= len(gpu.instances):
        raise Status(INVALID_ARGUMENT)
    return gpu, gpu.instances[place] if place >= 0 else None


def call(node: SimulatedNode, wanted: Symbol, arguments: Sequence[Any]) -> int:
    """Call a handler with C arguments, and return the NVML status."""
    try:
        subject, rest = _subject(node, wanted, arguments)
        if wanted.raw:
            wanted.handler(*subject, *rest)
            return SUCCESS
        inputs, outputs = _split(rest)
        try:
            _fill(outputs, wanted.handler(*subject, *inputs))
        except Status as status:
            _fill(outputs, status.outputs)
            raise
    except Status as status:
        return status.code
    return SUCCESS


def value_of(argument: Any) -> Any:  # noqa: ANN401 - a C argument
    """Return an input argument as a Python value. A device handle becomes a number."""
    if _is_pointer(argument):
        return ctypes.cast(argument, ctypes.c_void_p).value or 0
    return getattr(argument, "value", argument)


def _is_pointer(argument: object) -> bool:
    return isinstance(argument, ctypes._Pointer)  # pyright: ignore[reportPrivateUsage] - there is no public attribute


def _subject(
    node: SimulatedNode, wanted: Symbol, arguments: Sequence[Any]
) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """Return the leading arguments of the handler, and the remaining C arguments."""
    if wanted.subject == "node":
        return (node,), arguments
    gpu, instance = resolve(node, value_of(arguments[0]))
    rest = arguments[1:]
    if wanted.subject == "any":
        return (gpu, instance), rest
    if (wanted.subject == "mig") != (instance is not None):
        raise Status(INVALID_ARGUMENT)
    return ((gpu,) if instance is None else (gpu, instance)), rest


def _split(arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the input values and the output objects. The length argument after a character buffer is neither."""
    inputs: list[Any] = []
    outputs: list[Any] = []
    rest = iter(arguments)
    for argument in rest:
        if isinstance(argument, ctypes.Array):
            # pyrefly: ignore[partially-unknown-type] - the type of its items does not matter
            outputs.append(argument)
            next(rest, None)
        elif hasattr(argument, "_obj"):
            outputs.append(argument._obj)
        else:
            inputs.append(value_of(argument))
    return inputs, outputs


def _fill(outputs: Sequence[Any], results: object) -> None:
    values: tuple[Any, ...] = cast("Any", results) if isinstance(results, tuple) else (results,)
    for target, value in zip(outputs, values, strict=False):
        fill(target, value)


def fill(target: Any, value: Any) -> None:  # noqa: ANN401 - a C object and what goes into it
    """Write one value into a C object.

    Raises Status with INSUFFICIENT_SIZE if a string does not fit into its buffer.
    """
    if _is_pointer(target):
        ctypes.c_void_p.from_buffer(target).value = value
    elif isinstance(value, str):
        text = value.encode()
        if len(text) >= len(target):
            raise Status(INSUFFICIENT_SIZE)
        target.value = text
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            setattr(target, name, item)
    elif isinstance(target, ctypes.Array):
        for place, item in enumerate(value):
            target[place] = item  # pyrefly: ignore[partially-unknown-type] - the type of its items does not matter
    else:
        target.value = int(value)
