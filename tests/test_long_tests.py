"""Which tests `make test`, `make test-long` and `make test-thorough` have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MIXED, LONG_FILE = "test_mixed.py", "test_long_file.py"
FILES = {
    MIXED: """
import pytest

def test_short(): ...

@pytest.mark.long
def test_long(): ...

@pytest.mark.thorough
def test_thorough(): ...
""",
    LONG_FILE: """
import pytest

pytestmark = pytest.mark.long

def test_of_a_long_file(): ...
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("tests", "place", "expected"),
    [
        ("", "", {"short"}),
        ("", LONG_FILE, {"of_a_long_file"}),
        ("", f"{LONG_FILE}::test_of_a_long_file", {"of_a_long_file"}),
        ("", MIXED, {"short", "long"}),
        ("long", "", {"long", "of_a_long_file"}),
        ("thorough", "", {"short", "long", "thorough", "of_a_long_file"}),
    ],
)
def test_a_run_has_its_own_tests_and_a_named_file_runs_whole(
    folder: Path, tests: str, place: str, expected: set[str]
) -> None:
    options = [
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, str(folder / place)],
        cwd=ROOT,
        env={**os.environ, "GPU_PLATFORM_TESTS": tests},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert set(re.findall(r"::test_(\w+)", run.stdout)) == expected
