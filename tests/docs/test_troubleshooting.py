"""Every message on the troubleshooting page is a message in the code."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from gpu_platform.base.paths import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
OWN = PAGE.partition("## Pods of a team")[0] + PAGE.partition("## The sandbox")[2]
OF_KUBERNETES = {"conflict with"}
PACKAGES = ("gpu_platform", "policies", "validators", "sandbox")


def headings() -> list[str]:
    return re.findall(r"^### (.*)$", OWN, re.MULTILINE)


@functools.cache
def texts() -> str:
    """Return every string in the code, one per line. The parts of an f-string are separate strings."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (PROJECT_ROOT / package).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            found |= {
                node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return "\n".join(found)


def test_the_page_has_messages():
    assert len(headings()) > 15


@pytest.mark.parametrize("heading", headings())
def test_a_message_of_the_page_is_in_the_code(heading: str):
    pieces = [
        piece.strip(" .") for message in re.findall(r"`([^`]+)`", heading) for piece in re.split('[…"]', message)
    ]
    missing = [piece for piece in pieces if piece and piece not in OF_KUBERNETES and piece not in texts()]
    assert not missing
