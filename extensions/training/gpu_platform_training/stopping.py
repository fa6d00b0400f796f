"""Detects that the pod is being stopped by SIGTERM after eviction, preemption, drain or a spot interruption.

Kubernetes signals only the first process of a container, which is the launcher. The launcher notifies its workers
with a file. If torchrun's agent passed on the signal, it would kill the workers after 30 seconds, regardless of
the pod's grace period.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Final

FILE_VARIABLE: Final = "GPU_PLATFORM_STOP_FILE"


class StopNotice:
    """A notice to stop that a process receives as a signal or through the launcher's file."""

    def __init__(self, file: Path | None = None) -> None:
        found = os.environ.get(FILE_VARIABLE)
        self._file = file or (Path(found) if found else None)
        self._since: float | None = None

    def listen(self) -> None:
        """Handle SIGTERM as a notice to stop, unless the launcher passes on the notice by file."""
        if self._file is None:
            signal.signal(signal.SIGTERM, self._note)

    @property
    def given(self) -> bool:
        """Whether the process should stop."""
        if self._since is None and self._file is not None and self._file.exists():
            self._since = self._file.stat().st_mtime
        return self._since is not None

    @property
    def seconds_ago(self) -> float:
        """Seconds since the notice, or 0 if there was none."""
        return 0.0 if self._since is None else max(0.0, time.time() - self._since)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self._since = self._since or time.time()


def pass_on_by_file() -> Path:
    """Make SIGTERM create a file that the launcher's workers read with `StopNotice`, and return its path."""
    file = Path(tempfile.mkdtemp(prefix="gpu-platform-")) / "stop"
    os.environ[FILE_VARIABLE] = str(file)

    def note(_signal: int, _frame: FrameType | None) -> None:
        file.touch()

    signal.signal(signal.SIGTERM, note)
    return file
