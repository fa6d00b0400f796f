"""An interrupt of `gpu-platform` reaches the Pulumi CLI once, and `gpu-platform` does not end before the CLI."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi import automation

from gpu_platform.base import interruption
from gpu_platform.deploy.pulumi.pulumi_process import InterruptibleCommand

CLI = """#!/bin/sh
case "$*" in *version*) echo v3.999.0; exit 0;; esac
echo "got $*"
interrupts=0
trap 'interrupts=$((interrupts + 1)); echo "interrupt $interrupts"' INT
[ -n "$FAILS" ] && { echo "error: no such thing" >&2; exit 255; }
[ -n "$ENDS" ] && exit 0
echo working
while [ $interrupts -lt ${STOPS_AFTER:-1} ]; do sleep 0.05; done
echo "state saved"
exit 255
"""


@pytest.fixture
def command(tmp_path: Path) -> InterruptibleCommand:
    """A fake Pulumi CLI that reacts to interrupts like the real CLI."""
    file = tmp_path / "bin" / "pulumi"
    file.parent.mkdir()
    file.write_text(CLI)
    file.chmod(0o755)
    return InterruptibleCommand(root=str(tmp_path))


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(interruption, "_state", interruption._State(begun=True))
    with interruption.handled(restore=True):
        yield


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_is_one_interrupt_and_the_cli_ends_first(
    command: InterruptibleCommand, tmp_path: Path, number: signal.Signals
) -> None:
    lines: list[str] = []

    def follow(line: str) -> None:
        lines.append(line)
        if line == "working":
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        command.run(["up"], str(tmp_path), {}, follow)
    assert [line for line in lines if not line.startswith("interrupting pulumi")] == [
        "got --non-interactive up",
        "working",
        "interrupt 1",
        "state saved",
    ]


def test_a_second_signal_is_a_second_interrupt(command: InterruptibleCommand, tmp_path: Path) -> None:
    lines: list[str] = []

    def follow(line: str) -> None:
        lines.append(line)
        if line in ("working", "interrupt 1"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        command.run(["up"], str(tmp_path), {"STOPS_AFTER": "2"}, follow)
    assert lines[-2:] == ["interrupt 2", "state saved"]


def test_the_output_and_errors_of_a_command_are_returned(command: InterruptibleCommand, tmp_path: Path) -> None:
    done = command.run(["stack", "ls"], str(tmp_path), {"ENDS": "1"})
    assert (done.stdout, done.stderr, done.code) == ("got --non-interactive stack ls", "", 0)
    with pytest.raises(automation.CommandError, match="no such thing"):
        command.run(["up"], str(tmp_path), {"FAILS": "1"})
