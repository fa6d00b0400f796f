"""Starts, finds and stops daemons: processes that keep running after the command that started them.

A daemon inherits an open file with an exclusive lock. The kernel releases the lock when the process ends, so
another process with a reused process id is never mistaken for the daemon.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.interruption import deferred

_POLL_SECONDS = 0.02

# Popen objects are kept so that Python reaps children that have ended and does not warn about running children.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon of the sandbox whose data folder is `folder`."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        """Log file for standard output and standard error. `<log>.1` contains the previous run."""
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def _record(self) -> Path:
        return self.folder / "run" / f"{self.name}.json"

    def pid(self) -> int | None:
        """Return the process ID, which is also the process group ID, or None if the daemon is not running."""
        try:
            record = self._record.open()
        except FileNotFoundError:
            return None
        with record:
            try:
                fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = record.read()
                return int(json.loads(text)["pid"]) if text else None
        return None

    def ensure(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        reads: Iterable[Path] = (),
        prepare: Callable[[], None] | None = None,
    ) -> bool:
        """Start `command` in the data folder unless it is already running, and return whether it was started.

        A running process is restarted if `command` or the contents of the files in `reads` have changed. `prepare`
        is called immediately before a start.
        """
        fingerprint = _fingerprint(command, reads)
        if self.pid() is not None:
            if json.loads(self._record.read_text())["fingerprint"] == fingerprint:
                return False
            self.stop(grace_seconds=5.0)
        if prepare is not None:
            prepare()
        self._start(command, env, fingerprint)
        return True

    def stop(self, *, grace_seconds: float) -> None:
        """Stop the process group with SIGTERM, and with SIGKILL after `grace_seconds`.

        Raises:
            UnknownOutcome: the process does not end, perhaps because it waits for a broken disk.
        """
        for name, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 10.0)):
            pid = self.pid()
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, name)
            deadline = time.monotonic() + patience
            while self.pid() is not None and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        if (pid := self.pid()) is not None:
            raise UnknownOutcome(f"{self.name} (process {pid}) cannot be stopped")

    def log_tail(self, lines: int = 12) -> str:
        """Return the end of the log, for an error message."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def _start(self, command: Sequence[str], env: Mapping[str, str], fingerprint: str) -> None:
        for path in (self.log, self._record):
            path.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        # If a start is interrupted, the new process is stopped, so that no process runs without a record.
        with deferred(), self._record.open("a") as record, self.log.open("wb") as log:
            fcntl.flock(record, fcntl.LOCK_EX)
            record.truncate(0)
            child = subprocess.Popen(
                command,
                cwd=self.folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(record.fileno(),),
            )
            json.dump({"pid": child.pid, "fingerprint": fingerprint}, record)
            _children.append(child)


def _fingerprint(command: Sequence[str], reads: Iterable[Path]) -> str:
    digest = hashlib.sha256(json.dumps(list(command)).encode())
    for path in sorted(reads):
        digest.update(path.read_bytes())
    return digest.hexdigest()
