#!/usr/bin/env python3
"""Print the findings of a SARIF log: findings.py plain|github LOG.

`plain` prints errors and warnings as compilers do, for editors and hooks. `github` prints all findings as workflow
commands. GitHub Actions shows these findings at the lines of a pull request, even without code scanning.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def escaped(text: str, *, value: bool = False) -> str:
    """Escape text for a workflow command. If `value` is true, escape it for a property of the command."""
    for character in "%\r\n" + (":," if value else ""):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def lines(log: dict[str, Any], form: str) -> Iterator[str]:
    """Yield a line for each finding of a log."""
    for result in log["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        file, region = unquote(place["artifactLocation"]["uri"]), place["region"]
        text, level = result["message"]["text"], result["level"]
        if form == "github":
            where = f"file={escaped(file, value=True)},line={region['startLine']},col={region['startColumn']}"
            yield f"::{_COMMANDS[level]} {where},title={result['ruleId']}::{escaped(text)}"
        elif level != "note":
            flat: str = " ".join(text.split())
            yield f"{file}:{region['startLine']}:{region['startColumn']}: {level}: {result['ruleId']}: {flat}"


def main(form: str, path: str) -> None:
    """Print the findings of the log at `path`."""
    for line in lines(json.loads(Path(path).read_text("utf-8")), form):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
