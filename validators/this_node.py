"""Runs the node agent once on this machine, without a stack."""

from __future__ import annotations

from pathlib import Path

from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.catalog import load_catalog
from gpu_platform.planning.expectations import expected_xids
from validators.agent.cli import DEADLINE_SECONDS
from validators.agent.expectations import BadExpectations, Expectation, parse_expectations
from validators.agent.reading import NvmlReader
from validators.agent.recording import BadRecording, Recorded, read_recording
from validators.agent.report import Identity, Reader, Report, check_node
from validators.agent.unreadable import why_unreadable


def check_this_node(
    document: str | None, source: str, reader: Reader, deadline_seconds: float = DEADLINE_SECONDS
) -> Report:
    """Return the agent's report on this machine, or on a recorded machine.

    `document` is the JSON text of the expectations, or None to check only health. `source` is the document's name
    in errors. Raises BadInput, which lists every mistake in the document.
    """
    try:
        expectations = None if document is None else parse_expectations(document, source)
    except BadExpectations as error:
        raise BadInput(source, [Problem(*mistake) for mistake in error.problems]) from None
    health = {"xid": xid_table()}
    return check_node(reader, expectations, Identity.of_environment(), deadline_seconds, health=health)


def xid_table() -> Expectation:
    """Return the catalogue's table of Xid errors in the format that the agent reads."""
    table = expected_xids(load_catalog())
    return Expectation(table.value, table.source)


def reader_of(
    replay: Path | None, command: str = "node-check", argument: str = "--replay"
) -> NvmlReader | Recorded:
    """Return a reader for this machine, or for the recording `replay`.

    Raises BadInput that names `command` and `argument`.
    """
    try:
        return NvmlReader() if replay is None else Recorded(read_recording(replay))
    except BadRecording as error:
        found, _, allowed = str(error).partition("; allowed: ")
        fix = "record a machine with gpu-platform node-check --record FILE"
        raise BadInput(command, [Problem(argument, found, allowed, fix)]) from None


def read_document(path: Path) -> str:
    """Return the text of an expectations file. Raises BadInput if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        allowed = "a readable expectations file"
        raise BadInput(str(path), [Problem("(the whole file)", why_unreadable(error), allowed)]) from None
