"""Processes that outlive the process that started them, and that later processes find again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox._daemons import Daemon
from tests.support.eventually import eventually

ENV = {"PATH": os.environ["PATH"]}
SLEEP = ["sleep", "600"]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon("sleeper", tmp_path)
    yield daemon
    daemon.stop(grace_seconds=0.0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_daemon_that_runs_is_not_started_again(daemon: Daemon) -> None:
    assert daemon.ensure(SLEEP, env=ENV)
    pid = daemon.pid()
    assert not daemon.ensure(SLEEP, env=ENV)
    assert daemon.pid() == pid


def test_a_daemon_that_was_killed_is_known_as_dead_and_started_again(daemon: Daemon) -> None:
    daemon.ensure(SLEEP, env=ENV)
    first = daemon.pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: daemon.pid() is None)
    assert daemon.ensure(SLEEP, env=ENV)
    assert daemon.pid() not in (None, first)


def test_a_reused_process_id_is_not_taken_for_our_process(daemon: Daemon) -> None:
    daemon.ensure(SLEEP, env=ENV)
    daemon.stop(grace_seconds=5.0)
    with subprocess.Popen(SLEEP) as stranger:
        record = daemon.folder / "run" / "sleeper.json"
        record.write_text(f'{{"pid": {stranger.pid}, "fingerprint": ""}}')
        assert daemon.pid() is None
        daemon.stop(grace_seconds=0.0)
        assert stranger.poll() is None
        stranger.kill()


def test_a_changed_command_replaces_the_process(daemon: Daemon) -> None:
    daemon.ensure(SLEEP, env=ENV)
    first = daemon.pid()
    assert daemon.ensure(["sleep", "601"], env=ENV)
    assert daemon.pid() not in (None, first)


def test_a_changed_file_that_it_reads_replaces_the_process(daemon: Daemon, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("a: 1")
    daemon.ensure(SLEEP, env=ENV, reads=[config])
    assert not daemon.ensure(SLEEP, env=ENV, reads=[config])
    config.write_text("a: 2")
    assert daemon.ensure(SLEEP, env=ENV, reads=[config])


def test_preparations_are_made_only_before_a_start(daemon: Daemon) -> None:
    calls: list[int | None] = []
    for _ in range(2):
        daemon.ensure(SLEEP, env=ENV, prepare=lambda: calls.append(daemon.pid()))
    assert calls == [None]


def test_a_daemon_outlives_its_starter_and_is_stopped_by_another_process(daemon: Daemon) -> None:
    start = f"""
from pathlib import Path
from sandbox._daemons import Daemon
Daemon("sleeper", Path({str(daemon.folder)!r})).ensure({SLEEP!r}, env={ENV!r})
"""
    subprocess.run([sys.executable, "-c", start], check=True)
    pid = daemon.pid()
    assert pid is not None
    daemon.stop(grace_seconds=5.0)
    assert daemon.pid() is None
    eventually(lambda: not is_alive(pid))


def test_stop_ends_the_children_of_a_daemon_that_ignores_the_polite_signal(daemon: Daemon) -> None:
    script = "trap '' TERM; sleep 600 & echo $!; wait; wait; sleep 600"
    daemon.ensure(["sh", "-c", script], env=ENV)
    eventually(lambda: daemon.log.read_text().strip().isdigit())
    child = int(daemon.log.read_text())
    daemon.stop(grace_seconds=0.2)
    assert daemon.pid() is None
    eventually(lambda: not is_alive(child))


def test_the_log_tail_is_from_this_run_and_the_previous_log_is_kept(daemon: Daemon) -> None:
    for words in ("first", "second"):
        daemon.ensure(["sh", "-c", f"seq 100; echo {words}"], env=ENV)
        eventually(lambda: daemon.pid() is None)
    assert daemon.log_tail(lines=2) == "100\nsecond"
    assert daemon.log.with_suffix(".log.1").read_text().endswith("first\n")
