"""Processes on this machine that a test did not start itself."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process is running. A zombie is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    # ProcessLookupError: the process ended after the file was opened.
    except (FileNotFoundError, ProcessLookupError):
        return False
