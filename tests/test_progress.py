"""How elapsed time and progress are displayed, with and without a terminal."""

from __future__ import annotations

import io
import re
import time
from contextlib import redirect_stderr

import pytest

from gpu_platform.base import progress as module
from gpu_platform.base.progress import Progress


class Clock:
    """A fake clock for the progress display. `now` is its time in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Screen(io.StringIO):
    """A fake standard error stream that reports that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A fake terminal with 100 columns, for use as standard error."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Screen()


@pytest.mark.parametrize("plain", [True, False])
def test_a_line_is_printed_as_it_is(screen: Screen, plain: bool) -> None:
    text = "pools[0] needs [8] GPUs"
    with redirect_stderr(screen):
        Progress(plain=plain).line(text)
    assert screen.getvalue() == text + "\n"


def test_quiet_shows_nothing(screen: Screen) -> None:
    quiet = Progress(quiet=True)
    with redirect_stderr(screen), quiet.step("step"), quiet.count("count", "packages", 1) as done:
        quiet.line("line")
        done()
    assert screen.getvalue() == ""


def test_plain_shows_lines_on_a_terminal_too(screen: Screen) -> None:
    with redirect_stderr(screen), Progress(plain=True).count("Compiling", "packages", 1) as done:
        done()
    assert screen.getvalue() == "Compiling ...\nCompiling: 100 % (1 of 1 packages), 0 s\nCompiling: 0.0 s\n"


def test_without_a_terminal_a_count_shows_each_tenth(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(plain=True).count("Compiling", "packages", 30) as done:
        for _ in range(30):
            clock.now += 2
            done()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Compiling ..."
    assert lines[1] == "Compiling: 10 % (3 of 30 packages), 6 s"
    assert lines[-2:] == ["Compiling: 100 % (30 of 30 packages), 60 s", "Compiling: 60.0 s"]
    assert len(lines) == 12


def test_without_a_terminal_slow_work_shows_a_line_each_half_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(plain=True).count("Compiling", "packages", 1000) as done:
        for _ in range(7):
            clock.now += 10
            done()
    shown = re.findall(r"(\d+) of 1000 packages\), (\d+) s", capsys.readouterr().err)
    assert shown == [("3", "30"), ("6", "60")]


def test_a_count_without_a_total_shows_how_many_are_done(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(plain=True).count("Fetching", "modules") as done:
        for _ in range(2):
            clock.now += 20
            done()
    assert capsys.readouterr().err.splitlines() == [
        "Fetching ...",
        "Fetching: 2 modules, 40 s",
        "Fetching: 40.0 s",
    ]


def test_work_that_fails_shows_no_line_of_success(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with Progress(plain=True).count("Compiling", "packages", 2) as done:
            done()
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert capsys.readouterr().err.splitlines()[-1].startswith("Compiling: 50 %")


@pytest.mark.parametrize(("total", "shown"), [(8, "1/8"), (None, "1/?")])
def test_a_terminal_shows_a_bar_that_goes_when_the_work_is_done(
    screen: Screen, total: int | None, shown: str
) -> None:
    with redirect_stderr(screen), Progress().count("Compiling [all]", "packages", total) as done:
        done()
        for _ in range(1000):  # a thread draws the line ten times a second
            if shown in screen.getvalue():
                break
            time.sleep(0.01)
    assert f"{shown}\x1b[0m packages" in screen.getvalue()
    assert re.search(r"\x1b\[2KCompiling \[all\]: \d+\.\d s\n$", screen.getvalue())


def test_waiting_for_another_process_is_shown_also_when_nothing_else_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Progress(quiet=True).waiting("Waiting for another process")
    assert capsys.readouterr() == ("", "Waiting for another process\n")
