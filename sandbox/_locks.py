"""File lock between processes. The kernel releases the lock when the process that holds it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path, *, on_wait: Callable[[], None] | None = None) -> Generator[None]:
    """Hold the exclusive lock on `path` while the body runs. `on_wait` is called before waiting for the lock."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait is not None:
                    on_wait()
                fcntl.flock(handle, fcntl.LOCK_EX)
            # If `path` is no longer the locked file, its folder was removed while this process waited.
            if _is_still_at(handle.fileno(), path):
                yield
                return


def _is_still_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
