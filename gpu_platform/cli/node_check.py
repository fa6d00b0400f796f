"""`gpu-platform node-check`: run the node agent once on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from gpu_platform.base.errors import BadInput, ExitCode, Problem
from gpu_platform.catalog import Catalog, MachineType, load_catalog
from gpu_platform.catalog.unknown_machine import unknown_machine_type
from gpu_platform.cli.options import not_with, only_with
from gpu_platform.planning.expectations import expectations_for_machine, expected_matrix
from validators.agent import topology
from validators.agent.cli import DEADLINE_SECONDS
from validators.agent.history import Remembering
from validators.agent.recording import write_recording
from validators.agent.report import Report, as_text, content_of, exit_code
from validators.agent.snapshot import Snapshot
from validators.agent.xid_check import XidTable
from validators.this_node import check_this_node, read_document, reader_of, xid_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordings:
    """Files with recorded NVML responses. `record` is a file to write. `replay` is a file to read instead of this
    machine.
    """

    record: Path | None = None
    replay: Path | None = None
    with_serials: bool = False


def check_node(
    expect: Path | None,
    machine: str | None,
    recordings: Recordings,
    *,
    to_json: bool,
    watch_seconds: float | None = None,
) -> ExitCode:
    """Compare this machine with a file of expectations or a machine type, or check only its health.

    With `watch_seconds`, repeat the check until interrupted, and print a report when the verdict changes.
    """
    _check_options(expect, machine, recordings, watch_seconds)
    if expect is not None:
        document, source = read_document(expect), str(expect)
    elif machine is not None:
        document, source = document_for_machine(machine, load_catalog()), f"machine type {machine}"
    else:
        document, source = None, "no expectations"
    reader = Remembering(reader_of(recordings.replay), XidTable.of(xid_table()))
    report = check_this_node(document, source, reader)
    if recordings.record is not None:
        try:
            write_recording(recordings.record, reader.journal, with_serials=recordings.with_serials)
        except OSError as error:
            problem = Problem("--record", str(error), "a file that can be written")
            raise BadInput("node-check", [problem]) from None
    _print(report, to_json=to_json)
    try:
        while watch_seconds is not None:
            reader.wait(watch_seconds)
            earlier, report = report, check_this_node(document, source, reader)
            if content_of(report) != content_of(earlier):
                _print(report, to_json=to_json)
    except KeyboardInterrupt:
        pass
    return ExitCode(exit_code(report))


def print_topology(
    machine: str | None, recordings: Recordings, *, expect: Path | None, watch_seconds: float | None, to_json: bool
) -> ExitCode:
    """Print how the GPUs of this machine are connected, and the differences from the machine type.

    Raises BadInput for options that only a check uses.
    """
    _check_options_of_topology(recordings, expect, watch_seconds)
    catalog = load_catalog()
    expected = None if machine is None else expected_matrix(_machine(machine, catalog), catalog)
    snapshot = reader_of(recordings.replay).read(DEADLINE_SECONDS)
    if snapshot.failure:
        print(f"{snapshot.failure}\n{snapshot.remediation}", file=sys.stderr)
        return ExitCode.UNKNOWN
    if to_json:
        print(json.dumps(_topology_json(snapshot, expected), indent=2))
    else:
        print(f"{topology.as_text(snapshot, expected)}\n\n{topology.LEGEND}")
    return ExitCode.GOOD


def _topology_json(snapshot: Snapshot, expected: topology.Matrix | None) -> dict[str, object]:
    """Return the topology matrix, the expected matrix if a machine type is given, and the best sets of GPUs."""
    found = topology.matrix(snapshot)
    return {
        "gpus": [{"index": gpu.index, "numaNode": gpu.numa_node.value} for gpu in snapshot.gpus],
        "matrix": found,
        "expected": expected,
        "bestSets": {str(size): topology.best_sets(found, size) for size in (2, 4) if size <= len(found)},
    }


def _print(report: Report, *, to_json: bool) -> None:
    print(json.dumps(report["checks"], indent=2) if to_json else as_text(report), flush=True)


def _check_options(
    expect: Path | None, machine: str | None, recordings: Recordings, watch_seconds: float | None
) -> None:
    """Raise BadInput for options that exclude each other."""
    pairs = (
        ("--machine", repr(machine), "--expect", expect is not None and machine is not None),
        ("--replay", str(recordings.replay), "--record", bool(recordings.record and recordings.replay)),
        ("--replay", str(recordings.replay), "--watch", bool(watch_seconds and recordings.replay)),
    )
    problems = [
        Problem(option, found, f"only one of {other} and {option}", "remove one of these options")
        for option, found, other, both in pairs
        if both
    ]
    if recordings.with_serials and recordings.record is None:
        problems.append(only_with("--with-serials", "set", "--record FILE"))
    if problems:
        raise BadInput("node-check", problems)


def _check_options_of_topology(recordings: Recordings, expect: Path | None, watch_seconds: float | None) -> None:
    """Raise BadInput for options that `--topology` would ignore."""
    given = (
        ("--expect", str(expect), expect is not None),
        ("--record", str(recordings.record), recordings.record is not None),
        ("--with-serials", "set", recordings.with_serials),
        ("--watch", f"{watch_seconds or 0:g}", watch_seconds is not None),
    )
    problems = [not_with(option, found, "--topology") for option, found, is_given in given if is_given]
    if problems:
        raise BadInput("node-check", problems)


def document_for_machine(name: str, catalog: Catalog) -> str:
    """Return the expectations of a machine type as JSON. Raises BadInput if the type is not in the catalogue."""
    return json.dumps(expectations_for_machine(_machine(name, catalog), catalog).to_json())


def _machine(name: str, catalog: Catalog) -> MachineType:
    machine = catalog.machine_types.get(name)
    if machine is None:
        raise BadInput("node-check", [Problem("--machine", *unknown_machine_type(name, catalog))])
    if not machine.has_gpus:
        allowed = "a machine type with GPUs: the node agent reads only GPUs"
        raise BadInput("node-check", [Problem("--machine", repr(name), allowed, "remove --machine")])
    return machine
