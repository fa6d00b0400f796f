"""Checkpoints that are written during training and loaded on restart. Only complete checkpoints are loaded.

A checkpoint is a directory `step-<number>` in the format of torch.distributed.checkpoint. Its last file,
`complete.json`, lists all other files with size and checksum. Without this file, or if a file differs from the
list, the checkpoint is incomplete (torn) and is skipped. Directories are never renamed, because file systems that
are backed by buckets cannot rename a directory atomically. Some file systems, such as an S3 bucket with
Mountpoint, cannot rename files either. A file is then written a second time under its final name; an object in a
bucket appears as a whole or not at all (Mountpoint for S3, doc/SEMANTICS.md; read 2026-11-25).

Training waits while the state is copied to the node's memory. Threads then write the copy, each to its own file. A
checkpoint can be loaded by more or fewer processes than wrote it, because torch.distributed.checkpoint gives each
process its part of the state.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._state_dict_stager import StateDictStager
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.staging import AsyncStager

_COMPLETE: Final = "complete.json"
_PREFIX: Final = "step-"
_CHUNK: Final = 2**24
_MOST_THREADS: Final = 4  # eight threads were no faster on a node with 16 CPUs

log = logging.getLogger("workloads")


class _Files(FileSystem):
    """File operations for torch.distributed.checkpoint that also work on file systems without rename."""

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Rename a complete file, or copy it if the file system cannot rename."""
        _rename(Path(path), Path(new_path))


class _Writer(dcp.FileSystemWriter):
    """Writer for torch.distributed.checkpoint that works without rename and writes one file per thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, thread_count=_threads())
        self.fs = _Files()


class Stager(AsyncStager):
    """Copies the state to a buffer in the node's memory, and reuses the buffer for the next checkpoint.

    DefaultStager releases its buffer after each copy, and cannot make a second copy before PyTorch 2.15. The
    buffer is in pinned memory if there is a GPU.
    """

    _synchronize_after_execute = False  # required by the protocol: `stage` returns after everything is copied

    def __init__(self) -> None:
        self._on_gpu = torch.cuda.is_available()
        self._copies = StateDictStager(pin_memory=self._on_gpu, share_memory=False)

    def stage(self, state_dict: dict[str, Any], **_options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return a copy of the current state."""
        copy = self._copies.stage(state_dict, non_blocking=self._on_gpu)
        if self._on_gpu:
            torch.cuda.synchronize()
        return copy

    def close(self) -> None:
        """Keep the buffer for the next checkpoint."""


class NoGoodCheckpoint(Exception):
    """All complete checkpoints are damaged, so a person must decide whether to start from the beginning."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A complete checkpoint: its step, the seconds until it was complete, and the seconds that training waited."""

    step: int
    seconds: float
    blocked_seconds: float


class Checkpoints:
    """Checkpoints of one job in `directory`.

    The last `keep` checkpoints are kept. Every process creates an instance.
    """

    def __init__(self, directory: Path, *, keep: int = 2) -> None:
        self._directory = directory
        self._keep = keep
        # Threads write checkpoints during training.
        # The threads have their own process group, so that they never receive messages of the training.
        self._group = dist.new_group(backend="gloo")
        self._stager = Stager()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[Saved] | None = None
        self._step: int | None = None
        self.last: Saved | None = None
        """The last complete checkpoint that this process saved, or None if this attempt has completed none."""
        if dist.get_rank() == 0:
            directory.mkdir(parents=True, exist_ok=True)

    def save(self, state: Mapping[str, Any], step: int) -> None:
        """Start saving the current `state`, unless this step was already saved or loaded.

        All processes must call this method. It first waits until the previous checkpoint is complete.
        """
        self.wait()
        if step == self._step:
            return
        begun, self._step = time.monotonic(), step
        target = self._directory / f"{_PREFIX}{step:010d}"
        if dist.get_rank() == 0 and target.exists():
            _delete(target)  # incomplete, or written by a run that later resumed from an earlier step
        dist.barrier(group=self._group)
        writing = dcp.async_save(
            dict(state),
            checkpoint_id=target,
            storage_writer=_Writer(target),
            async_stager=self._stager,
            process_group=self._group,
        )
        blocked = time.monotonic() - begun
        self._pending = self._thread.submit(self._complete, writing, target, step, begun, blocked)

    def wait(self) -> None:
        """Wait until the last checkpoint is complete."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.last = pending.result()

    def poll(self) -> None:
        """Record the last checkpoint if it is complete, without waiting for it."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def load(self, state: dict[str, Any]) -> int | None:
        """Load the last good checkpoint into `state` and return its step.

        The result is None if no checkpoint was ever complete. All processes must call this method. Raises
        NoGoodCheckpoint if all complete checkpoints are damaged.
        """
        candidates, damaged = self._agreed(list(_newest_first(self._directory))), False
        for name in candidates:
            found = self._directory / name
            problem = self._agreed_problem(found)
            if problem is None:
                try:
                    dcp.load(state, checkpoint_id=found, process_group=self._group)
                except Exception as error:
                    problem = f"it cannot be loaded: {error}"
                else:
                    self._step = _step_of(name)
                    return self._step
            damaged = damaged or (found / _COMPLETE).exists()
            if dist.get_rank() == 0:
                log.warning("checkpoint %s skipped: %s", found, problem)
        if damaged:
            raise NoGoodCheckpoint(
                f"{self._directory}: no checkpoint can be loaded. Restore the checkpoints, or delete them "
                "to start again"
            )
        return None

    def _complete(self, writing: Any, target: Path, step: int, begun: float, blocked: float) -> Saved:  # noqa: ANN401
        writing.result()
        paths = sorted(target.glob(f"__{dist.get_rank()}_*"))
        if dist.get_rank() == 0:
            paths.append(target / ".metadata")
        own = _fingerprints(paths)
        files: list[dict[str, list[int]]] = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(files, own, group=self._group)
        if dist.get_rank() == 0:
            everything = {name: sizes for one in files for name, sizes in one.items()}
            _write(target / _COMPLETE, {"step": step, "files": everything})
            self._remove_old()
        dist.barrier(group=self._group)
        return Saved(step, time.monotonic() - begun, blocked)

    def _remove_old(self) -> None:
        """Delete everything that is older than the checkpoints to keep, including incomplete checkpoints."""
        names = list(_newest_first(self._directory))
        complete = [name for name in names if (self._directory / name / _COMPLETE).exists()]
        kept = complete[: self._keep]
        for name in names[names.index(kept[0]) :]:
            if name not in kept:
                _delete(self._directory / name)

    def _agreed(self, names: list[str]) -> list[str]:
        """Return the first process's list, because a file system may show an older listing to other processes."""
        seen: list[Any] = [names]
        dist.broadcast_object_list(seen, src=0, group=self._group)
        return seen[0]

    def _agreed_problem(self, found: Path) -> str | None:
        """Return why a checkpoint is incomplete or damaged, or None. Every process checks some of the files."""
        own = _problem(found, part=dist.get_rank(), parts=dist.get_world_size())
        problems: list[str | None] = [None] * dist.get_world_size()
        dist.all_gather_object(problems, own, group=self._group)
        return next((problem for problem in problems if problem is not None), None)


def _newest_first(directory: Path) -> Iterator[str]:
    names = [path.name for path in directory.glob(f"{_PREFIX}*") if path.name[len(_PREFIX) :].isdecimal()]
    yield from sorted(names, key=_step_of, reverse=True)


def _step_of(name: str) -> int:
    return int(name[len(_PREFIX) :])


def _problem(found: Path, *, part: int, parts: int) -> str | None:
    """Return why a checkpoint is incomplete or damaged, or None. Only every `parts`-th file is checked."""
    try:
        files: dict[str, list[int]] = json.loads((found / _COMPLETE).read_bytes())["files"]
    except FileNotFoundError:
        return "it was not written completely"
    except (OSError, ValueError, KeyError) as error:
        return f"{_COMPLETE} cannot be read: {error}"
    own = dict(sorted(files.items())[part::parts])
    for name, expected in own.items():
        path = found / name
        if not path.exists():
            return f"{name} is missing"
        size = path.stat().st_size
        if size != expected[0]:
            return f"{name} has {size} bytes, not {expected[0]}"
    for name, now in _fingerprints([found / name for name in own]).items():
        if now != own[name]:
            return f"{name} has a different checksum than when it was written"
    return None


def _threads() -> int:
    """Return the number of writer threads in a process: half of its CPUs, because training continues."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(_MOST_THREADS, len(os.sched_getaffinity(0)) // processes // 2))


def _fingerprints(paths: Sequence[Path]) -> dict[str, list[int]]:
    """Return the size and CRC-32 of files by file name."""
    with ThreadPoolExecutor(_threads()) as pool:
        return dict(zip((path.name for path in paths), pool.map(_fingerprint, paths), strict=True))


def _fingerprint(path: Path) -> list[int]:
    """Return the size and CRC-32 of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return [size, checksum]


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that exists either completely or not at all."""
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    _rename(unfinished, path)


def _rename(path: Path, to: Path) -> None:
    """Rename a complete file. If the file system cannot rename it, copy it and delete the original."""
    try:
        path.replace(to)
    except OSError:
        with path.open("rb") as source, to.open("wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
            target.flush()
            os.fsync(target.fileno())
        path.unlink()


def _delete(checkpoint: Path) -> None:
    """Delete a checkpoint, starting with `complete.json`.

    An interrupted deletion therefore leaves an incomplete checkpoint, which is skipped.
    """
    (checkpoint / _COMPLETE).unlink(missing_ok=True)
    for path in checkpoint.iterdir():
        path.unlink()
    # In a bucket, a directory disappears with its last file.
    with suppress(OSError):
        checkpoint.rmdir()
