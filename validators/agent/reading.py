"""Reads NVML in a child process with a time limit, because a driver call may hang.

The child writes a line before every NVML call and its Snapshot at the end, so that the report can name a call that
does not return or crashes the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from validators.agent.snapshot import Snapshot

READER_VARIABLE = "GPU_PLATFORM_NVML_READER"  # JSON list: the command that reads NVML instead of this agent
READ_COMMAND = "read-nvml"
_CALL = "call "
_SNAPSHOT = "snapshot "
_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 2  # time for a killed child to end; one in a hanging driver call does not
_HANG_REMEDY = (
    "the driver hangs: look for Xid and NVRM lines in dmesg; drain and reboot the node, "
    "and replace the GPU if it happens again"
)
_CRASH_REMEDY = "run nvidia-smi on the node; if it ends the same way, reinstall the driver and reboot"


def write_snapshot() -> None:
    """Read NVML in the child process, and write calls and Snapshot to standard output."""
    from validators.agent.nvml import read_nvml  # only the child loads the bindings

    _die_with_parent()

    def write(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    snapshot = read_nvml(lambda call: write(_CALL + call))
    write(_SNAPSHOT + json.dumps(snapshot.to_json()))


def _die_with_parent() -> None:
    """Let the kernel kill this process when the agent dies, also during a hanging call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class NvmlReader:
    """Reads Snapshots, with one child process at a time, started by `command`."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command) if command is not None else _command()
        self._stuck: subprocess.Popen[bytes] | None = None
        self._stuck_in = ""

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot of this node, or one whose `failure` names the call that did not return.

        While an earlier child still hangs in the driver, no new one is started.
        """
        if self._stuck is not None and self._stuck.poll() is None:
            return Snapshot(failure=f"{self._stuck_in} has not returned yet", remediation=_HANG_REMEDY)
        self._stuck = None
        child = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            output, errors = child.communicate(timeout=deadline_seconds)
        except subprocess.TimeoutExpired as expired:
            call = _last_call(expired.stdout or b"")
            self._kill(child, call)
            return Snapshot(
                failure=f"{call} did not return within {deadline_seconds:g} s", remediation=_HANG_REMEDY
            )
        except BaseException:
            child.kill()
            raise
        for line in reversed(output.decode(errors="replace").splitlines()):
            if line.startswith(_SNAPSHOT):
                return Snapshot.from_json(json.loads(line[len(_SNAPSHOT) :]))
        return Snapshot(
            failure=f"{_last_call(output)} ended the reading process: {_end_of(child.returncode, errors)}",
            remediation=_CRASH_REMEDY,
        )

    def _kill(self, child: subprocess.Popen[bytes], call: str) -> None:
        child.kill()
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._stuck, self._stuck_in = child, call
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _command() -> list[str]:
    """Return the command that runs this agent's child process, from a zipapp or a source tree."""
    if given := os.environ.get(READER_VARIABLE):
        return [*json.loads(given), READ_COMMAND]
    flags = ["-I"] if sys.flags.isolated else []
    root = Path(__file__).parents[2]
    if root.is_file():
        return [sys.executable, *flags, str(root), READ_COMMAND]
    start = f"import runpy, sys; sys.path.insert(0, {str(root)!r}); runpy.run_module('validators.agent')"
    return [sys.executable, *flags, "-c", start, READ_COMMAND]


def _last_call(output: bytes) -> str:
    calls = [line for line in output.decode(errors="replace").splitlines() if line.startswith(_CALL)]
    return calls[-1][len(_CALL) :] if calls else "starting Python"


def _end_of(code: int, errors: bytes) -> str:
    last = (errors.decode(errors="replace").strip().splitlines() or [""])[-1]
    end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{end}: {last}" if last else end
