"""Answers NVML calls from a recording: each recorded answer is written to the C arguments of the same call.

The checks on a node that replays a recording therefore run the same code as on the recorded node.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from sandbox.nvml._recording import Recording
from sandbox.nvml._symbols import (
    ERROR_STRINGS,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    MIB,
    NOT_SUPPORTED,
    Status,
    fill,
    gpu_handle,
    mig_handle,
    value_of,
)
from sandbox.nvml._system import EVENT_SET, write_event
from sandbox.nvml._topology import fill_fabric
from sandbox.nvml.faults import LOCATIONS

HANGS: Final = "did-not-return"
CRASHES: Final = "ended-the-process"
# First status for recorded errors that NVML does not define. NVML's only higher status is 999.
_OWN_CODES: Final = 900
# NVML status of each kind of error whose name is defined in the node agent (_KINDS in validators/agent/nvml.py).
# The names of the other kinds are NVML's error texts in lower case, with hyphens.
_KINDS: Final = {
    "no-permission": 4,
    "version-mismatch": 18,
    "library-not-found": 12,
    "driver-not-loaded": 9,
    "function-not-found": FUNCTION_NOT_FOUND,
    "gpu-lost": 15,
    "reset-required": 16,
}


def error_string(recording: Recording, code: int) -> str:
    """Return the text for an error status that occurs only in recordings."""
    place = code - _OWN_CODES
    return recording.problems[place].replace("-", " ") if 0 <= place < len(recording.problems) else "Unknown Error"


def _status(recording: Recording, problem: str) -> int:
    """Return the NVML status that the node agent reports as this kind of error."""
    if problem in _KINDS:
        return _KINDS[problem]
    for code, text in ERROR_STRINGS.items():
        if text.lower().replace(" ", "-") == problem:
            return code
    return _OWN_CODES + recording.problems.index(problem)


def answer(recording: Recording, function: str, arguments: Sequence[Any], waits: int) -> str:
    """Answer one call. Return the kind of fault if the call must not return (HANGS or CRASHES), otherwise "".

    `waits` is how often the process has waited for events, including this call. Raises Status with the recorded
    error.
    """
    text = f"{function} {waits}" if function == "nvmlEventSetWait" else _text(function, arguments)
    found = recording.answers.get(text)
    if found is None:
        raise Status(FUNCTION_NOT_FOUND)
    value, problem = found
    if problem in (HANGS, CRASHES):
        return problem
    if problem:
        raise Status(_status(recording, problem))
    write = _WRITERS.get(function)
    if write is not None:
        write(arguments, value)
    elif value is not None:
        _plain(arguments, value)
    return ""


# -- names of calls ---------------------------------------------------------------------------------------


def _text(function: str, arguments: Sequence[Any]) -> str:
    """Return the name under which the node agent records a call."""
    if function in _OF_NODE:
        return function
    first = value_of(arguments[0])
    if function == "nvmlDeviceGetHandleByIndex":
        return f"{function} on GPU {first}"
    gpu, part = (first >> 8) - 1, (first & 0xFF) - 1
    if function == "nvmlDeviceGetMigDeviceHandleByIndex":
        part = value_of(arguments[1])
    device = f"GPU {gpu}" if part < 0 else f"MIG device {part} of GPU {gpu}"
    detail = _DETAILS[function](arguments) if function in _DETAILS else ""
    return f"{function}{detail and ' '}{detail} on {device}"


def _other(arguments: Sequence[Any]) -> str:
    return f"to GPU {(value_of(arguments[1]) >> 8) - 1}"


_OF_NODE: Final = frozenset(
    {
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvmlDeviceGetCount",
        "nvmlSystemGetDriverVersion",
        "nvmlEventSetCreate",
        "nvmlEventSetFree",
    }
)
_DETAILS: Final[Mapping[str, Callable[[Sequence[Any]], str]]] = {
    "nvmlDeviceGetNvLinkState": lambda given: f"of link {value_of(given[1])}",
    "nvmlDeviceGetClockInfo": lambda given: {1: "of the SMs", 2: "of the memory"}.get(value_of(given[1]), ""),
    "nvmlDeviceGetTotalEccErrors": lambda given: "" if value_of(given[1]) else "corrected",
    "nvmlDeviceGetMemoryErrorCounter": lambda given: f"of {LOCATIONS[value_of(given[3])]}",
    "nvmlDeviceGetRetiredPages": lambda given: (
        "of double-bit errors" if value_of(given[1]) else "of single-bit errors"
    ),
    "nvmlDeviceGetTopologyCommonAncestor": _other,
    "nvmlDeviceGetP2PStatus": _other,
}


# -- answers in C -----------------------------------------------------------------------------------------


def _outputs(arguments: Sequence[Any]) -> list[Any]:
    """Return the output objects of a call: arguments passed by reference, and arrays."""
    found: list[Any] = []
    for given in arguments:
        if isinstance(given, ctypes.Array):
            found.append(given)  # pyrefly: ignore[partially-unknown-type] - the type of its items does not matter
        elif hasattr(given, "_obj"):
            found.append(given._obj)
    return found


def _plain(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    """Write a number, a string or several numbers to the output arguments."""
    outputs = _outputs(arguments)
    if isinstance(value, list) and isinstance(outputs[0], ctypes.Array):
        fill(outputs[0], value)  # pyrefly: ignore[partially-unknown-type] - the type of its items does not matter
        return
    values = cast("list[Any]", value if isinstance(value, list) else [value])
    for target, item in zip(outputs, values, strict=True):
        fill(target, item)


def _struct(*names: str) -> Callable[[Sequence[Any], Any], None]:
    """Return a function that writes a recorded value to the named fields of a struct. For several fields, the
    value is a list with one item for each field.
    """

    def write(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        fill(_outputs(arguments)[0], dict(zip(names, values, strict=True)))

    return write


def _pci(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    domain, bus, device = value
    address = f"{domain:08X}:{bus:02X}:{device:02X}.0"
    fields = {"domain": domain, "bus": bus, "device": device}
    fill(
        _outputs(arguments)[0],
        {**fields, "busId": address.encode(), "busIdLegacy": address.removeprefix("0000").encode()},
    )


def _fields(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    for target, found in zip(_outputs(arguments)[0], value, strict=True):
        target.nvmlReturn = NOT_SUPPORTED if found is None else 0
        if found is not None:
            target.valueType = 5 if found < 0 else 3  # nvmlValueType_t: signed int, unsigned long long
            target.value.sllVal = found


def _pages(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    """Write the pages. If the array is too small, write only their number, with the status INSUFFICIENT_SIZE."""
    size, target = arguments[2]._obj, arguments[3]
    capacity, size.value = size.value, value
    if capacity < value:
        raise Status(INSUFFICIENT_SIZE)
    if target is not None:
        fill(target, [0x1000 * (place + 1) for place in range(value)])


def _processes(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    size, target = arguments[1]._obj, arguments[2]
    capacity, size.value = size.value, len(value)
    if capacity < len(value):
        raise Status(INSUFFICIENT_SIZE)
    for place, (pid, mib) in enumerate(value):
        fill(target[place], {"pid": pid, "usedGpuMemory": mib * MIB})


def _gpu(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    del value
    fill(_outputs(arguments)[0], gpu_handle(value_of(arguments[0])))


def _mig_device(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    del value
    fill(_outputs(arguments)[0], mig_handle((value_of(arguments[0]) >> 8) - 1, value_of(arguments[1])))


def _memory(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    total, used = value
    fill(_outputs(arguments)[0], {"total": total, "used": used, "free": total - used})


def _fabric(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    info = _outputs(arguments)[0]
    state, status, summary, mask, clique, cluster = value
    fill_fabric(info, state, status, clique, cluster)
    if hasattr(info, "healthMask"):
        fill(info, {"healthSummary": summary, "healthMask": mask})


def _event(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    code, index = value
    write_event(_outputs(arguments)[0], index, code)


def _event_set(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    del value
    fill(_outputs(arguments)[0], EVENT_SET)


def _done(arguments: Sequence[Any], value: Any) -> None:  # noqa: ANN401 - JSON
    del arguments, value


_WRITERS: Final[Mapping[str, Callable[[Sequence[Any], Any], None]]] = {
    "nvmlInitWithFlags": _done,
    "nvmlShutdown": _done,
    "nvmlEventSetCreate": _event_set,
    "nvmlEventSetFree": _done,
    "nvmlEventSetWait": _event,
    "nvmlDeviceRegisterEvents": _done,
    "nvmlDeviceGetHandleByIndex": _gpu,
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetPciInfo": _pci,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetRetiredPages": _pages,
    "nvmlDeviceGetComputeRunningProcesses": _processes,
    "nvmlDeviceGetUtilizationRates": _struct("gpu", "memory"),
    "nvmlDeviceGetMarginTemperature": _struct("marginTemperature"),
    "nvmlDeviceGetSramEccErrorStatus": _struct("bThresholdExceeded"),
    "nvmlDeviceGetRowRemapperHistogram": _struct("none"),
    "nvmlDeviceGetGpuFabricInfo": _fabric,
    "nvmlDeviceGetGpuFabricInfoV": _fabric,
    "nvmlDeviceGetAttributes": _struct("gpuInstanceSliceCount", "memorySizeMB"),
}
