"""Reads a trace of jobs, and detects its format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from extensions.capacity.rehearsal import Trace
from extensions.capacity.trace_sources.forms import read_philly, read_table
from extensions.capacity.trace_sources.problems import TraceProblems
from gpu_platform.base.errors import BadInput, Problem
from gpu_platform.base.quantity import bytes_text

MOST_BYTES: Final = 1024 * 1024 * 1024
_WHOLE: Final = "the whole file"


def read_trace(path: Path) -> Trace:
    """Read a trace. Raises BadInput, which lists the first problems with their places."""
    problems = TraceProblems()
    text = _text(path)
    trace: Trace | None = None
    if text.lstrip()[:1] in ("[", "{"):
        try:
            trace = read_philly(json.loads(text), problems)
        except (ValueError, RecursionError) as error:
            problems.add(_WHOLE, str(error), "JSON in the form of Philly's cluster_job_log", "name another file")
    else:
        trace = read_table(text, problems)
    if trace is not None and not trace.entries and not problems.all():
        left = ", ".join(f"{count} {reason}" for reason, count in trace.left_out.items()) or "no rows"
        problems.add(_WHOLE, left, "at least one job with GPUs", "name a file with jobs")
    if trace is None or problems.all():
        raise BadInput(str(path), problems.all())
    return trace


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            found = bytes_text(size)
            raise BadInput(str(path), [Problem(_WHOLE, found, f"at most {bytes_text(MOST_BYTES)}", "cut it")])
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        found = error.strerror or str(error) if isinstance(error, OSError) else "bytes that are not UTF-8 text"
        raise BadInput(
            str(path), [Problem(_WHOLE, found, "a readable UTF-8 file", "give the path of a file")]
        ) from None
    if text.startswith("version https://git-lfs.github.com/"):
        fix = "fetch the file itself with `git lfs pull`"
        raise BadInput(str(path), [Problem(_WHOLE, "a Git LFS pointer", "a trace", fix)])
    if "\x00" in text:
        raise BadInput(str(path), [Problem(_WHOLE, "bytes that are not text", "a readable UTF-8 file")])
    return text
