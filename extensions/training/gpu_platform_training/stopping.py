"""Whether the pod is being stopped: SIGTERM by eviction, preemption, drain or the notice of a spot node.

Kubernetes signals the first process of a container, which is the launcher. It passes the signal on by a file,
since the agent of torchrun would kill its workers after 30 seconds, whatever the pod's grace period is.
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
    """A notice to stop, which a process gets by a signal or by the launcher's file."""

    def __init__(self, file: Path | None = None) -> None:
        found = os.environ.get(FILE_VARIABLE)
        self._file = file or (Path(found) if found else None)
        self._since: float | None = None

    def listen(self) -> None:
        """Note SIGTERM instead of ending the process; not below the launcher, whose agent ends processes by it."""
        if self._file is None:
            signal.signal(signal.SIGTERM, self._note)

    @property
    def given(self) -> bool:
        """Whether the process shall stop."""
        if self._since is None and self._file is not None and self._file.exists():
            self._since = self._file.stat().st_mtime
        return self._since is not None

    @property
    def seconds_ago(self) -> float:
        """Seconds since the notice; 0 without one."""
        return 0.0 if self._since is None else max(0.0, time.time() - self._since)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self._since = self._since or time.time()


def pass_on_by_file() -> Path:
    """In the launcher: note SIGTERM in a file that its workers read by `StopNotice`, and return the file."""
    file = Path(tempfile.mkdtemp(prefix="gpu-platform-")) / "stop"
    os.environ[FILE_VARIABLE] = str(file)

    def note(_signal: int, _frame: FrameType | None) -> None:
        file.touch()

    signal.signal(signal.SIGTERM, note)
    return file
