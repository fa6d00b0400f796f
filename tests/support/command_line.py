"""Calls the command line in this process, with the same behaviour as `gpu-platform` in a separate process."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest
from pulumi.runtime.config import CONFIG
from pulumi.runtime.settings import SETTINGS

from gpu_platform.cli import main

COMMAND: Final = (sys.executable, "-c", "from gpu_platform.cli import main; main()")
"""The command line as a separate process, for tests of signals or of programs that the command starts."""


_INTERRUPTED: Final = 130  # 128 + SIGINT


class Ran(NamedTuple):
    """The result of a command: its exit code, its output and its error output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """Call the command line with `env` added to the environment. Fails if the call changes the state of this
    process.
    """
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        before = _global_state()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(arguments))
            except SystemExit as stop:
                code = int(stop.code or 0)
        changed = {name: (old, new) for name, old, new in _differences(before, _global_state())}
    if code == _INTERRUPTED:
        raise KeyboardInterrupt  # tests interrupt only separate processes, so Ctrl-C was meant for the test run
    assert not changed, f"`gpu-platform {' '.join(arguments)}` changed its process: {changed}"
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Ran(code, out.getvalue(), err.getvalue())


def _global_state() -> dict[str, object]:
    """Return the global state of this process that could affect later calls."""
    root = logging.getLogger()
    pulumi: Any = SETTINGS  # the attributes exist only at run time
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "sys.path": list(sys.path),
        "sys.argv": list(sys.argv),
        "garbage collection": gc.isenabled(),
        "logging": (root.level, list(root.handlers), logging.root.manager.disable),
        "signal handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "standard streams": (sys.stdin, sys.__stdout__, sys.__stderr__),
        "Pulumi": (pulumi.monitor, pulumi.project, pulumi.stack, pulumi.dry_run, dict(CONFIG.get())),
    }


def _differences(before: dict[str, object], after: dict[str, object]) -> list[tuple[str, object, object]]:
    return [(name, value, after[name]) for name, value in before.items() if value != after[name]]
