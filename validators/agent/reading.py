"""Reads NVML in a child process with a time limit, because a driver call may hang or end its process.

The child writes its messages to a separate pipe, one JSON list per line. Output that a library prints goes to
standard error. After an unanswered call, the next child makes the remaining calls.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from validators.agent.calls import (
    ANSWER,
    CALL,
    DID_NOT_RETURN,
    END,
    ENDED_THE_PROCESS,
    SNAPSHOT,
    Journal,
)
from validators.agent.outcome import CRASH_REMEDY, HANG_REMEDY
from validators.agent.snapshot import Reading, Snapshot

READER_VARIABLE = "GPU_PLATFORM_NVML_READER"  # a JSON list with a command that reads NVML in place of this agent
READ_COMMAND = "read-nvml"
START = "starting Python"  # name of the step before the first call
_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 2.0  # maximum wait for a killed child, because it does not end while a driver call hangs
_POLL_SECONDS = 0.25  # interval for checking whether a child has ended, if another process keeps its pipes open
_CALL_SHARE = 0.25  # fraction of the time limit that one call may take
_OPENING_CALLS = 2  # the calls that load and initialise NVML, which have no shorter time limit
_MOST_CHILDREN = 8  # maximum number of children per pass
_MOST_STUCK = 3  # maximum number of children that survive a kill
_LAST_WORDS = 4096
_BUFFER = 1 << 16


def write_snapshot() -> None:
    """Read NVML in the child process.

    The journal is read from standard input. Calls, answers and the Snapshot are written as messages.
    """
    from validators.agent.nvml import close_nvml, read_nvml, wait_for_events  # only the child loads the bindings

    _die_with_parent()
    messages = os.dup(1)
    os.dup2(2, 1)  # keeps the output of libraries out of the messages
    with open(0, "rb", closefd=False) as file:
        given = file.read()
    journal = Journal.from_json(json.loads(given)) if given else Journal()

    def emit(message: list[Any]) -> None:
        os.write(messages, json.dumps(message).encode() + b"\n")

    read = wait_for_events if journal.wait_seconds else read_nvml
    emit([SNAPSHOT, read(journal, emit).to_json()])
    close_nvml(emit)
    emit([END])


def _die_with_parent() -> None:
    """Make the kernel kill this process when the agent dies, even during a hanging call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class End:
    """How one child ended.

    `call` is the call that did not return or that ended the child, or "". `how` describes the end in words.
    """

    snapshot: Snapshot | None
    call: str = ""
    problem: str = ""
    how: str = ""


class Child(Protocol):
    """A child process that reads NVML."""

    def follow(self, until: float, call_seconds: float) -> End:
        """Read messages until the child ends, or a call takes too long."""
        ...

    def kill(self) -> bool:
        """Kill the child and the processes that it started. Return False if it cannot be killed."""
        ...

    def alive(self) -> bool:
        """Whether the child is still running."""
        ...


class NvmlReader:
    """Reads Snapshots with one child at a time. Each child runs `command`, or is created by `start`."""

    def __init__(
        self, command: Sequence[str] | None = None, start: Callable[[Journal], Child] | None = None
    ) -> None:
        self._start = start or functools.partial(_Process, list(command) if command is not None else _command())
        self._stuck: list[tuple[Child, str]] = []
        self.journal = Journal()
        """The answers of the last pass."""

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot of this node within the time limit.

        A call that does not return, or that ends the process, is listed in `unanswered`. All other values are
        present. Calls that are still hanging in an earlier child are not made again.
        """
        until = time.monotonic() + deadline_seconds
        self.journal = journal = Journal()
        self._stuck = [(child, call) for child, call in self._stuck if child.alive()]
        lost = [f"{call} has not returned yet" for _, call in self._stuck]
        for _, call in self._stuck:
            journal.lose(call, DID_NOT_RETURN)
        snapshot: Snapshot | None = None
        hung = bool(lost)
        for _ in range(_MOST_CHILDREN):
            if snapshot is not None or len(self._stuck) >= _MOST_STUCK or time.monotonic() >= until:
                break
            child = self._start(journal)
            end = child.follow(until, deadline_seconds * _CALL_SHARE)
            snapshot = end.snapshot
            if not child.kill():
                self._stuck.append((child, end.call))
            if end.call == START and lost:  # the time ran out before the next call
                break
            if end.call:
                hung = hung or end.problem == DID_NOT_RETURN
                lost.append(f"{end.call} {end.how}")
                journal.lose(end.call, end.problem)
            if end.call == START:
                break
        snapshot = snapshot or _of_journal(journal)
        if snapshot.failure and lost and not snapshot.remediation:  # the missing answer caused the failure
            snapshot = replace(snapshot, failure=lost[-1])
        remedy = HANG_REMEDY if hung else CRASH_REMEDY if lost else ""
        return replace(snapshot, unanswered=tuple(lost), remediation=snapshot.remediation or remedy)

    def wait(self, seconds: float) -> Reading[list[tuple[int, int, int]]]:
        """Wait, and return the Xid errors that NVML events reported meanwhile.

        Each error is a tuple of code, GPU index and age in seconds. If a call hangs or ends its process, later
        events are lost, but the wait does not take longer.
        """
        until = time.monotonic() + seconds
        self._stuck = [(child, call) for child, call in self._stuck if child.alive()]
        events: Reading[list[tuple[int, int, int]]] = Reading(problem=DID_NOT_RETURN, call="nvmlEventSetWait")
        if len(self._stuck) < _MOST_STUCK:
            child = self._start(Journal(wait_seconds=seconds))
            end = child.follow(until + _GRACE_SECONDS, seconds)
            if not child.kill():
                self._stuck.append((child, end.call))
            if end.snapshot is not None:
                events = end.snapshot.events
        time.sleep(max(0.0, until - time.monotonic()))
        return events


def _of_journal(journal: Journal) -> Snapshot:
    """Return the Snapshot that contains the answers so far, without making a call."""
    from validators.agent.nvml import read_nvml

    return read_nvml(journal, lambda _: None, live=False)


class _Messages:
    """Receives messages from a child: the last call, the answers for the journal and, at the end, the Snapshot."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rest = b""
        self.call = START
        self.since = time.monotonic()
        self.answers = 0
        self.snapshot: Snapshot | None = None
        self.complete = False

    def take(self, data: bytes) -> None:
        """Process the next bytes. Lines that are not messages are ignored."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                kind, *content = json.loads(line)
                if kind == CALL:
                    self.call, self.since = str(content[0]), time.monotonic()
                elif kind == ANSWER:
                    name, value, problem = content
                    self._journal.answers[name] = [value, problem]
                    self.answers += 1
                elif kind == SNAPSHOT:
                    self.snapshot = Snapshot.from_json(content[0])
                elif kind == END:
                    self.complete = True
            except (ValueError, TypeError, KeyError, IndexError):
                continue


class _Process:
    """A process that reads NVML, together with the processes that it starts."""

    def __init__(self, command: Sequence[str], journal: Journal) -> None:
        self._messages = _Messages(journal)
        self._given = json.dumps(journal.to_json()).encode()
        self._last_words = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a separate session, so that processes started by a library are killed too
        )

    def follow(self, until: float, call_seconds: float) -> End:
        """Read messages until the child ends, or a call takes too long."""
        heard, ended = self._messages, False
        try:
            with selectors.DefaultSelector() as selector:
                for pipe, event, move in (
                    (self._process.stdin, selectors.EVENT_WRITE, self._give),
                    (self._process.stdout, selectors.EVENT_READ, self._take),
                    (self._process.stderr, selectors.EVENT_READ, self._take_words),
                ):
                    if pipe is not None:
                        os.set_blocking(pipe.fileno(), False)
                        selector.register(pipe, event, (pipe, move))
                while not heard.complete:
                    for key, _ in selector.select(0 if ended else _POLL_SECONDS):
                        pipe, move = key.data
                        if not move(key.fd):
                            selector.unregister(pipe)
                            pipe.close()
                    if heard.complete:
                        break
                    if ended:
                        how = f"ended the reading process: {_end_of(self._process.returncode, self._last_words)}"
                        return End(heard.snapshot, heard.call, ENDED_THE_PROCESS, how)
                    ended = not self.alive()
                    limit = until if heard.answers < _OPENING_CALLS else min(until, heard.since + call_seconds)
                    if not ended and time.monotonic() >= limit:
                        how = f"did not return within {max(0.0, round(limit - heard.since, 1)):g} s"
                        return End(heard.snapshot, heard.call, DID_NOT_RETURN, how)
        except BaseException:
            self.kill()
            raise
        return End(heard.snapshot)

    def alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def _give(self, pipe: int) -> bool:
        """Write a part of the journal to the child, and return whether more remains to be written."""
        try:
            self._given = self._given[os.write(pipe, self._given[:_BUFFER]) :]
        except BlockingIOError:
            return True
        except OSError:  # the child has ended
            return False
        return bool(self._given)

    def _take(self, pipe: int) -> bool:
        data = os.read(pipe, _BUFFER)
        self._messages.take(data)
        return bool(data)

    def _take_words(self, pipe: int) -> bool:
        data = os.read(pipe, _BUFFER)
        self._last_words = (self._last_words + data)[-_LAST_WORDS:]
        return bool(data)

    def kill(self) -> bool:
        """Kill the child and the processes that it started. Return False if a driver call keeps it alive."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
        with suppress(ChildProcessError):  # PID 1 of a container inherits processes that a library forked
            while os.waitpid(-self._process.pid, os.WNOHANG)[0]:
                pass
        return True


def _command() -> list[str]:
    """Return the command that runs this agent's child process from a zipapp or a source tree."""
    if given := os.environ.get(READER_VARIABLE):
        return [*json.loads(given), READ_COMMAND]
    flags = ["-I"] if sys.flags.isolated else []
    root = Path(__file__).parents[2]
    if root.is_file():
        return [sys.executable, *flags, str(root), READ_COMMAND]
    start = f"import runpy, sys; sys.path.insert(0, {str(root)!r}); runpy.run_module('validators.agent')"
    return [sys.executable, *flags, "-c", start, READ_COMMAND]


def _end_of(code: int, errors: bytes) -> str:
    last = (errors.decode(errors="replace").strip().splitlines() or [""])[-1]
    end = f"exit code {code}"
    if code < 0:
        end = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    return f"{end}: {last}" if last else end
