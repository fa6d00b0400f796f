"""Quoted output of commands: a comment names the command, the block after it holds what the command prints.

    <!-- output: gpu-platform mig check --gpu A100-80GB 3g.40gb:2 1g.10gb:1 -->
    ```text
    ```

A command may use what is in the repository; it must need neither cluster nor cloud nor network.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import textwrap
from pathlib import Path
from unittest import mock

from gpu_platform.base.paths import PROJECT_ROOT
from gpu_platform.cli import main

_WIDTH = 112
_OUTPUT = re.compile(
    r"(?P<head><!-- output: gpu-platform (?P<command>[^\n]*?)(?: \| head -(?P<lines>\d+))? -->\n```text\n)"
    r"(?P<text>.*?)(?P<end>^```$)",
    re.DOTALL | re.MULTILINE,
)


def documents() -> list[Path]:
    """Return every page that people write."""
    docs = PROJECT_ROOT / "docs"
    pages = [path for path in sorted(docs.rglob("*.md")) if path.parent != docs / "reference"]
    return [*sorted(PROJECT_ROOT.glob("*.md")), *pages]


def with_outputs(text: str) -> str:
    """Return a page with every quoted output replaced by the current one."""

    def replaced(match: re.Match[str]) -> str:
        lines = [part for line in output_of(shlex.split(match["command"])).splitlines() for part in _wrapped(line)]
        if match["lines"] and len(lines) > int(match["lines"]):
            lines = [*lines[: int(match["lines"])], "..."]
        return match["head"] + "\n".join(line.rstrip() for line in lines) + "\n" + match["end"]

    return _OUTPUT.sub(replaced, text)


def _wrapped(line: str) -> list[str]:
    """Wrap a long sentence as a terminal would, indented; rows of tables, which have columns, stay whole."""
    text = line.strip()
    if len(line) <= _WIDTH or "  " in text:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_on_hyphens=False
    )


def output_of(arguments: list[str]) -> str:
    """Return what a command prints, on both streams, whatever its exit code."""
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(_WIDTH), "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.chdir(PROJECT_ROOT),
        contextlib.suppress(SystemExit),
    ):
        main(arguments)
    return printed.getvalue().strip("\n")
