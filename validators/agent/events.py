"""Xid errors from NVML events. The agent also finds these errors in the kernel log, if it may read the log.

NVML reports an event only to a process that is already waiting for it. Therefore the agent creates an event set
before it reads the GPUs, and queries the set afterwards. On a cluster node no event set stays open between passes,
because an open set prevents a driver replacement or a change of MIG mode. `node-check --watch` also waits for
events between passes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from typing import Any

import pynvml

from validators.agent.calls import NO_HANDLE, Call, Calls
from validators.agent.snapshot import NOT_SUPPORTED, Reading

_XID = 0x8  # nvmlEventTypeXidCriticalError
_MOST_EVENTS = 32  # maximum number of events that one pass reads
_SECOND = 1000  # in milliseconds
_TIMEOUT = "timeout"


def gpu_handle(calls: Calls, index: int) -> Reading[Any]:
    """Return the handle of a GPU by its index."""
    call = Call("nvmlDeviceGetHandleByIndex", f"GPU {index}")
    return calls.handle(call, pynvml.nvmlDeviceGetHandleByIndex, index)


class Events:
    """Waits for Xid errors that occur on the GPUs after this object is created."""

    def __init__(self, calls: Calls, gpus: Iterable[int]) -> None:
        self._calls = calls
        self._set = calls.handle(Call("nvmlEventSetCreate"), pynvml.nvmlEventSetCreate)
        self._gpus: dict[int, int] = {}
        """Indices of the GPUs that report events, by the address of the handle."""
        self._problem = self._set
        if not self._set.ok:
            return
        for index in gpus:
            handle = gpu_handle(calls, index)
            registered = self._register(index, handle.value) if handle.ok else handle
            if registered.ok:
                self._gpus[_address(handle.value)] = index
            elif registered.problem != NOT_SUPPORTED:
                self._problem = registered

    def _register(self, index: int, handle: Any) -> Reading[Any]:  # noqa: ANN401 - a handle
        gpu = f"GPU {index}"
        kinds = self._calls.value(
            Call("nvmlDeviceGetSupportedEventTypes", gpu), pynvml.nvmlDeviceGetSupportedEventTypes, (handle,), int
        )
        if kinds.value is None or not kinds.value & _XID:
            return Reading(problem=kinds.problem or NOT_SUPPORTED, call=kinds.call)
        return self._calls.value(
            Call("nvmlDeviceRegisterEvents", gpu),
            pynvml.nvmlDeviceRegisterEvents,
            (handle, _XID, self._set.value),
            lambda _: True,
        )

    def read(self, wait_seconds: float = 0.0) -> Reading[list[tuple[int, int, int]]]:
        """Wait, and return the new Xid errors, each as a tuple of code, GPU index and age in seconds."""
        if not self._set.ok:
            return Reading(problem=self._set.problem, call=self._set.call)
        found: list[tuple[int, int, int]] = []
        problem = Reading[Any](problem=self._problem.problem, call=self._problem.call) if not self._gpus else None
        waits = math.ceil(wait_seconds)  # waits of one second, so that no call seems to hang
        for number in range(1, waits + _MOST_EVENTS + 1):
            call = Call("nvmlEventSetWait", detail=str(number))
            given = (self._set.value, _SECOND if number <= waits else 0)
            event = self._calls.value(call, pynvml.nvmlEventSetWait, given, self._code_and_gpu)
            if event.value is None and event.problem == _TIMEOUT and number <= waits:
                continue
            if event.value is None:
                problem = problem if event.problem == _TIMEOUT else event
                break
            code, index = event.value
            found.append((code, index, 0))
        self._calls.value(Call("nvmlEventSetFree"), pynvml.nvmlEventSetFree, (self._set.value,), lambda _: True)
        if problem is not None and problem.problem and not found:
            return Reading(problem=problem.problem, call=problem.call)
        return Reading(found)

    def _code_and_gpu(self, event: Any) -> list[int]:  # noqa: ANN401 - a C struct
        return [int(event.eventData), self._gpus.get(_address(event.device), -1)]


def _address(handle: Any) -> int:  # noqa: ANN401 - a C pointer
    if handle is NO_HANDLE:
        return 0
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
