"""Runs node agents in forked processes whose modules are already imported.

`python -m sandbox.simulator.agent_server AGENT.pyz FD` imports the zipapp's modules, the simulated NVML and the
catalogue once. Then it serves the listening socket that it inherits. For each connection, it forks a process with
the arguments, environment, working directory and standard streams that `agent_client.py` sends. A new interpreter
takes 0.3 s of CPU time for an agent, and 0.4 s for its child process that reads NVML, mostly for imports.

If a connection ends, its forked process is killed. If the process ends, the client receives its wait status.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from gpu_platform.base.errors import GpuPlatformError
from gpu_platform.catalog import Catalog, load_catalog
from sandbox.nvml import install, mig_tables, parse_profile

READ: Final = "read"
"""First argument of a process that installs and reads the simulated NVML. The next argument is the profile."""

_BUFFER: Final = 1 << 16
_PRELOADED: Final = ("validators.agent.cli", "validators.agent.nvml", "pynvml")


@dataclass(frozen=True, slots=True)
class _Request:
    arguments: Sequence[str]
    environment: dict[str, str]
    folder: str
    streams: Sequence[int]


def main(agent: str, listener: int) -> None:
    """Serve until standard input ends. In a forked process, run the agent instead."""
    catalog = _preload(agent)
    request = _Server(socket.socket(fileno=listener)).serve()
    if request is not None:
        _run(request, agent, catalog)


def _preload(agent: str) -> Catalog:
    sys.path.insert(0, agent)
    with suppress(Exception):  # with a broken zipapp, each run of the agent reports the error
        for name in _PRELOADED:
            importlib.import_module(name)
    catalog = load_catalog()
    mig_tables()
    gc.freeze()  # a garbage collection in a forked process would copy all these pages
    return catalog


def _run(request: _Request, agent: str, catalog: Catalog) -> None:
    """Run the requested program in this process: the agent, or its child that reads the simulated NVML."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    arguments = list(request.arguments)
    if arguments[:1] == [READ]:
        _, profile, *arguments = arguments
        try:
            install(
                parse_profile(Path(profile).read_bytes(), profile),
                bindings=importlib.import_module("pynvml"),
                catalog=catalog,
            )
        except (GpuPlatformError, OSError) as error:
            print(error, file=sys.stderr)
            sys.exit(2)
    sys.argv = [agent, *arguments]
    runpy.run_path(agent, run_name="__main__")


class _Server:
    """Forks processes, and keeps each process together with its client's connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._connections: dict[int, socket.socket] = {}
        self._listener = listener
        self._wake, self._waker = socket.socketpair()  # `_wake` is readable after a process has ended
        self._selector = selectors.DefaultSelector()
        for end in (self._wake, self._waker, listener):
            end.setblocking(False)
        for source in (sys.stdin, listener, self._wake):
            self._selector.register(source, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)

    def serve(self) -> _Request | None:
        """Fork a process for each connection. Return the request in the forked process, and None in the server."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    for pid in self._connections:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if key.fileobj is self._wake:
                    self._wake.recv(_BUFFER)
                    self._answer()
                elif key.fileobj is self._listener:
                    request = self._fork()
                    if request is not None:
                        return request
                elif key.data in self._connections:  # the client ended before its process
                    self._selector.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGKILL)

    def _answer(self) -> None:
        """Send the wait status of each ended process to the client of the process."""
        for pid, status in _ended():
            connection = self._connections.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(connection)
            with connection, suppress(OSError):
                connection.sendall(str(status).encode())

    def _fork(self) -> _Request | None:
        accepted = _accept(self._listener)
        if accepted is None:
            return None
        connection, request = accepted
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            self._selector.close()
            for each in (self._wake, self._waker, self._listener, connection, *self._connections.values()):
                each.close()
            return request
        for stream in request.streams:
            os.close(stream)
        self._connections[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        return None


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing, because the signal only has to wake the server."""


def _accept(listener: socket.socket) -> tuple[socket.socket, _Request] | None:
    """Return a connection and its request, or None if the client is already gone."""
    try:
        connection, _ = listener.accept()
        connection.setblocking(True)
        text, streams, _, _ = socket.recv_fds(connection, _BUFFER, 3)
        while text and not text.endswith(b"\n"):
            more = connection.recv(_BUFFER)
            text = text + more if more else b""
    except OSError:
        return None
    if not text:
        connection.close()
        return None
    message: dict[str, Any] = json.loads(text)
    return connection, _Request(message["arguments"], message["environment"], message["folder"], streams)


def _ended() -> list[tuple[int, int]]:
    """Return the process ID and wait status of each ended process."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, status))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
