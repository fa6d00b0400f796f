"""Kills the command line at a random moment, in a forked process, which starts faster than a new interpreter."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_MODULES: Final = ["gpu_platform.cli.deploy", "tests.support.killed"]  # the fork server imports these modules once


class Killed(NamedTuple):
    """The result of killing a command: whether the command was still running, and its output so far."""

    in_time: bool
    err: str


def kill_at_a_random_moment(
    randomly: random.Random, *arguments: str, lines: int = 14, env: Mapping[str, str] | None = None
) -> Killed:
    """Run a command, and kill it and all its children (SIGKILL) after it has printed a random number of lines,
    from 1 to `lines`.

    The delay is counted in lines, not in seconds, because the speed depends on the machine.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_MODULES)
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "stderr"
        os.mkfifo(pipe)
        process = context.Process(target=_command, args=(str(pipe), arguments, dict(env or {})))
        process.start()
        last = randomly.randint(1, lines)
        text: list[str] = []
        with pipe.open() as printed:
            for number, line in enumerate(printed, 1):
                text.append(line)
                if number == last:
                    time.sleep(randomly.uniform(0, 0.4))
                    break
            if process.pid is not None:
                _kill_all(process.pid)
        process.join()
    return Killed(process.exitcode == -signal.SIGKILL, "".join(text))


def _command(pipe: str, arguments: tuple[str, ...], env: dict[str, str]) -> None:
    os.environ.update(env)
    os.dup2(os.open(pipe, os.O_WRONLY), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    from gpu_platform.cli import main

    main(list(arguments))


def _kill_all(process: int) -> None:
    """Kill a process and its children. The process is stopped first, so that it cannot start more children."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
    for one in [process, *_descendants(process)]:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _descendants(process: int) -> Iterator[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.splitlines())}
    found = {process}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
        yield from new
