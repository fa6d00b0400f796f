"""Prints a validation report on a terminal, and converts it to JUnit XML and CTRF."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from xml.etree import ElementTree

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_platform.base.quantity import duration_text
from validators.agent.outcome import FAIL, NOT_APPLICABLE, PASS, UNKNOWN
from validators.report import NodeReport, ValidationReport
from validators.result import CheckResult

_STYLES: Final = {PASS: "green", FAIL: "bold red", UNKNOWN: "yellow", NOT_APPLICABLE: "dim"}
_CTRF_STATES: Final = ("passed", "failed", "pending", "skipped", "other")
_CTRF_OF: Final = {PASS: "passed", FAIL: "failed"}
_MAX_LISTED_NODES: Final = 4
_RATIOS: Final = {"node": 2, "check": 2, "expected": 3, "observed": 3, "remedy": 4}
_BORDER: Final = 3  # width of a column's border: a line and two spaces
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def print_report(report: ValidationReport, console: Console) -> None:
    """Print the failed and unknown checks, then one line per pool. Nodes with the same result share a row."""
    for verdict in (FAIL, UNKNOWN):
        rows = _rows(_shared(report, verdict))
        if rows:
            room = _room_for_a_word(console.width)
            console.print(_findings(rows, verdict, room))
            for row in rows:
                if _is_split(row.remedy, room):
                    console.print(Text(f"{row.nodes}: {row.remedy}"), soft_wrap=True)
    console.print(_pools(report))
    for node in report.nodes:
        if node.verdict == NOT_APPLICABLE:
            results = "; ".join(f"{check.observed} ({check.expected})" for check in node.checks)
            console.print(Text(f"pool {node.pool}: {results}", style=_STYLES[NOT_APPLICABLE]))
    for note, named in _notes(report).items():
        console.print(Text(f"{_names(named)}: {note}", style="yellow"))
    if report.oldest_seconds is not None:
        age = duration_text(report.oldest_seconds)
        console.print(Text(f"oldest report of a node: {age} (written when a verdict changes, and every 10 min)"))
    console.print(Text(f"Validation: {report.verdict}", style=_STYLES[report.verdict]))


def as_junit(report: ValidationReport) -> str:
    """Return JUnit XML with a test suite for each node and a test case for each check.

    If the result of a check is unknown, its test case is an error if the check is critical, and skipped otherwise.
    """
    root = ElementTree.Element("testsuites", name="gpu-platform validation")
    for node in report.nodes:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(node.title),
            tests=str(len(node.checks)),
            failures=str(sum(check.verdict == FAIL for check in node.checks)),
            errors=str(sum(_is_error(check) for check in node.checks)),
            skipped=str(sum(_is_skipped(check) for check in node.checks)),
            time=f"{node.duration_seconds:.3f}",
        )
        for check in node.checks:
            case = ElementTree.SubElement(
                suite, "testcase", name=_xml(check.name), classname=_xml(f"{node.pool}.{node.title}")
            )
            if check.replacement:
                properties = ElementTree.SubElement(case, "properties")
                ElementTree.SubElement(properties, "property", name="replacement", value=_xml(check.replacement))
            if check.verdict != PASS:
                kind = "failure" if check.verdict == FAIL else "error" if _is_error(check) else "skipped"
                entry = ElementTree.SubElement(case, kind, message=_xml(_message(check)))
                if check.needs_attention:
                    entry.text = _xml(f"{check.source}\n{check.remedy}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_ctrf(report: ValidationReport) -> dict[str, Any]:
    """Return the report in the Common Test Report Format as JSON values, with a test for each check of a node.

    If the result of a check is unknown, its test is `other` if the check is critical, and `skipped` otherwise.
    Checks that are not applicable are also `skipped`. Source: ctrf.io, schema 0.0.0; read 2026-11-25.
    """
    tests = [_ctrf_test(node, check) for node in report.nodes for check in node.checks]
    counts = {status: sum(test["status"] == status for test in tests) for status in _CTRF_STATES}
    started = round(datetime.fromisoformat(report.time).timestamp() * 1000) if report.time else 0
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "results": {
            "tool": {"name": "gpu-platform validate"},
            "summary": {"tests": len(tests), **counts, "start": started, "stop": started},
            "tests": tests,
        },
    }


def _ctrf_test(node: NodeReport, check: CheckResult) -> dict[str, Any]:
    status = "other" if _is_error(check) else "skipped" if _is_skipped(check) else _CTRF_OF[check.verdict]
    entry: dict[str, Any] = {
        "name": f"{node.title}: {check.name}",
        "status": status,
        "duration": 0,
        "suite": [node.pool, node.title],
        "rawStatus": check.verdict,
        "tags": [check.severity],
    }
    if check.verdict != PASS:
        entry["message"] = _message(check)
    if check.needs_attention:
        entry["trace"] = f"{check.source}\n{check.remedy}"
    if check.replacement:
        entry["extra"] = {"replacement": check.replacement}
    return entry


def _is_error(check: CheckResult) -> bool:
    return check.verdict == UNKNOWN and check.severity == "critical"


def _is_skipped(check: CheckResult) -> bool:
    return check.verdict in (UNKNOWN, NOT_APPLICABLE) and not _is_error(check)


def _message(check: CheckResult) -> str:
    if check.verdict == NOT_APPLICABLE:
        return "no expectation" + (f"; observed {check.observed}" if check.observed else "")
    return f"{check.verdict}: expected {check.expected}, observed {check.observed}"


def _xml(text: str) -> str:
    """Replace the characters that XML 1.0 does not allow."""
    return _NOT_XML.sub("�", text)


def _shared(report: ValidationReport, verdict: str) -> dict[CheckResult, list[NodeReport]]:
    """Return the checks with the given verdict, each with all nodes that have the same result."""
    rows: dict[CheckResult, list[NodeReport]] = {}
    for node in report.nodes:
        for check in node.checks:
            if check.verdict == verdict:
                rows.setdefault(check, []).append(node)
    return rows


@dataclass(frozen=True, slots=True)
class _Row:
    """One row in the table of failed or unknown checks."""

    nodes: str
    checks: str
    expected: RenderableType
    observed: str
    remedy: str


def _rows(shared: Mapping[CheckResult, Sequence[NodeReport]]) -> list[_Row]:
    """Return a row for each check. Checks that are unknown for the same reason on the same nodes share a row."""
    alike: dict[tuple[str, ...], list[CheckResult]] = {}
    for check, nodes in shared.items():
        apart = ("softer" if _is_softer(check) else "") if check.verdict == UNKNOWN else check.name
        alike.setdefault((_names(nodes), check.observed, check.remedy, apart), []).append(check)
    return [
        _Row(
            nodes=nodes,
            checks=_name(checks),
            expected=_with_source(checks[0]) if len(checks) == 1 else f"{len(checks)} checks",
            observed=observed,
            remedy=checks[0].remedy,
        )
        for (nodes, observed, *_), checks in alike.items()
    ]


def _room_for_a_word(width: int) -> int:
    """Return the length of the longest word that fits into the remedy column without a break."""
    return width * _RATIOS["remedy"] // sum(_RATIOS.values()) - _BORDER


def _is_split(remedy: str, room: int) -> bool:
    """Return whether the table would break a word of the remedy. Broken commands cannot be copied."""
    return any(len(word) > room for word in remedy.split())


def _notes(report: ValidationReport) -> dict[str, list[NodeReport]]:
    """Return the notes of the report, each with its nodes."""
    found: dict[str, list[NodeReport]] = {}
    for node in report.nodes:
        for note in node.notes:
            found.setdefault(note, []).append(node)
    return found


def _findings(rows: Sequence[_Row], verdict: str, room: int) -> Table:
    table = Table(title=verdict, title_style=_STYLES[verdict], title_justify="left", show_lines=True)
    for header, ratio in _RATIOS.items():
        table.add_column(header, ratio=ratio, overflow="fold")
    for row in rows:
        remedy = "below this table" if _is_split(row.remedy, room) else row.remedy
        table.add_row(Text(row.nodes), Text(row.checks), row.expected, Text(row.observed), Text(remedy))
    return table


def _is_softer(check: CheckResult) -> bool:
    """Return whether a check is unknown but does not fail the node, because it is not critical."""
    return check.verdict == UNKNOWN and check.severity != "critical"


def _name(checks: Sequence[CheckResult]) -> str:
    """Return the names of a row's checks, with their severity if they do not fail the node."""
    named = ", ".join(check.name for check in checks)
    if not _is_softer(checks[0]):
        return named
    levels = " or ".join(dict.fromkeys(check.severity for check in checks))
    return f"{named} ({levels}: {'does' if len(checks) == 1 else 'do'} not fail the node)"


def _with_source(check: CheckResult) -> RenderableType:
    expected = Text(check.expected)
    return Group(expected, Text(f"({check.source})", style="dim")) if check.source else expected


def _names(nodes: Sequence[NodeReport]) -> str:
    named = ", ".join(node.title for node in nodes[:_MAX_LISTED_NODES])
    more = len(nodes) - _MAX_LISTED_NODES
    return f"{named} and {more} more" if more > 0 else named


def _pools(report: ValidationReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for header in ("pool", "machine type"):
        table.add_column(header)
    for header in ("nodes", PASS, FAIL, UNKNOWN, "checks passed"):
        table.add_column(header, justify="right")
    for pool in dict.fromkeys(node.pool for node in report.nodes):
        everything = [node for node in report.nodes if node.pool == pool]
        members = [node for node in everything if node.node]
        checks = [check for node in members for check in node.checks if check.verdict != NOT_APPLICABLE]
        table.add_row(
            Text(pool),
            Text(everything[0].machine_type),
            str(len(members)),
            *(str(sum(node.verdict == verdict for node in members)) for verdict in (PASS, FAIL, UNKNOWN)),
            f"{sum(check.verdict == PASS for check in checks)} of {len(checks)}",
        )
    return table
