"""If standard output cannot be written, for example because the disk is full, every command prints one line and
exits with code 3.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments",
    [
        "check local --format json",
        "--version",
        *(
            pytest.param(other, marks=pytest.mark.long)
            for other in ("review local", "machines list", "--help", "sandbox down --help")
        ),
    ],
)
def test_a_command_that_cannot_print_says_so_in_one_line(arguments: str, unbuffered: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": unbuffered}
    with FULL.open("w") as full:
        ran = subprocess.run(
            [*COMMAND, *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert (ran.returncode, ran.stderr) == (3, "error: cannot write to standard output: No space left on device\n")
