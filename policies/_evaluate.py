"""Evaluates one rule for a stack. The result lists violations, exempted violations, and subjects that could not be
checked.
"""

from __future__ import annotations

import datetime
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from gpu_platform.base.errors import BadInput, Problem
from policies._inputs import NotVisible
from policies._own import OWN_ID
from policies._rule import Breach, Exemption, Level, Remedy, Rule, Settings, Severity, Subject
from policies._stack import Resource, Stack


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of one rule in one place.

    `resource` is the URN. `also` are the URNs of other resources with the same violation, such as the other nodes
    of a pool. `subject` is the name of the checked pool, workload, config or namespace. `exemption` contains
    the reason, owner and last day of the exemption that covers the violation, even if the exemption has ended.
    """

    rule: str
    severity: Severity
    level: Level
    resource: str
    type: str
    name: str
    subject: str
    problem: Problem
    also: tuple[str, ...] = ()
    exemption: str = ""

    def __str__(self) -> str:
        others = f" (and {len(self.also)} more)" if self.also else ""
        note = f" [{self.exemption}]" if self.exemption else ""
        return f"{self.name}{others}: {self.problem}{note}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the violation and of its problem as plain JSON values."""
        fields = asdict(self)
        problem = fields.pop("problem")
        del problem["line"], problem["column"]  # always 0, because rules read no stack file
        return {**fields, "also": list(self.also), **problem}


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A subject that a rule could not check, because a value at `path` of `resource` is not visible."""

    rule: str
    resource: str
    subject: str
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.where}"

    @property
    def where(self) -> str:
        """Place of the value that is not visible, and the reason."""
        return ": ".join(part for part in (self.resource.rpartition("::")[2], self.path, self.why) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class IdleExemption:
    """An exemption that has ended or covers no violation. `index` is its index in `exempt`."""

    rule: str
    index: int
    resource: str
    owner: str
    why: str

    def __str__(self) -> str:
        return f"exemption of {self.resource!r} from {self.rule} ({self.owner}): {self.why}"

    @property
    def path(self) -> str:
        """Path of the exemption in the `policy` of a stack file."""
        return f"policy.rules.{self.rule}.exempt[{self.index}]"


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The results of rules for a stack. A subject that was not checked is neither a violation nor a pass."""

    violations: tuple[Violation, ...] = ()
    exempted: tuple[Violation, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    idle_exemptions: tuple[IdleExemption, ...] = ()

    @property
    def gaps(self) -> tuple[tuple[str, str], ...]:
        """The rules that could not check a value, each with the reason. Each value that is not visible appears
        once.
        """
        by_value: dict[tuple[str, str, str], list[NotChecked]] = {}
        for gap in self.not_checked:
            by_value.setdefault((gap.resource, gap.path, gap.why), []).append(gap)
        return tuple(
            (", ".join(dict.fromkeys(gap.rule for gap in gaps)), str(gaps[0]) if len(gaps) == 1 else gaps[0].where)
            for gaps in by_value.values()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "version": 1,
            "violations": [violation.to_json() for violation in self.violations],
            "exempted": [violation.to_json() for violation in self.exempted],
            "not_checked": [gap.to_json() for gap in self.not_checked],
            "idle_exemptions": [asdict(exemption) for exemption in self.idle_exemptions],
        }


def evaluate_rule(
    rule: Rule[Any, Any], stack: Stack, settings: Settings, level: Level, today: datetime.date
) -> PolicyReport:
    """Return the result of one rule. An exemption applies up to and including its last day.

    Raises BadInput if a company rule raises an error other than NotVisible.
    """
    violations: dict[tuple[str, Problem, str], Violation] = {}
    exempted: dict[tuple[str, Problem, str], Violation] = {}
    not_checked: dict[tuple[str, str, str], NotChecked] = {}
    covered: set[str] = set()
    for subject in _guarded(rule, rule.subjects(stack)):
        try:
            for breach in _guarded(rule, rule.check(stack, subject, settings)):
                owner = stack.find(breach.at.owner) or subject.resource
                names = {*_names(owner), *_names(subject.resource), subject.name}
                covered |= names
                covering = _exemption(settings, names)
                applies = covering is not None and covering.until >= today
                violation = _violation(rule, level, owner, subject, breach, _note(covering, today))
                group = subject.group if owner is subject.resource else owner.urn
                into = exempted if applies else violations
                _merge(into, (group, violation.problem, violation.exemption), violation)
        except NotVisible as gap:
            found = NotChecked(rule.id, gap.owner, subject.name, gap.path, gap.why)
            not_checked.setdefault((subject.group, gap.path, gap.why), found)
    gaps = tuple(not_checked.values())
    idle = tuple(_idle(rule, settings, covered, today, sure=not gaps))
    return PolicyReport(tuple(violations.values()), tuple(exempted.values()), gaps, idle)


_Item = TypeVar("_Item")


def _guarded(rule: Rule[Any, Any], items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the subjects or breaches of a rule. If a company rule raises an error other than NotVisible, raise
    BadInput with the line of the error.
    """
    try:
        yield from items
    except NotVisible:
        raise
    except Exception as error:
        if not re.fullmatch(OWN_ID, rule.id):
            raise  # a mistake in the pack itself; keep the traceback
        frames = traceback.extract_tb(error.__traceback__)
        file = rule.check.__code__.co_filename
        last = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
        raise BadInput(
            f"{last.filename}:{last.lineno}",
            [
                Problem(
                    f"rule {rule.id}",
                    f"{type(error).__name__}: {error}",
                    "a rule that can check any resources of a stack",
                    f"correct line {last.lineno}: {last.line}" if last.line else "",
                )
            ],
        ) from error


def _idle(
    rule: Rule[Any, Any], settings: Settings, covered: set[str], today: datetime.date, *, sure: bool
) -> Iterator[IdleExemption]:
    """Yield exemptions that have ended or cover no violation.

    `sure` means that the rule could check everything.
    """
    for index, one in enumerate(settings.exempt):
        if one.until < today:
            why = f"ended {one.until.isoformat()}; remove it, or set a later day"
        elif sure and not one.covers(covered):
            why = "covers no violation; remove it, or correct its resource"
        else:
            continue
        yield IdleExemption(rule.id, index, one.resource, one.owner, why)


def remedies_of(
    rule: Rule[Any, Any], stack: Stack, settings: Settings, today: datetime.date
) -> tuple[Remedy, ...]:
    """Return the remedies of a rule for a stack, except for exempted resources. Raises NotVisible."""
    return tuple(
        breach.remedy
        for subject in rule.subjects(stack)
        for breach in rule.check(stack, subject, settings)
        if breach.remedy is not None and not _is_exempted(settings, subject, today)
    )


def _is_exempted(settings: Settings, subject: Subject, today: datetime.date) -> bool:
    covering = _exemption(settings, {*_names(subject.resource), subject.name})
    return covering is not None and covering.until >= today


def _violation(
    rule: Rule[Any, Any], level: Level, owner: Resource, subject: Subject, breach: Breach, exemption: str
) -> Violation:
    return Violation(
        rule=rule.id,
        severity=rule.severity,
        level=level,
        resource=owner.urn,
        type=owner.type,
        name=owner.name,
        subject=subject.name,
        problem=Problem(breach.at.path, breach.found, breach.allowed, breach.fix),
        exemption=exemption,
    )


def _merge(into: dict[tuple[str, Problem, str], Violation], key: tuple[str, Problem, str], one: Violation) -> None:
    first = into.setdefault(key, one)
    if one.resource not in (first.resource, *first.also):
        into[key] = replace(first, also=(*first.also, one.resource))


def _exemption(settings: Settings, names: set[str]) -> Exemption | None:
    """Return the exemption that covers one of `names` and ends last."""
    covering = [exemption for exemption in settings.exempt if exemption.covers(names)]
    return max(covering, key=lambda exemption: exemption.until, default=None)


def _note(exemption: Exemption | None, today: datetime.date) -> str:
    if exemption is None:
        return ""
    ended = "exempt until" if exemption.until >= today else "exemption ended"
    return f"{ended} {exemption.until.isoformat()}, {exemption.owner}: {exemption.reason}"


def _names(resource: Resource) -> Iterator[str]:
    yield resource.urn
    yield resource.name
    yield resource.object_name
    if resource.namespace:
        yield f"{resource.namespace}/{resource.object_name}"
