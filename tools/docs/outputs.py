"""Updates the quoted output of commands. A comment names the command, and the block after it contains its output.

    <!-- output: gpu-platform mig check --gpu A100-80GB 3g.40gb:2 1g.10gb:1 -->
    ```text
    ```

A command may use files in the repository, but must not require a cluster, a cloud or network access.
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
    """Return every handwritten page."""
    docs = PROJECT_ROOT / "docs"
    pages = [path for path in sorted(docs.rglob("*.md")) if path.parent != docs / "reference"]
    return [*sorted(PROJECT_ROOT.glob("*.md")), *pages]


def with_outputs(text: str) -> str:
    """Return a page after replacing every quoted output with the current output."""

    def replaced(match: re.Match[str]) -> str:
        lines = [part for line in output_of(shlex.split(match["command"])).splitlines() for part in _wrapped(line)]
        if match["lines"] and len(lines) > int(match["lines"]):
            lines = [*lines[: int(match["lines"])], "..."]
        return match["head"] + "\n".join(line.rstrip() for line in lines) + "\n" + match["end"]

    return _OUTPUT.sub(replaced, text)


def _wrapped(line: str) -> list[str]:
    """Wrap a long sentence at the width of a terminal, and indent the continuation lines. Table rows are not
    wrapped.
    """
    text = line.strip()
    if len(line) <= _WIDTH or "  " in text:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_on_hyphens=False
    )


def output_of(arguments: list[str]) -> str:
    """Return what a command writes to standard output and standard error, even if the command fails."""
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
