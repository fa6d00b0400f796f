"""Compares passes to find growing counters, lasting slowdowns, and errors that earlier passes have found."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from validators.agent.calls import Journal
from validators.agent.health import RESETTING_ACTIONS
from validators.agent.heat import PASSES, slowed_by
from validators.agent.reading import NvmlReader
from validators.agent.snapshot import RESET_REQUIRED, GpuSnapshot, Reading, Snapshot
from validators.agent.xid_check import RECENT_SECONDS, Xid, XidTable
from validators.agent.xids import LOG_BEGINS

WINDOW_SECONDS = (
    600.0  # period in seconds over which growth is counted; a node without growth in this period passes again
)
Counters = dict[str, int]
Line = tuple[int, int, int, int, int, str]  # one line of Snapshot.xids


class Reader(Protocol):
    """Reads one Snapshot after another."""

    @property
    def journal(self) -> Journal:
        """The answers of the last pass."""
        ...

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot of one pass."""
        ...


class Remembering:
    """Reads Snapshots through another reader, and adds the findings of earlier passes to each Snapshot."""

    def __init__(self, reader: Reader, table: XidTable, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._table = table
        self._clock = clock
        self._passes: deque[tuple[float, dict[str, Counters]]] = deque()
        self._slowed: deque[tuple[float, dict[str, list[str]]]] = deque()
        """For each pass: its time, and the slowdown reasons of each GPU."""
        self._events: list[tuple[float, int, int]] = []
        """Xid events, each as a tuple of time, code and GPU index."""
        self._lines: dict[object, tuple[float, Line]] | None = None
        """Time and line of the last error of each kind in the kernel log, or None until the log has been read."""
        self._energy: dict[str, int] = {}
        """Energy counter of each GPU at its last reading."""
        self._asking: set[int] = set()
        """Indices of the GPUs that last requested a reset, or a recovery action that resets them."""
        self._resets: dict[int, float] = {}
        """Time of the last pass before the last reset, by index of the GPU."""
        self._reset_times: dict[int, int] = {}
        """The same times in seconds since the epoch, which another process can also use."""

    @property
    def journal(self) -> Journal:
        """The answers of the last pass."""
        return self._reader.journal

    @property
    def reset_times(self) -> dict[int, int]:
        """Time of each GPU's last known reset, by GPU index, in seconds since the epoch."""
        return dict(self._reset_times)

    def recall(self, reset_times: Mapping[int, int]) -> None:
        """Add the resets that an earlier process has recorded, unless this process has recorded a later reset."""
        for index, at in reset_times.items():
            if at > self._reset_times.get(index, 0):
                self._reset_times[index] = at
                self._resets[index] = self._clock() - (time.time() - at)

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot of this pass, with the growth of counters and the events since the first pass."""
        snapshot = self._reader.read(deadline_seconds)
        now = self._clock()
        self._passes.append((now, {_name(gpu): _counters(gpu) for gpu in snapshot.gpus}))
        while len(self._passes) > 2 and now - self._passes[1][0] >= WINDOW_SECONDS:
            self._passes.popleft()
        self._slowed.append((now, {_name(gpu): slowed_by(gpu) for gpu in snapshot.gpus}))
        while now - self._slowed[0][0] >= WINDOW_SECONDS:
            self._slowed.popleft()
        before = self._passes[-2][0] if len(self._passes) > 1 else now
        for gpu in snapshot.gpus:
            self._note_reset(gpu, before, now)
        gpus = tuple(self._gpu(gpu, now) for gpu in snapshot.gpus)
        resets = [(index, round(now - at)) for index, at in self._resets.items()]
        events, xids = self._told(snapshot, now), self._logged(snapshot.xids, now)
        return replace(snapshot, gpus=gpus, events=events, resets=Reading(resets), xids=xids)

    def wait(self, seconds: float) -> None:
        """Wait until the next pass. An `NvmlReader` collects NVML events meanwhile."""
        if isinstance(self._reader, NvmlReader):
            self._note(self._reader.wait(seconds), self._clock())
        else:
            time.sleep(seconds)

    def _note(self, events: Reading[list[tuple[int, int, int]]], now: float) -> None:
        self._events += [(now - age, code, index) for code, index, age in events.value or ()]

    def _note_reset(self, gpu: GpuSnapshot, before: float, now: float) -> None:
        """Record that the GPU was reset, or its driver was loaded, since the previous pass at the time `before`.

        After a reset, the GPU's energy counter restarts, or the GPU no longer requests a reset. A GPU that did not
        answer in the previous pass had not been reset by then.
        """
        energy = gpu.energy.value
        was_reset = energy is not None and energy < self._energy.get(_name(gpu), 0)
        if energy is not None:
            self._energy[_name(gpu)] = energy
        action = gpu.recovery_action.value
        if action in RESETTING_ACTIONS or RESET_REQUIRED in gpu.problems:
            self._asking.add(gpu.index)
        elif gpu.index in self._asking and energy is not None and not action:
            self._asking.remove(gpu.index)
            was_reset = True
        if was_reset:
            self._resets[gpu.index] = before
            self._reset_times[gpu.index] = round(time.time() - (now - before))

    def _gpu(self, gpu: GpuSnapshot, now: float) -> GpuSnapshot:
        """Return a GPU with the growth of its counters since the oldest pass, or since they were last reset."""
        name, after, since = _name(gpu), _counters(gpu), now
        slowed = [gpus[name] for _, gpus in self._slowed if name in gpus]
        counts = {what: sum(what in seen for seen in slowed) for seen in slowed for what in seen}
        gpu = replace(gpu, slowed=Reading({**counts, PASSES: len(slowed)}))
        grown = dict.fromkeys(after, 0)
        for at, counters in reversed(list(self._passes)[:-1]):
            before = counters.get(name)
            if before is None or any(after[each] < before.get(each, 0) for each in after):
                break  # the GPU was absent, or its driver was loaded again
            since = at
            grown = {each: after[each] - before.get(each, after[each]) for each in after}
        if since == now:
            return gpu
        return replace(gpu, growth=Reading({**grown, "seconds": round(now - since)}))

    def _told(self, snapshot: Snapshot, now: float) -> Reading[list[tuple[int, int, int]]]:
        self._note(snapshot.events, now)
        # If the log has a line for an event, keep only the line, because it contains the error's text.
        places = {gpu.pci.value: gpu.index for gpu in snapshot.gpus}
        logged = {(line[0], places.get(line[1:4])) for line in snapshot.xids.value or ()}
        self._events = [each for each in self._events if each[1:] not in logged]
        # A fault may last until a reset, so keep the last event of each code and GPU.
        last = {(code, index): at for at, code, index in sorted(self._events)}
        self._events = [
            each for each in self._events if now - each[0] <= RECENT_SECONDS or last[each[1:]] == each[0]
        ]
        if not self._events:
            return Reading([]) if snapshot.events.ok else snapshot.events
        return Reading([(code, index, round(now - at)) for at, code, index in self._events])

    def _logged(self, xids: Reading[list[Line]], now: float) -> Reading[list[Line]]:
        """Return lines that the log has lost but that still count, followed by the log's current lines."""
        if xids.value is None and self._lines is None:
            return xids
        # The beginning of the log matters only in the first pass, because the agent keeps what the log loses.
        lines = [line for line in xids.value or () if line[0] != LOG_BEGINS or self._lines is None]
        present = {self._kind(line): (now - line[4], line) for line in lines}
        self._lines = {
            kind: (at, line)
            for kind, (at, line) in {**(self._lines or {}), **present}.items()
            if now - at <= RECENT_SECONDS or self._table.outlasts_an_hour(_xid(line))
        }
        lost = sorted(self._lines[kind] for kind in self._lines if kind not in present)
        return Reading([*((*line[:4], round(now - at), line[5]) for at, line in lost), *lines])

    def _kind(self, line: Line) -> object:
        return line[:4], self._table.kind_of(_xid(line))


def _xid(line: Line) -> Xid:
    return Xid(line[0], "", line[4], line[5])


def _name(gpu: GpuSnapshot) -> str:
    return f"{gpu.index} {gpu.uuid.value}"  # another GPU may have the same UUID


def _counters(gpu: GpuSnapshot) -> Counters:
    """Return the GPU's counters of corrected errors, by the names in MOST_GROWTH (health.py)."""
    found: Counters = {}
    if gpu.pcie_replays.value is not None:
        found["PCIe replays"] = gpu.pcie_replays.value
    if gpu.nvlink_errors.value is not None:
        names = ("NVLink CRC errors", "NVLink replays", "NVLink recoveries")
        found |= {name: count for name, count in zip(names, gpu.nvlink_errors.value) if count is not None}
    if gpu.ecc_corrected.value is not None:
        found["corrected ECC errors"] = gpu.ecc_corrected.value
    return found
