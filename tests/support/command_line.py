"""Calls the command line in this process, as `gpu-platform` with the same arguments would do in one of its own."""

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
"""The command line as a process of its own: where a signal, or a program that it starts, is what is tested."""


_INTERRUPTED: Final = 130  # 128 + SIGINT


class Ran(NamedTuple):
    """One run of the command line: its exit code, what it printed, and its errors."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """Call the command line with `env` added to the environment; fails if it leaves this process changed."""
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
        raise KeyboardInterrupt  # of the test run: a test interrupts a process of its own, never this one
    assert not changed, f"`gpu-platform {' '.join(arguments)}` changed its process: {changed}"
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Ran(code, out.getvalue(), err.getvalue())


def _global_state() -> dict[str, object]:
    """Return what the calls that follow in this process would be changed by."""
    root = logging.getLogger()
    pulumi: Any = SETTINGS  # it has these attributes only at run time
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
