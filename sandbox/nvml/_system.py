"""Functions of the simulated NVML for initialisation, versions, device handles and events."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Final

from sandbox.nvml._hardware import SimulatedGpu, SimulatedNode
from sandbox.nvml._symbols import (
    ERROR_STRINGS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    TIMEOUT,
    Status,
    fill,
    gpu_handle,
    mig_handle,
    resolve,
    symbol,
    value_of,
)

_ALL_EVENTS: Final = 0x1F  # event types: single-bit and double-bit ECC errors, pstate, Xid, clock
_XID_EVENT: Final = 0x8
EVENT_SET: Final = 0xE0


@symbol("nvmlInitWithFlags", "nvmlInit_v2", "nvmlShutdown", subject="node")
def nothing_to_do(node: SimulatedNode, flags: int = 0) -> tuple[()]:
    """Do nothing. The library object itself counts initialisations and shutdowns."""
    del node, flags
    return ()


@symbol("nvmlSystemGetDriverVersion", subject="node")
def driver_version(node: SimulatedNode) -> str:
    return node.driver_version


@symbol("nvmlSystemGetNVMLVersion", subject="node")
def nvml_version(node: SimulatedNode) -> str:
    return f"{node.cuda_version // 1000}.{node.driver_version}"


@symbol("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", subject="node")
def cuda_version(node: SimulatedNode) -> int:
    return node.cuda_version


@symbol("nvmlDeviceGetCount_v2", subject="node")
def count(node: SimulatedNode) -> int:
    return len(node.gpus)


@symbol("nvmlDeviceGetHandleByIndex_v2", subject="node")
def handle_by_index(node: SimulatedNode, index: int) -> int:
    resolve(node, gpu_handle(index))
    return gpu_handle(index)


@symbol("nvmlDeviceGetHandleByUUID", subject="node")
def handle_by_uuid(node: SimulatedNode, uuid: bytes) -> int:
    wanted = uuid.decode()
    for index, gpu in enumerate(node.gpus):
        if gpu.uuid == wanted:
            resolve(node, gpu_handle(index))
            return gpu_handle(index)
        for place, instance in enumerate(gpu.instances):
            if instance.uuid == wanted:
                resolve(node, mig_handle(index, place))
                return mig_handle(index, place)
    raise Status(NOT_FOUND)


@symbol("nvmlDeviceGetHandleByPciBusId_v2", subject="node")
def handle_by_pci_bus_id(node: SimulatedNode, bus_id: bytes) -> int:
    for index, gpu in enumerate(node.gpus):
        if gpu.pci_bus_id.casefold().endswith(bus_id.decode().casefold()):
            resolve(node, gpu_handle(index))
            return gpu_handle(index)
    raise Status(NOT_FOUND)


@symbol("nvmlEventSetCreate", subject="node")
def event_set_create(node: SimulatedNode) -> int:
    del node
    return EVENT_SET


@symbol("nvmlEventSetWait_v2", subject="node", raw=True)
def event_set_wait(node: SimulatedNode, events: Any, target: Any, milliseconds: Any) -> None:  # noqa: ANN401
    """Write the next event, or wait until the timeout if there is none."""
    if value_of(events) != EVENT_SET:
        raise Status(INVALID_ARGUMENT)
    if not node.events:
        time.sleep(value_of(milliseconds) / 1000)
        raise Status(TIMEOUT)
    index, code = node.events.popleft()
    write_event(target._obj, index, code)


def write_event(target: Any, index: int, code: int) -> None:  # noqa: ANN401 - a C struct
    """Write an event for an Xid error on a GPU."""
    ctypes.c_void_p.from_buffer(target).value = gpu_handle(index)  # `device`, the first field of the struct
    fill(target, {"eventType": _XID_EVENT, "eventData": code})


@symbol("nvmlEventSetFree", subject="node")
def event_set_free(node: SimulatedNode, events: int) -> tuple[()]:
    del node
    if events != EVENT_SET:
        raise Status(INVALID_ARGUMENT)
    return ()


@symbol("nvmlDeviceRegisterEvents")
def register_events(gpu: SimulatedGpu, types: int, events: int) -> tuple[()]:
    del gpu
    if events != EVENT_SET or types & ~_ALL_EVENTS:
        raise Status(INVALID_ARGUMENT)
    return ()


@symbol("nvmlDeviceGetSupportedEventTypes")
def supported_event_types(gpu: SimulatedGpu) -> int:
    del gpu
    return _ALL_EVENTS


def error_string(code: int) -> bytes:
    """Return NVML's text for a status. Unlike all other functions, this one returns a string."""
    return ERROR_STRINGS.get(code, "Unknown Error").encode()
