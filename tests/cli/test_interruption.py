"""At any time, a signal ends a command with one line and the usual exit code, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpu_platform.base import interruption
from gpu_platform.cli import app
from sandbox import control_plane
from tests.support.eventually import eventually

# Each pytest-xdist worker needs its own sandbox name, because workers run these tests in parallel.
NAME = f"interrupted-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
# Python handles signals itself while it starts, which takes about 20 ms.
SCRIPT = """
from gpu_platform.base import interruption
interruption.install()
print("ready", flush=True)
from gpu_platform.cli import main
main()
"""


@pytest.fixture(autouse=True)
def _absent() -> Iterator[None]:
    yield
    control_plane.down(NAME)


def interrupted(number: signal.Signals, seconds: float, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command and send it a signal `seconds` after the command is ready."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(number)
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("seconds", "number"),
    [
        (0.0, signal.SIGINT),
        (0.1, signal.SIGTERM),
        (0.3, signal.SIGINT),
        (0.6, signal.SIGTERM),
        (1.5, signal.SIGINT),
    ],
)
def test_a_signal_in_sandbox_up_leaves_no_traceback_and_no_process(number: signal.Signals, seconds: float) -> None:
    ended = interrupted(number, seconds, "sandbox", "up", "--name", NAME, "--format", "json")

    assert "Traceback" not in ended.stderr
    if ended.returncode:  # with exit code 0, the command finished before the signal arrived
        assert ended.returncode == 128 + number
        (line,) = ended.stderr.splitlines()
        assert line.startswith("interrupted: ")
        assert set(control_plane.status(NAME).pids.values()) == {None}


# All signals have the same handler, so each delay is tested with only one or two of them.
@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (signal.SIGINT, 0.0),
        (signal.SIGTERM, 0.0),
        (signal.SIGINT, 0.05),
        (signal.SIGHUP, 0.2),
        (signal.SIGTERM, 0.2),
        (signal.SIGHUP, 0.5),
    ],
)
def test_a_signal_in_check_is_one_line_and_the_exit_code_of_shells(number: signal.Signals, seconds: float) -> None:
    ended = interrupted(number, seconds, "capacity", "suggest", "--workloads", "/dev/stdin")

    assert "Traceback" not in ended.stderr
    # Exit code 2 means that the command failed before the signal arrived, because its input is empty.
    assert ended.returncode in (128 + number, 2)
    assert len(ended.stderr.splitlines()) == 1 or ended.returncode == 2


def test_a_signal_that_is_deferred_is_raised_after_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def start() -> None:
        with interruption.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            done.extend(["started", "written down"])

    monkeypatch.setattr(interruption, "_state", interruption._State())
    with interruption.handled(restore=True):
        interruption.begin()
        with pytest.raises(KeyboardInterrupt):
            start()
        assert interruption.exit_code() == 143

    assert done == ["started", "written down"]


def test_an_interruption_that_python_drops_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(interruption, "_state", interruption._State())
    with interruption.handled(restore=True):
        interruption.begin()
        lost = [Dropped()]
        with pytest.raises(KeyboardInterrupt):
            eventually(lambda: lost.clear())


def test_an_interruption_is_raised_again_where_threads_start_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def slowly(thread: threading.Thread) -> None:
        start(thread)
        time.sleep(0.2)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    test_an_interruption_that_python_drops_is_raised_again(monkeypatch)


def test_an_interruption_that_compiled_code_wraps_is_still_recognized(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted_import(_arguments: list[str], **_: str) -> None:
        interruption.begin()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt as signalled:
            raise ValueError("Error building validator") from signalled

    monkeypatch.setattr(interruption, "_state", interruption._State())
    monkeypatch.setattr(app, "_command", lambda: interrupted_import)
    with interruption.handled(restore=True), pytest.raises(SystemExit) as left:
        app.main(["check", "local"])

    assert left.value.code == 143
    assert capsys.readouterr().err.startswith("interrupted: ")


def test_a_defect_is_no_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_arguments: list[str], **_: str) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(interruption, "_state", interruption._State())
    monkeypatch.setattr(app, "_command", lambda: defect)
    with interruption.handled(restore=True), pytest.raises(ValueError, match="a defect"):
        app.main(["check", "local"])


def test_handlers_are_as_before_after_a_run_in_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruption.handled(restore=True):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
