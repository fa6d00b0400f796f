"""Profile of a range of training steps as a Chrome trace (chrome://tracing, Perfetto)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch

log = logging.getLogger("workloads")


@dataclass(frozen=True, slots=True)
class Window:
    """Range of steps from `first` to `last`, both included."""

    first: int
    last: int


class Profiler:
    """Profiles the steps of a window and writes one trace. Without a window, it does nothing."""

    def __init__(self, window: Window | None, file: Path) -> None:
        self._window = window
        self._file = file
        self._running: torch.profiler.profile | None = None

    def __enter__(self) -> Profiler:
        return self

    def __exit__(self, *_error: object) -> None:
        """Write the trace if training ends within the window."""
        self._close()

    def before(self, step: int) -> None:
        """Start the profile before the first step of the window."""
        if self._window is not None and step == self._window.first:
            self._running = torch.profiler.profile(record_shapes=True, profile_memory=True)
            self._running.start()

    def after(self, step: int) -> None:
        """Write the trace after the last step of the window."""
        if self._window is not None and step >= self._window.last:
            self._close()

    def _close(self) -> None:
        if self._running is None:
            return
        running, self._running = self._running, None
        running.stop()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        running.export_chrome_trace(str(self._file))
        log.info("profile written: %s", self._file)
