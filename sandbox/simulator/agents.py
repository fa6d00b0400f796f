"""Starts node agents through `agent_server` processes, one for each zipapp."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.simulator.agent_server import READ

_CLIENT: Final = Path(__file__).with_name("agent_client.py")
_LONGEST: Final = 90  # maximum length of the folder's path; sockets allow 107 characters, or 103 on macOS
_MOST: Final = 2  # number of servers; during an upgrade, the pods of a platform use two zipapps


@dataclass(frozen=True, slots=True)
class _Server:
    process: subprocess.Popen[bytes]
    address: Path

    def stop(self) -> None:
        """Stop the server, which kills the processes that it forked."""
        self.process.communicate()  # closes the server's standard input, which ends the server
        self.address.unlink(missing_ok=True)


class Agents:
    """Builds commands that run node agents, with files and sockets in `folder`. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        # The path is absolute, because clients run in other folders.
        self._folder = folder.resolve()
        self._short = ""
        if len(str(self._folder)) > _LONGEST:
            self._short = tempfile.mkdtemp(prefix="agents-", dir="/tmp")
        self._sockets = Path(self._short or self._folder)
        self._servers: dict[str, _Server] = {}
        self._lock = threading.Lock()

    def command(self, agent: bytes, *arguments: str) -> list[str]:
        """Return a command that behaves like `AGENT.pyz ARGUMENTS...`. `agent` is the content of the zipapp."""
        return [sys.executable, "-I", "-S", str(_CLIENT), str(self._address(agent)), *arguments]

    def reader(self, agent: bytes, profile: Path) -> list[str]:
        """Return the command of an agent's child process, which reads the simulated NVML of a profile file."""
        return self.command(agent, READ, str(profile))

    def stop(self) -> None:
        """Stop the servers and all processes that they started."""
        with self._lock:
            while self._servers:
                self._servers.popitem()[1].stop()
        if self._short:
            shutil.rmtree(self._short, ignore_errors=True)

    def _address(self, agent: bytes) -> Path:
        """Return the socket of the zipapp's server. The server is started unless it is already running."""
        digest = hashlib.sha256(agent).hexdigest()[:12]
        with self._lock:
            server = self._servers.pop(digest, None)
            if server is not None and server.process.poll() is not None:
                server.stop()
                server = None
            self._servers[digest] = server or self._start(agent, digest)  # the most recently used server is last
            while len(self._servers) > _MOST:
                self._servers.pop(next(iter(self._servers))).stop()
            return self._servers[digest].address

    def _start(self, agent: bytes, digest: str) -> _Server:
        file, address = self._folder / f"agent-{digest}.pyz", self._sockets / digest
        file.write_bytes(agent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen()  # agents wait here until the server has imported its modules
            number = listener.fileno()
            command = [sys.executable, "-m", "sandbox.simulator.agent_server", str(file), str(number)]
            return _Server(subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(number,)), address)
