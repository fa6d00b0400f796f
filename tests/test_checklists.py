"""Each line of a checklist has a test whose name contains the line's number, and each line number in a test name
exists in the checklist.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def lines_of(cloud: str) -> set[str]:
    """Return the line numbers of a checklist."""
    text = (TESTS / "components" / cloud / "checklist.md").read_text("utf-8")
    numbers = re.findall(r"^(\d+)\. ", text, re.MULTILINE)
    assert numbers == [str(index + 1) for index in range(len(numbers))], "each number from 1 occurs once"
    return set(numbers)


def lines_with_tests(cloud: str) -> set[str]:
    """Return the line numbers in the names of the tests in all folders."""
    named = re.compile(rf"^def test_{cloud}_(\d+)_", re.MULTILINE)
    return {number for file in TESTS.rglob("test_*.py") for number in named.findall(file.read_text("utf-8"))}


@pytest.mark.parametrize("cloud", ["eks", "gke"])
def test_checklist_lines_and_tests_named_after_them_match(cloud: str) -> None:
    assert lines_with_tests(cloud) == lines_of(cloud)
    assert lines_of(cloud)
