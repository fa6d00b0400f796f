"""Recordings of NVML's answers. A recording is written on a node, and any machine can check it.

A recording contains the answer to each call, so that it is checked in the same way as a node. UUIDs and serial
numbers are replaced unless the user requests them. Equal values have equal replacements.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from validators.agent import AGENT_VERSION
from validators.agent.calls import DID_NOT_RETURN, ENDED_THE_PROCESS, Call, Journal
from validators.agent.outcome import CRASH_REMEDY, HANG_REMEDY
from validators.agent.snapshot import Snapshot
from validators.agent.unreadable import why_unreadable

VERSION = 2  # since version 2, recordings also contain GPU utilisation
_LOST = {DID_NOT_RETURN: "did not return", ENDED_THE_PROCESS: "ended the reading process"}
_IDENTITY = ("nvmlDeviceGetUUID", "nvmlDeviceGetSerial")


_FABRIC = "nvmlDeviceGetGpuFabricInfoV"  # in the answer to this call, the last value is the UUID of the rack


class BadRecording(Exception):
    """The file is not a recording. The message contains the place, the value found and the allowed values."""


def to_recording(journal: Journal, *, with_serials: bool = False) -> dict[str, Any]:
    """Convert NVML's answers to the calls of one pass into the JSON format of a recording."""
    replaced: dict[tuple[str, str], str] = {}
    answers: dict[str, list[Any]] = {}
    for text, (value, problem) in journal.answers.items():
        function = Call.parse(text).function
        if function in _IDENTITY and value is not None and not with_serials:
            number = sum(known == function for known, _ in replaced)
            value = replaced.setdefault((function, value), f"{function.removeprefix('nvmlDeviceGet')}-{number}")
        elif function == _FABRIC and value is not None and not with_serials and value[-1].strip("0"):
            number = sum(known == function for known, _ in replaced)
            value = [*value[:-1], replaced.setdefault((function, value[-1]), f"{number + 1:032x}")]
        answers[text] = [value, problem]
    return {"version": VERSION, "agent_version": AGENT_VERSION, "answers": answers}


def write_recording(path: Path, journal: Journal, *, with_serials: bool = False) -> None:
    """Write NVML's answers to the calls of one pass to a recording file."""
    path.write_text(json.dumps(to_recording(journal, with_serials=with_serials), indent=1) + "\n", "utf-8")


def read_recording(path: Path) -> Journal:
    """Return the answers in a recording file. Raises BadRecording if the file cannot be read or is not a
    recording.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecording(f"{path}: {why_unreadable(error)}; allowed: a readable recording") from None
    return parse_recording(text, str(path))


def parse_recording(text: str, source: str) -> Journal:
    """Parse a recording and return its answers.

    `source` is the file's name in errors. Raises BadRecording if the text is not a recording.
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise BadRecording(f"{source}: found text that is not JSON ({error}); allowed: a recording") from None
    content = _object(data)
    answers = _object(content.get("answers"))
    if content.get("version") != VERSION or not answers:
        raise BadRecording(
            f"{source}: found JSON without version {VERSION} and answers; allowed: a file from node-check --record"
        )
    for call, answer in answers.items():
        if not _is_answer(answer):
            raise BadRecording(f"{source}: answers.{call}: found {json.dumps(answer)}; allowed: [value, problem]")
    return Journal(answers)


def _object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}


def _is_answer(value: Any) -> bool:  # noqa: ANN401 - JSON
    parts = cast("list[object]", value) if isinstance(value, list) else []
    return len(parts) == 2 and isinstance(parts[1], str)


class Recorded:
    """Reads Snapshots from a recording, as NvmlReader does from a node."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def read(self, deadline_seconds: float) -> Snapshot:
        """Return the Snapshot of the recorded node."""
        del deadline_seconds
        from validators.agent.nvml import read_nvml

        snapshot = read_nvml(self.journal, lambda _: None, live=False)
        lost = {text: problem for text, (_, problem) in self.journal.answers.items() if problem in _LOST}
        if not lost:
            return snapshot
        unanswered = tuple(f"{text} {_LOST[problem]}" for text, problem in lost.items())
        remedy = HANG_REMEDY if DID_NOT_RETURN in lost.values() else CRASH_REMEDY
        return replace(snapshot, unanswered=unanswered, remediation=snapshot.remediation or remedy)
