"""Kills the command line at a random moment, in a process that costs no new interpreter."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

_MODULES: Final = ["gpu_platform.cli.deploy", "tests.support.killed"]  # imported once, in the server of forks


def kill_at_a_random_moment(randomly: random.Random, *arguments: str) -> bool:
    """Run a command and kill it (SIGKILL) after a random number of its lines; False if it ended before.

    Lines, not seconds: how far a command comes in a second is a matter of the machine.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_MODULES)
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "stderr"
        os.mkfifo(pipe)
        process = context.Process(target=_command, args=(str(pipe), arguments))
        process.start()
        last = randomly.randint(1, 14)
        with pipe.open() as lines:
            for number, _ in enumerate(lines, 1):
                if number == last:
                    time.sleep(randomly.uniform(0, 0.4))
                    break
            process.kill()
        process.join()
    return process.exitcode == -signal.SIGKILL


def _command(pipe: str, arguments: tuple[str, ...]) -> None:
    os.dup2(os.open(pipe, os.O_WRONLY), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    from gpu_platform.cli import main

    main(list(arguments))
