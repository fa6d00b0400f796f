"""The type checker is strict and reports each kind of error that the project does not allow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from gpu_platform.base.paths import PROJECT_ROOT

# Each comment names the kind of error on its line.
MISTAKES = """\
from typing import Literal

from gpu_platform.stack.sharing import MigRoll


def without_annotation(value) -> str:  # implicit-any-parameter
    return str(value)


def without_item_type(values: list) -> int:  # implicit-any-type-argument
    return len(values)


def from_json(document: object) -> str:
    kind = document.get("kind") if isinstance(document, dict) else None  # partially-unknown-type
    return str(kind)


def from_list(parts: object) -> int:
    return max(len(part) for part in parts) if isinstance(parts, list) else 0  # unknown-variable-type


def incomplete(mode: Literal["mig", "mps"]) -> None:
    match mode:  # non-exhaustive-match
        case "mig":
            print(mode)


MigRoll(max_unavailable="1")  # bad-argument-type
MigRoll(nodes=1)  # unexpected-keyword
"""


def test_the_type_checker_reports_every_kind_of_mistake(tmp_path: Path) -> None:
    file = tmp_path / "mistakes.py"
    file.write_text(MISTAKES, "utf-8")
    result = subprocess.run(
        [
            *(
                Path(sys.executable).with_name("pyrefly"),
                "check",
                file,
                "--config",
                PROJECT_ROOT / "pyproject.toml",
            ),
            *("--python-interpreter-path", sys.executable, "--output-format", "json"),
        ],
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    reported = {(error["line"], error["name"]) for error in json.loads(result.stdout)["errors"]}
    lines = enumerate(MISTAKES.splitlines(), start=1)
    expected = {(number, comment[1]) for number, line in lines if (comment := re.search(r"# ([a-z-]+)$", line))}
    assert len(expected) == 7
    assert expected - reported == set()
