from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_platform.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the command line; the answer is its exit code, what it printed, and its errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = 0
        try:
            main(list(arguments))
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return call
