"""Functions of the simulated NVML for ECC, retired pages, row remapping, clock event reasons, temperatures and
field values.
"""

from __future__ import annotations

import time
from typing import Any, Final, TypeVar

from sandbox.nvml._hardware import SimulatedGpu
from sandbox.nvml._symbols import (
    ARGUMENT_VERSION_MISMATCH,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    Status,
    fill,
    symbol,
    value_of,
)

T = TypeVar("T")

_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX, _GPU_MAX = range(4)
_SUPPORTED_REASONS: Final = 0x1FF
_BANKS: Final = 640
_UNSIGNED_INT: Final = 1  # nvmlValueType_t
_UNSIGNED_LONG_LONG: Final = 3
_SIGNED_INT: Final = 5
_TEMPERATURE_V1: Final = 0x100000C  # struct version and size, encoded as in nvml.h
_MARGIN_TEMPERATURE_V1: Final = 0x1000008

# nvmlFieldValue IDs
_NVLINK_COUNT: Final = 91
_REMAPPED: Final = (142, 143, 144, 145)  # field IDs: correctable, uncorrectable, pending, failure
_SLOWDOWN_TLIMIT: Final = 194
_RECOVERY_ACTION: Final = 230
# Field IDs of sums over all links: CRC errors of flits, CRC errors of data, replays and recoveries.
_NVLINK_ERRORS: Final = {38: "", 45: "NVLink CRC errors", 52: "NVLink replays", 59: "NVLink recoveries"}

_CORRECTED: Final = 0  # nvmlMemoryErrorType_t
_UNCORRECTED_SINCE_RESET: Final = (1, 0)  # nvmlMemoryErrorType_t, nvmlEccCounterType_t
_SRAM_STATUS_V1: Final = 0x1000068  # struct version and size, encoded as in nvml.h


@symbol("nvmlDeviceGetEccMode")
def ecc_mode(gpu: SimulatedGpu) -> tuple[bool, bool]:
    return _or_not_supported(gpu.ecc)


@symbol("nvmlDeviceGetTotalEccErrors")
def total_ecc_errors(gpu: SimulatedGpu, error: int, counter: int) -> int:
    _counts_ecc(gpu)
    if error == _CORRECTED:
        return gpu.grown("corrected ECC errors")
    return sum(gpu.ecc_errors.values()) if (error, counter) == _UNCORRECTED_SINCE_RESET else 0


@symbol("nvmlDeviceGetMemoryErrorCounter")
def memory_error_counter(gpu: SimulatedGpu, error: int, counter: int, location: int) -> int:
    _counts_ecc(gpu)
    return gpu.ecc_errors.get(location, 0) if (error, counter) == _UNCORRECTED_SINCE_RESET else 0


@symbol("nvmlDeviceGetSramEccErrorStatus", raw=True)
def sram_ecc_error_status(gpu: SimulatedGpu, target: Any) -> None:  # noqa: ANN401 - a C argument
    """Write the SRAM error status, which is supported since Ampere."""
    _counts_ecc(gpu)
    if gpu.remapped_rows is None:
        raise Status(NOT_SUPPORTED)
    if target._obj.version != _SRAM_STATUS_V1:
        raise Status(ARGUMENT_VERSION_MISMATCH)
    fill(target._obj, {"bThresholdExceeded": int(gpu.sram_exceeded)})


def _counts_ecc(gpu: SimulatedGpu) -> None:
    if gpu.ecc is None or not gpu.ecc[0]:
        raise Status(NOT_SUPPORTED)


@symbol("nvmlDeviceGetRetiredPages", "nvmlDeviceGetRetiredPages_v2", raw=True)
def retired_pages(gpu: SimulatedGpu, cause: Any, size: Any, *targets: Any) -> None:  # noqa: ANN401
    """Write the retired pages. GPUs with row remapping do not support page retirement."""
    if gpu.remapped_rows is not None:
        raise Status(NOT_SUPPORTED)
    single_bit, double_bit, _ = gpu.retired_pages
    count, capacity = (double_bit if value_of(cause) else single_bit), size._obj.value
    size._obj.value = count
    if capacity < count:
        raise Status(INSUFFICIENT_SIZE)
    if targets and targets[0] is not None:
        fill(targets[0], [0x1000 * (place + 1) for place in range(count)])


@symbol("nvmlDeviceGetRetiredPagesPendingStatus")
def retired_pages_pending(gpu: SimulatedGpu) -> bool:
    if gpu.remapped_rows is not None:
        raise Status(NOT_SUPPORTED)
    return gpu.retired_pages[2]


@symbol("nvmlDeviceGetRemappedRows")
def remapped_rows(gpu: SimulatedGpu) -> tuple[int, int, bool, bool]:
    """Return the row remapping state, which is not supported while GPU instances exist.

    Source: NVML API reference, nvmlDeviceGetRemappedRows.
    """
    if gpu.instances:
        raise Status(NOT_SUPPORTED)
    return _or_not_supported(gpu.remapped_rows)


@symbol("nvmlDeviceGetRowRemapperHistogram")
def row_remapper_histogram(gpu: SimulatedGpu) -> dict[str, int]:
    _, uncorrectable, _, failed = _or_not_supported(gpu.remapped_rows)
    full = 1 if failed else 0
    touched = min(uncorrectable, 1) if not failed else 0
    return {"max": _BANKS - touched - full, "high": touched, "partial": 0, "low": 0, "none": full}


@symbol("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
def clock_event_reasons(gpu: SimulatedGpu) -> int:
    return gpu.reasons


@symbol("nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons")
def supported_clock_event_reasons(gpu: SimulatedGpu) -> int:
    del gpu
    return _SUPPORTED_REASONS


@symbol("nvmlDeviceGetTemperature")
def temperature(gpu: SimulatedGpu, sensor: int) -> int:
    if sensor != 0:
        raise Status(INVALID_ARGUMENT)
    return gpu.celsius


@symbol("nvmlDeviceGetTemperatureV", raw=True)
def temperature_versioned(gpu: SimulatedGpu, target: Any) -> None:  # noqa: ANN401 - a C argument
    if target._obj.version != _TEMPERATURE_V1:
        raise Status(ARGUMENT_VERSION_MISMATCH)
    fill(target._obj, {"temperature": temperature(gpu, target._obj.sensorType)})


@symbol("nvmlDeviceGetTemperatureThreshold")
def temperature_threshold(gpu: SimulatedGpu, threshold: int) -> int:
    if threshold == _SHUTDOWN:
        return gpu.shutdown_celsius
    if threshold == _SLOWDOWN:
        return gpu.slowdown_celsius
    if threshold in {_MEMORY_MAX, _GPU_MAX}:
        return gpu.slowdown_celsius - 3
    raise Status(NOT_SUPPORTED)


@symbol("nvmlDeviceGetMarginTemperature", raw=True)
def margin_temperature(gpu: SimulatedGpu, target: Any) -> None:  # noqa: ANN401 - a C argument
    """Write how many °C the GPU is below its limit.

    The limit is the slowdown threshold, shifted by its T.Limit offset.
    """
    if target._obj.version != _MARGIN_TEMPERATURE_V1:
        raise Status(ARGUMENT_VERSION_MISMATCH)
    fill(target._obj, {"marginTemperature": gpu.slowdown_celsius + _slowdown_tlimit() - gpu.celsius})


@symbol("nvmlDeviceGetFieldValues", raw=True)
def field_values(gpu: SimulatedGpu, size: Any, targets: Any) -> None:  # noqa: ANN401 - C arguments
    for place in range(size.value):
        target = targets._obj[place]
        target.timestamp = time.time_ns() // 1000
        value = _field(gpu, target.fieldId)
        target.nvmlReturn = NOT_SUPPORTED if value is None else 0
        if value is not None:
            counter = target.fieldId in _NVLINK_ERRORS
            target.valueType = _SIGNED_INT if value < 0 else _UNSIGNED_LONG_LONG if counter else _UNSIGNED_INT
            target.value.sllVal = value


def _field(gpu: SimulatedGpu, field: int) -> int | None:
    if field == _NVLINK_COUNT:
        return len(gpu.links)
    if field == _SLOWDOWN_TLIMIT:
        return _slowdown_tlimit()
    if field == _RECOVERY_ACTION:
        return gpu.recovery_action
    if field in _NVLINK_ERRORS and gpu.links:
        return gpu.grown(_NVLINK_ERRORS[field])
    if field in _REMAPPED and gpu.remapped_rows is not None and not gpu.instances:
        return int(gpu.remapped_rows[_REMAPPED.index(field)])
    return None


def _slowdown_tlimit() -> int:
    return -2


def _or_not_supported(value: T | None) -> T:
    if value is None:
        raise Status(NOT_SUPPORTED)
    return value
