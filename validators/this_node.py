"""The node agent on this machine, for people who have a node and no stack."""

from __future__ import annotations

from pathlib import Path

from gpu_platform.errors import BadInput, Problem
from validators.agent.cli import DEADLINE_SECONDS
from validators.agent.expectations import BadExpectations, parse_expectations
from validators.agent.reading import NvmlReader
from validators.agent.report import Identity, Report, check_node


def check_this_node(document: str | None, source: str, deadline_seconds: float = DEADLINE_SECONDS) -> Report:
    """Return the agent's report of this machine.

    `document` is an Expectations JSON (None: only health is checked), `source` names it in errors. Raises
    BadInput for a document with mistakes.
    """
    try:
        expectations = None if document is None else parse_expectations(document, source)
    except BadExpectations as error:
        raise BadInput(source, [Problem(*mistake) for mistake in error.problems]) from None
    return check_node(NvmlReader(), expectations, Identity.of_environment(), deadline_seconds)


def read_document(path: Path) -> str:
    """Return the text of an expectations file; raises BadInput."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(str(path), [Problem("(all)", str(error), "a readable file of expectations")]) from None
