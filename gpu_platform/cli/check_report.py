"""Converts the findings of `check` to SARIF 2.1.0 or JUnit XML, with their lines in the stack file.

SARIF is the OASIS standard "Static Analysis Results Interchange Format 2.1.0". GitHub shows its results next to
the lines of a pull request. A rule checks resources. A finding about a resource is reported at the pool or team
that declares the resource.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

from gpu_platform.base.errors import BadInput
from gpu_platform.stack import parse_platform
from gpu_platform.stack.environment import Environment, TeamStack
from gpu_platform.stack.loaded import LoadedStack
from gpu_platform.stack.positions import Position, Positions
from gpu_platform.stack.project import version
from policies import Level, PolicyReport, Severity, Violation, rules

ReportFormat = Literal["sarif", "junit"]
STACK_FILE_RULE = "stack-file"
"""Rule for mistakes in the stack file itself."""
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# GitHub sorts and labels findings by the number in `security-severity`.
_SECURITY_SEVERITY = {Severity.CRITICAL: "9.5", Severity.HIGH: "8.0", Severity.MEDIUM: "5.0", Severity.LOW: "2.0"}
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of `check` at a place in the stack file. `kind` is the level of the finding."""

    rule: str
    kind: Literal["error", "warning", "note"]
    message: str
    place: Position


def findings(report: PolicyReport, spec: Environment | TeamStack, positions: Positions) -> tuple[Finding, ...]:
    """Return the violations of a report, and notes about what the rules could not check."""
    found = [
        Finding(
            one.rule,
            "error" if one.level is Level.MANDATORY else "warning",
            str(one),
            positions.of(_origin(one, spec)),
        )
        for one in report.violations
    ]
    found += [
        Finding(gap.rule, "note", f"not checked: {gap}", positions.of(_pool_of(gap.subject, spec) or "policy"))
        for gap in report.not_checked
    ]
    found += [Finding(one.rule, "warning", str(one), positions.of(one.path)) for one in report.idle_exemptions]
    return tuple(found)


def placed(report: PolicyReport, loaded: LoadedStack) -> PolicyReport:
    """Return the report with each violation located at the stack-file declaration that causes it."""
    if not report.violations:
        return report
    spec, positions = parse_platform(loaded.platform, str(loaded.path)), Positions(loaded.path)

    def at_origin(violation: Violation) -> Violation:
        origin = _origin(violation, spec)
        if not origin:
            return violation
        place = positions.of(origin)
        problem = replace(violation.problem, path=origin, line=place.line, column=place.column)
        pool = re.fullmatch(r"pools\[(\d+)\]", origin)
        named = isinstance(spec, Environment) and pool is not None
        return replace(violation, name=spec.pools[int(pool[1])].name if named else violation.name, problem=problem)

    return replace(report, violations=tuple(map(at_origin, report.violations)))


def mistakes(error: BadInput, positions: Positions) -> tuple[Finding, ...]:
    """Return the problems in an invalid stack file as findings."""
    return tuple(
        Finding(STACK_FILE_RULE, "error", str(problem), positions.of(problem.path)) for problem in error.problems
    )


def warned(warnings: Iterable[str], positions: Positions) -> tuple[Finding, ...]:
    """Return warnings about a valid stack file as findings. Each warning begins with a path in the file."""
    return tuple(
        Finding(STACK_FILE_RULE, "warning", text, positions.of(text.partition(": ")[0])) for text in warnings
    )


def _origin(violation: Violation, spec: Environment | TeamStack) -> str:
    """Return the stack-file path of the workload, team or pool that causes a violation.

    The path is empty if the violation concerns the whole file.
    """
    return (
        _team_of(violation.name, spec)
        or _pool_of(violation.subject, spec)
        or _pool_of(violation.name, spec)
        or _pool_of(violation.name.rpartition("-")[0], spec)
        or ""
    )


def _team_of(resource: str, spec: Environment | TeamStack) -> str | None:
    """Return the stack-file path of the team or workload that owns an object.

    `resource` is the logical name of the object, such as `vision/pretrain`.
    """
    team_name, _, name = resource.partition("/")
    teams = (
        [("team", spec.team)]
        if isinstance(spec, TeamStack)
        else [(f"teams[{index}]", team) for index, team in enumerate(spec.teams)]
    )
    for path, team in teams:
        if team.name != team_name:
            continue
        workloads = [index for index, workload in enumerate(team.workloads) if workload.name == name]
        if workloads:
            return f"{path}.workloads[{workloads[0]}]"
        return f"{path}.quota" if name == "quota" else path
    return None


def _pool_of(name: str, spec: Environment | TeamStack) -> str | None:
    if isinstance(spec, TeamStack):
        return None
    return next((f"pools[{index}]" for index, pool in enumerate(spec.pools) if pool.name == name), None)


def as_sarif(found: Iterable[Finding], path: Path, own_rules: Sequence[str] = ()) -> str:
    """Return a SARIF log with one run.

    `path` is the stack file. `own_rules` are modules with the company's rules.
    """
    uri = quote(_shown(path))
    described = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.description},
            "defaultConfiguration": {"level": "error" if rule.level is Level.MANDATORY else "warning"},
            "properties": {
                "security-severity": _SECURITY_SEVERITY[rule.severity],
                "problem.severity": "error" if rule.level is Level.MANDATORY else "warning",
            },
        }
        for rule in rules(own_rules)
    ]
    described.append(
        {
            "id": STACK_FILE_RULE,
            "shortDescription": {"text": "The stack file is valid, and has no warnings."},
            "defaultConfiguration": {"level": "error"},
            "properties": {"problem.severity": "error"},
        }
    )
    order = {str(rule["id"]): index for index, rule in enumerate(described)}
    results = [
        {
            "ruleId": one.rule,
            "ruleIndex": order[one.rule],
            "level": one.kind,
            "message": {"text": one.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri},
                        "region": {"startLine": one.place.line, "startColumn": one.place.column},
                    }
                }
            ],
        }
        for one in found
    ]
    driver = {"name": "gpu-platform", "semanticVersion": version(), "rules": described}
    log: dict[str, Any] = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                # The id contains the path, so that the log of one stack file does not replace the log of another.
                "automationDetails": {"id": f"{uri.rpartition('.')[0]}/"},
                "results": results,
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return json.dumps(log, indent=2)


def as_junit(
    found: Sequence[Finding],
    path: Path,
    own_rules: Sequence[str] = (),
    unevaluated: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return JUnit XML with a test case for each rule. Advisory violations and unchecked rules become skipped
    cases.

    `unevaluated` maps each rule that did not run to the reason.
    """
    shown = _shown(path)
    root = ElementTree.Element("testsuites", name="gpu-platform check")
    names = [STACK_FILE_RULE, *(rule.id for rule in rules(own_rules))]
    suite = ElementTree.SubElement(root, "testsuite", name=shown, tests=str(len(names)))
    failed = skipped = 0
    for name in names:
        case = ElementTree.SubElement(suite, "testcase", name=name, classname=shown, file=shown)
        own = [one for one in found if one.rule == name]
        if not own:
            if name in unevaluated:
                ElementTree.SubElement(case, "skipped", message=unevaluated[name])
                skipped += 1
            continue
        text = "\n".join(f"{shown}:{one.place.line}:{one.place.column}: {one.message}" for one in own)
        broken = any(one.kind == "error" for one in own)
        failed, skipped = failed + broken, skipped + (not broken)
        worst = next((one for one in own if one.kind == "error"), own[0])
        result = ElementTree.SubElement(case, "failure" if broken else "skipped", message=_xml(worst.message))
        result.text = _xml(text)
    suite.set("failures", str(failed))
    suite.set("errors", "0")
    suite.set("skipped", str(skipped))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)


def _shown(path: Path) -> str:
    """Return the path relative to the current folder if the file is inside it, or else the absolute path.

    Code scanning shows findings only at relative paths.
    """
    absolute, here = path.resolve(), Path.cwd().resolve()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()
