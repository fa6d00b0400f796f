"""Converts Snapshots of the node agent to metrics.

The labels are the same as in dcgm-exporter, so that the same queries work: `gpu` (the index), `UUID`, `modelName`,
and `GPU_I_ID` and `GPU_I_PROFILE`, which are empty for a whole GPU. A value that NVML did not report has no
series. It is never exported as zero. Values are in base units: bytes, watts, joules, hertz and °C. Utilisation is
in percent, as in NVML.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from validators.agent.report import Reader
from validators.agent.snapshot import GpuSnapshot, Reading, Snapshot
from validators.agent.xids import NO_ERRORS

_GPU_LABELS: Final = ("node", "gpu", "UUID", "modelName", "GPU_I_ID", "GPU_I_PROFILE")
_MIB: Final = 1 << 20
FRESH_SECONDS: Final = 300.0  # Prometheus also uses the last sample of a series for 5 minutes
# values of nvmlClocksEventReasons (NVML API reference, read 2026-11-25)
_CLOCK_EVENTS: Final = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}

Value = Callable[[GpuSnapshot], "float | None"]


@dataclass(frozen=True)
class Thresholds:
    """Values at which `gpu_threshold_exceeded` becomes 1. Temperature is in °C, memory and power are in percent.

    NVIDIA's GPUs slow down at 87 to 95 °C.
    """

    temperature: float = 85.0
    memory: float = 95.0
    power: float = 95.0


class Latest:
    """A reader that keeps its last Snapshot and the time at which it was read (Unix time in seconds).

    `age_clock` measures the age of the Snapshot. Unlike Unix time, it does not jump when the node's time is set.
    """

    def __init__(
        self,
        reader: Reader,
        clock: Callable[[], float] = time.time,
        age_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._age_clock = age_clock
        self._read_at = 0.0
        self.last: tuple[Snapshot, float] | None = None

    def read(self, deadline_seconds: float) -> Snapshot:
        """Read the node, and keep the Snapshot and its time."""
        snapshot = self._reader.read(deadline_seconds)
        self.last, self._read_at = (snapshot, self._clock()), self._age_clock()
        return snapshot

    def age(self) -> float:
        """Return the age of the last Snapshot in seconds."""
        return self._age_clock() - self._read_at


class NodeCollector(Collector):
    """Metrics from the last Snapshot of one node. Before the first Snapshot, there are no metrics.

    If the Snapshot is older than `fresh_seconds`, there are no metrics of GPUs. Prometheus would store old values
    as current ones, and a node whose GPUs are no longer read would seem healthy.
    """

    def __init__(
        self,
        latest: Latest,
        node: str,
        thresholds: Thresholds | None = None,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._latest = latest
        self._node = node
        self._fresh_seconds = fresh_seconds
        self._thresholds = thresholds or Thresholds()

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics, because they depend on the node."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the last Snapshot."""
        last = self._latest.last
        if last is None:
            return
        snapshot, at = last
        fresh = self._latest.age() <= self._fresh_seconds
        read = GaugeMetricFamily("gpu_node_read_ok", "Whether NVML answered all calls.", labels=["node"])
        read.add_metric([self._node], float(fresh and not snapshot.failure and not snapshot.unanswered))
        yield read
        stamp = GaugeMetricFamily(
            "gpu_node_read_timestamp_seconds", "Time at which NVML was read, as Unix time.", labels=["node"]
        )
        stamp.add_metric([self._node], at)
        yield stamp
        if not fresh:
            return
        for name, what, value in _GAUGES:
            yield self._gauge(snapshot, name, what, value)
        for name, what, value in _COUNTERS:
            yield self._counter(snapshot, name, what, value)
        yield self._memory(snapshot, "gpu_memory_used_bytes", "Memory in use.", _used, 2)
        yield self._memory(snapshot, "gpu_memory_size_bytes", "Memory in all.", _size, 3)
        yield from self._lists(snapshot)

    def _labels(self, gpu: GpuSnapshot, instance: tuple[int, str] | None = None) -> list[str]:
        parts = ["", ""] if instance is None else [str(instance[0]), instance[1]]
        return [self._node, str(gpu.index), gpu.uuid.value or "", gpu.name.value or "", *parts]

    def _gauge(self, snapshot: Snapshot, name: str, what: str, value: Value) -> Metric:
        family = GaugeMetricFamily(name, what, labels=_GPU_LABELS)
        for gpu in snapshot.gpus:
            if (found := value(gpu)) is not None:
                family.add_metric(self._labels(gpu), found)
        return family

    def _counter(self, snapshot: Snapshot, name: str, what: str, value: Value) -> Metric:
        family = CounterMetricFamily(name, what, labels=_GPU_LABELS)
        for gpu in snapshot.gpus:
            if (found := value(gpu)) is not None:
                family.add_metric(self._labels(gpu), found)
        return family

    def _memory(self, snapshot: Snapshot, name: str, what: str, value: Value, column: int) -> Metric:
        """Return the memory of whole GPUs, and of GPU instances for partitioned GPUs."""
        family = GaugeMetricFamily(name, what, labels=_GPU_LABELS)
        for gpu in snapshot.gpus:
            instances = [one for one in gpu.mig_memory.value or () if one[3] >= 0]
            for one in instances:
                family.add_metric(self._labels(gpu, (one[0], one[1])), float(one[column]))
            if not instances and (found := value(gpu)) is not None:
                family.add_metric(self._labels(gpu), found)
        return family

    def _lists(self, snapshot: Snapshot) -> Iterator[Metric]:
        """Yield metrics with additional labels: clock events, links, processes, thresholds and Xid errors."""
        events = GaugeMetricFamily(
            "gpu_clock_event_active",
            "Whether this event reduces the clocks now.",
            labels=[*_GPU_LABELS, "clock_event"],
        )
        links = GaugeMetricFamily("gpu_nvlink_up", "Whether the link is active.", labels=[*_GPU_LABELS, "link"])
        processes = GaugeMetricFamily(
            "gpu_process_memory_used_bytes",
            "Memory of a process that computes on the GPU.",
            labels=[*_GPU_LABELS, "pid"],
        )
        over = GaugeMetricFamily(
            "gpu_threshold_exceeded",
            f"Whether temperature ({self._thresholds.temperature:g} C), memory ({self._thresholds.memory:g} %) or "
            f"power ({self._thresholds.power:g} % of the limit) has reached its threshold.",
            labels=[*_GPU_LABELS, "threshold"],
        )
        for gpu in snapshot.gpus:
            labels = self._labels(gpu)
            reasons = gpu.throttle_reasons.value
            for bit, event in _CLOCK_EVENTS.items() if reasons is not None else ():
                events.add_metric([*labels, event], float(bool((reasons or 0) & bit)))
            for link, up in enumerate(gpu.nvlinks.value or ()):
                links.add_metric([*labels, str(link)], float(up))
            for pid, mib in gpu.processes.value or ():
                processes.add_metric([*labels, str(pid)], float(mib * _MIB))
            for threshold, limit, part in self._parts(gpu):
                if part is not None:
                    over.add_metric([*labels, threshold], float(part >= limit))
        yield from (events, links, processes, over)
        if snapshot.xids.value is not None:
            xids = GaugeMetricFamily(
                "gpu_xid_errors", "Xid errors in the kernel log.", labels=["node", "xid", "pci_bus"]
            )
            counted: dict[tuple[str, str], int] = {}
            for code, domain, bus, slot, *_ in (one for one in snapshot.xids.value if one[0] not in NO_ERRORS):
                key = str(code), f"{domain:04x}:{bus:02x}:{slot:02x}"
                counted[key] = counted.get(key, 0) + 1
            for (code, bus), count in counted.items():
                xids.add_metric([self._node, code, bus], float(count))
            yield xids

    def _parts(self, gpu: GpuSnapshot) -> Iterator[tuple[str, float, float | None]]:
        yield "temperature", self._thresholds.temperature, gpu.temperature.value
        used, mib = gpu.memory_used_bytes.value, gpu.memory_mib.value
        yield "memory", self._thresholds.memory, None if used is None or not mib else 100 * used / (mib * _MIB)
        power, limit = gpu.power.value, gpu.power_limit.value
        yield "power", self._thresholds.power, None if power is None or not limit else 100 * power / limit[0]


def _scaled(reading: Reading[int], factor: float) -> float | None:
    return None if reading.value is None else reading.value * factor


def _at(reading: Reading[tuple[int | None, ...]], place: int, factor: float = 1.0) -> float | None:
    value = None if reading.value is None else reading.value[place]
    return None if value is None else float(value) * factor


def _used(gpu: GpuSnapshot) -> float | None:
    return _scaled(gpu.memory_used_bytes, 1.0)


def _size(gpu: GpuSnapshot) -> float | None:
    return _scaled(gpu.memory_mib, float(_MIB))


def _uncorrectable(gpu: GpuSnapshot) -> float | None:
    return None if gpu.ecc_errors.value is None else float(sum(gpu.ecc_errors.value.values()))


_GAUGES: Final[tuple[tuple[str, str, Value], ...]] = (
    (
        "gpu_utilization_percent",
        "Percentage of the last sample period in which a kernel ran. Not available for a GPU with MIG.",
        lambda gpu: _at(gpu.utilization, 0),
    ),
    (
        "gpu_memory_utilization_percent",
        "Percentage of the last sample period in which memory was read or written.",
        lambda gpu: _at(gpu.utilization, 1),
    ),
    ("gpu_temperature_celsius", "Temperature of the GPU.", lambda gpu: _scaled(gpu.temperature, 1.0)),
    (
        "gpu_temperature_slowdown_celsius",
        "Temperature at which the GPU slows down.",
        lambda gpu: _scaled(gpu.slowdown_threshold, 1.0),
    ),
    ("gpu_power_watts", "Power draw of the board.", lambda gpu: _scaled(gpu.power, 1e-3)),
    ("gpu_power_limit_watts", "Power limit of the board.", lambda gpu: _at(gpu.power_limit, 0, 1e-3)),
    ("gpu_sm_clock_hertz", "Clock frequency of the SMs.", lambda gpu: _at(gpu.clocks, 0, 1e6)),
    ("gpu_memory_clock_hertz", "Clock frequency of the memory.", lambda gpu: _at(gpu.clocks, 1, 1e6)),
    (
        "gpu_row_remap_pending",
        "Whether a row will be remapped at the next reset.",
        lambda gpu: _at(gpu.remapped_rows, 2),
    ),
    ("gpu_row_remap_failed", "Whether a row could not be remapped.", lambda gpu: _at(gpu.remapped_rows, 3)),
)
_COUNTERS: Final[tuple[tuple[str, str, Value], ...]] = (
    ("gpu_energy_joules", "Energy since the driver was loaded.", lambda gpu: _scaled(gpu.energy, 1e-3)),
    (
        "gpu_ecc_corrected_errors",
        "Corrected ECC errors since the last reset.",
        lambda gpu: _scaled(gpu.ecc_corrected, 1.0),
    ),
    ("gpu_ecc_uncorrectable_errors", "Uncorrectable ECC errors since the last reset.", _uncorrectable),
    ("gpu_rows_remapped", "Rows remapped for uncorrectable errors.", lambda gpu: _at(gpu.remapped_rows, 1)),
    ("gpu_pcie_replays", "PCIe transfers that were repeated.", lambda gpu: _scaled(gpu.pcie_replays, 1.0)),
    ("gpu_nvlink_crc_errors", "CRC errors on all NVLinks.", lambda gpu: _at(gpu.nvlink_errors, 0)),
    ("gpu_nvlink_replays", "Replays on all NVLinks.", lambda gpu: _at(gpu.nvlink_errors, 1)),
    ("gpu_nvlink_recoveries", "Recoveries on all NVLinks.", lambda gpu: _at(gpu.nvlink_errors, 2)),
)
