"""Identity of a process on this machine. A later process can use it to detect that the process has ended.

A host name does not identify a machine (CI runners share one), and the kernel reuses process ids. An identity
therefore consists of the kernel's boot id, the host name, a network address (virtual machines of one snapshot
share the boot id), the namespace of process ids, the process id and the start time. Only Linux provides all of
these values.
"""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# Index of the start time in /proc/PID/stat, counted after the command's name. Source: proc(5).
_START_FIELD: Final = 19


def own_identity() -> str:
    """Return the identity of this process, or an empty string if the system provides none."""
    pid = os.getpid()
    start = _start_of(pid)
    return f"{_machine()}:{pid}:{start}" if start else ""


def has_ended(identity: str) -> bool:
    """Return whether the process has certainly ended.

    The result is false if the process is unknown or on another machine.
    """
    machine, _, process = identity.partition(":")
    pid, _, start = process.partition(":")
    if not machine or machine != _machine() or not pid.isdecimal() or not start:
        return False
    return _start_of(int(pid)) != start


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return f"{boot}/{socket.gethostname()}/{uuid.getnode():x}/{namespace}".replace(":", "")


def _start_of(pid: int) -> str:
    """Return the start time of a running process, or an empty string. A zombie counts as ended."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[_START_FIELD] if len(fields) > _START_FIELD and fields[0] not in "ZX" else ""
