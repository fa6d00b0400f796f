"""Which tests `make test`, `make test-long` and `make test-thorough` have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER, LONG_FILE = "tests/e2e", "tests/e2e/test_sharing_modes.py"
SHORT, LONG, THOROUGH = (
    "test_mig_change.py::test_a_change_of_the_layout_rolls_node_by_node_and_kills_no_protected_pod",
    "test_sharing_modes.py::test_every_node_offers_the_resources_of_its_own_sharing",
    "test_rehearsal_on_the_scheduler.py::",
)


@pytest.mark.parametrize(
    ("tests", "place", "expected"),
    [
        ("", FOLDER, {SHORT}),
        ("", LONG_FILE, {LONG}),
        ("", f"{LONG_FILE}::{LONG.partition('::')[2]}", {LONG}),
        ("long", FOLDER, {LONG}),
        ("thorough", FOLDER, {SHORT, LONG, THOROUGH}),
    ],
)
def test_a_run_has_its_own_tests_and_a_named_file_runs_whole(tests: str, place: str, expected: set[str]) -> None:
    options = ["-o", "addopts=", "-q", "-p", "no:cacheprovider", "-p", "no:syrupy"]
    command = [sys.executable, "-m", "pytest", "--collect-only", *options, place]
    env = {**os.environ, "GPU_PLATFORM_TESTS": tests}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert {one for one in (SHORT, LONG, THOROUGH) if one in run.stdout} == expected
