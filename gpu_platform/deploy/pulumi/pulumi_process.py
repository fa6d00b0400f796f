"""Runs the Pulumi CLI so that an interruption of this process reaches the CLI exactly once.

The Automation API always waits for the CLI. Without this module, SIGTERM or the end of a time limit would never
reach the CLI, and Ctrl-C would reach the CLI directly from the terminal. The CLI treats the first interrupt as a
request to finish the operations in progress and to save its state. It treats the second interrupt as an order to
stop immediately, which leaves operations pending.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from pulumi import automation
from pulumi.automation.errors import create_command_error

from gpu_platform.base import interruption

_TOLD = "interrupting pulumi: it finishes the operations in progress; interrupt again to stop it at once"


class InterruptibleCommand(automation.PulumiCommand):
    """Pulumi CLI whose process receives one SIGINT for each KeyboardInterrupt in `run`.

    `run` returns only after the process has ended.
    """

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> automation.CommandResult:
        """Run `pulumi` with arguments, like the base class. Raises CommandError if it fails."""
        environment = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        if os.path.isabs(self.command):  # the CLI finds its bundled plugins on PATH
            environment["PATH"] = os.pathsep.join([str(Path(self.command).parent), os.environ.get("PATH", "")])
        started: _Process | None = None
        interrupted = False
        while True:
            try:
                if started is None:
                    with interruption.deferred():
                        command = [self.command, "--non-interactive", *args]
                        started = _Process(command, cwd, environment, on_output, on_error)
                result = started.wait()
                break
            except KeyboardInterrupt:
                if started is None:
                    raise
                if not interrupted and on_output is not None:
                    on_output(_TOLD)
                interrupted = True
                started.interrupt()
        if interrupted:
            raise KeyboardInterrupt
        if result.code:
            raise create_command_error(result)
        return result


class _Process:
    """A process in its own process group. Ctrl-C in the terminal reaches only our process, which forwards it."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        on_output: Callable[[str], Any] | None,
        on_error: Callable[[str], Any] | None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            encoding="utf-8",
            process_group=0,
        )
        self._out = _Lines(cast("IO[str]", self._process.stdout), on_output)
        self._errors = _Lines(cast("IO[str]", self._process.stderr), on_error)

    def interrupt(self) -> None:
        """Send SIGINT if the process is still running."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> automation.CommandResult:
        """Return the result when the process has ended. After an interruption, this method can be called again."""
        code = self._process.wait()
        self._out.join()
        self._errors.join()
        return automation.CommandResult(stdout=self._out.text(), stderr=self._errors.text(), code=code)


class _Lines:
    """Reads the lines of a stream in a thread, and passes each line to a callback."""

    def __init__(self, stream: IO[str], callback: Callable[[str], Any] | None) -> None:
        self._stream = stream
        self._callback = callback
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                text = line.rstrip()
                self._lines.append(text)
                if self._callback is not None:
                    self._callback(text)

    def join(self) -> None:
        """Wait until the stream ends."""
        self._thread.join()

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self._lines)
