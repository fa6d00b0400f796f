"""Command line of the node agent. The exit codes are 0 for pass, 1 for fail, 2 for bad input and 3 for unknown."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from validators.agent import AGENT_VERSION
from validators.agent.api_server import ApiError, ApiServer
from validators.agent.cordon import OnFailure
from validators.agent.expectations import BadExpectations, Expectations, parse_expectations
from validators.agent.history import Remembering
from validators.agent.hold import Holding
from validators.agent.mark import NodeMarks
from validators.agent.mig_change import mig_change
from validators.agent.publish import publish
from validators.agent.reading import READ_COMMAND, NvmlReader, write_snapshot
from validators.agent.recording import BadRecording, Recorded, read_recording, write_recording
from validators.agent.report import Identity, Reader, Report, as_text, check_node, exit_code
from validators.agent.resets import SeenResets
from validators.agent.serve import REPUBLISH_SECONDS, Publisher, Readiness, serve
from validators.agent.unreadable import why_unreadable
from validators.agent.xid_check import XidTable

DEADLINE_SECONDS = 60.0  # without persistence mode, NVML first initialises every GPU, which takes seconds per GPU
_BAD_INPUT = 2
_UNKNOWN = 3
_SLACK_SECONDS = 30.0  # extra time for the checks and for publishing, on top of the time for reading NVML


def main(arguments: Sequence[str], reader: Reader | None = None) -> int:
    """Run a command and return its exit code. `reader` replaces the default NVML reader."""
    if list(arguments) == [READ_COMMAND]:
        write_snapshot()
        return 0
    parsed = _parser().parse_args(arguments, argparse.Namespace(reader=reader))
    try:
        expectations = _read(parsed.expect) if parsed.expect else None
    except BadExpectations as error:
        print(error, file=sys.stderr)
        return _BAD_INPUT
    except (OSError, UnicodeDecodeError) as error:
        why = why_unreadable(error)
        print(f"{parsed.expect}: {why}; allowed: a readable expectations file", file=sys.stderr)
        return _BAD_INPUT
    return parsed.run(parsed, expectations)


def _check(parsed: argparse.Namespace, expectations: Expectations | None) -> int:
    identity = Identity.of_environment()
    try:
        reader = Recorded(read_recording(Path(parsed.replay))) if parsed.replay else NvmlReader()
    except BadRecording as error:
        print(error, file=sys.stderr)
        return _BAD_INPUT
    change = mig_change(expectations, identity) if parsed.publish else None
    if change:
        change.why_wait()  # only reads the node's label, because a single pass does not wait
    config = change.config if change else ""
    report = check_node(reader, expectations, identity, parsed.deadline, mig_config=config)
    code = exit_code(report)
    if parsed.record:
        write_recording(Path(parsed.record), reader.journal, with_serials=parsed.with_serials)
    if parsed.publish:
        try:
            server = ApiServer.of_environment()
            publish(report, identity, server)
            NodeMarks(identity, server, Holding.of_environment(), OnFailure.of_environment()).set(report)
        except ApiError as error:
            print(f"the report could not be published: {error}", file=sys.stderr)
            code = code or _UNKNOWN  # a node whose report was not published does not pass
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # lets `check | head` end without a traceback
    print(json.dumps(report, indent=2, ensure_ascii=False) if parsed.format == "json" else as_text(report))
    return code


def _serve(parsed: argparse.Namespace, expectations: Expectations | None) -> int:
    identity = Identity.of_environment()
    xids = expectations.expect.get("xid") if expectations else None
    reader: Reader = parsed.reader or Remembering(NvmlReader(), XidTable.of(xids))

    change = mig_change(expectations, identity)
    resets = SeenResets(identity, reader) if isinstance(reader, Remembering) else None

    def check() -> Report:
        if resets:
            resets.recall()
        config = change.config if change else ""
        return check_node(reader, expectations, identity, parsed.deadline, mig_config=config)

    marks: list[NodeMarks] = []

    def publish_all(report: Report) -> None:
        server = ApiServer.of_environment()
        publish(report, identity, server)
        if not marks:
            marks.append(NodeMarks(identity, server, Holding.of_environment(), OnFailure.of_environment()))
        marks[0].set(report)
        if resets:
            resets.keep(server)

    # A node that keeps failing must be cordoned in time, even if its report does not change.
    most = OnFailure.of_environment().failing_seconds or REPUBLISH_SECONDS
    publisher = Publisher(publish_all, republish_seconds=min(REPUBLISH_SECONDS, most))
    readiness = Readiness(parsed.interval + parsed.deadline + _SLACK_SECONDS)
    why_wait = change.why_wait if change else lambda: ""
    serve(check, publisher, readiness, parsed.port, parsed.interval, why_wait)
    return 0


def _read(path: str) -> Expectations:
    return parse_expectations(Path(path).read_text("utf-8"), path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.pyz", description="Checks the GPUs of this node.")
    parser.add_argument("--version", action="version", version=AGENT_VERSION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = _command(commands, "check", "check once and print the report", _check, expect_required=False)
    check.add_argument("--format", choices=("text", "json"), default="text")
    check.add_argument("--publish", action="store_true", help="also apply the report as a ConfigMap")
    recording = check.add_mutually_exclusive_group()
    recording.add_argument("--record", metavar="FILE", help="also write NVML's answers to a file")
    recording.add_argument("--replay", metavar="FILE", help="check a recorded node instead of this one")
    check.add_argument("--with-serials", action="store_true", help="record UUIDs and serial numbers unchanged")
    serving = _command(commands, "serve", "check periodically and serve /ready, /live and /report", _serve)
    serving.add_argument("--port", type=int, default=8080)
    serving.add_argument("--interval", type=seconds, default=30.0, metavar="SECONDS")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage] - it has no public name
    name: str,
    what: str,
    run: Callable[[argparse.Namespace, Expectations | None], int],
    *,
    expect_required: bool = True,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=what)
    command.add_argument(
        "--expect",
        metavar="FILE",
        required=expect_required,
        help="expectations as JSON; without the file, only health is checked",
    )
    command.add_argument(
        "--deadline",
        type=seconds,
        default=DEADLINE_SECONDS,
        metavar="SECONDS",
        help="time limit for reading NVML",
    )
    command.set_defaults(run=run)
    return command


def seconds(text: str) -> float:
    """Parse a positive number of seconds. Raises ValueError for any other text."""
    found = float(text)
    if not 0 < found < float("inf"):
        raise ValueError(text)
    return found
