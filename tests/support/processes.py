"""Processes of this machine that a test did not start itself."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended after the file was opened
        return False
