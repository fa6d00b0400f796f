"""The rules all together: their list, their configuration, and the judgement of a stack's resource records."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpu_platform.catalog import load_catalog
from gpu_platform.errors import BadInput, Problem, did_you_mean
from gpu_platform.spec.problems import problems_of
from policies import mig, nodes, plugins, sharing, tenants, workloads
from policies._evaluate import Judgement, Violation, judge
from policies._rule import Level, Rule, Settings
from policies._stack import Stack

_RULES: tuple[Rule[Any, Any], ...] = (
    *sharing.RULES,
    *mig.RULES,
    *nodes.RULES,
    *plugins.RULES,
    *workloads.RULES,
    *tenants.RULES,
)
_ALL = "all"
_LEVEL_KEY = "enforcementLevel"


@dataclass(frozen=True, slots=True)
class Configured:
    """A rule with the level and the settings that it judges by."""

    rule: Rule[Any, Any]
    level: Level
    settings: Settings


def rules() -> tuple[Rule[Any, Any], ...]:
    """Return every rule, in the order in which they judge."""
    return _RULES


def configure(config: Mapping[str, Any], source: str = "policy configuration") -> tuple[Configured, ...]:
    """Return every rule as `config` sets it, in the form that CrossGuard takes.

    `{"all": LEVEL, "<rule id>": LEVEL | {"enforcementLevel": LEVEL, ...the rule's settings}}`; a rule's own
    level wins over `all`, and that over the rule's default. Raises BadInput with every mistake, named `source`.
    """
    problems: list[Problem] = []
    known = [rule.id for rule in _RULES]
    for key in config:
        if key not in (_ALL, *known):
            fix = did_you_mean(key, known) or "remove it"
            problems.append(Problem(key, f"unknown rule {key!r}", f"{_ALL}, " + ", ".join(known), fix))
    all_level, all_settings = _split(_ALL, config.get(_ALL), problems)
    problems += [
        Problem(f"{_ALL}.{key}", f"a setting {key!r} for all rules", _LEVEL_KEY, "set it at each rule")
        for key in all_settings
    ]
    configured: list[Configured] = []
    for rule in _RULES:
        level, given = _split(rule.id, config.get(rule.id), problems)
        settings = parse_settings(rule, given, problems)
        configured.append(Configured(rule, level or all_level or rule.level, settings))
    if problems:
        raise BadInput(source, problems)
    return tuple(configured)


@cache
def _adapter(model: type[Settings]) -> TypeAdapter[Settings]:
    return TypeAdapter(model)


def parse_settings(rule: Rule[Any, Any], given: Mapping[str, Any], problems: list[Problem]) -> Settings:
    """Return a rule's settings; records what is wrong with them and then returns the defaults."""
    model: type[Settings] = rule.settings
    adapter = _adapter(model)
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        found = problems_of(error, given, adapter)
        problems += [replace(problem, path=f"{rule.id}.{problem.path}") for problem in found]
        return model()


def examine(records: Iterable[object], config: Mapping[str, Any], today: datetime.date) -> Judgement:
    """Judge resource records by every rule that `config` does not disable. Raises BadInput for the config."""
    stack = Stack.from_records(records, load_catalog())
    found = [
        judge(entry.rule, stack, entry.settings, entry.level, today)
        for entry in configure(config)
        if entry.level is not Level.DISABLED
    ]
    return Judgement(
        violations=tuple(violation for judgement in found for violation in judgement.violations),
        exempted=tuple(violation for judgement in found for violation in judgement.exempted),
        undecided=tuple(undecided for judgement in found for undecided in judgement.undecided),
    )


def analyze(records: Iterable[object], config: Mapping[str, Any], today: datetime.date) -> list[Violation]:
    """Return the violations of resource records. Raises BadInput for the config."""
    return list(examine(records, config, today).violations)


def _split(key: str, given: object, problems: list[Problem]) -> tuple[Level | None, Mapping[str, Any]]:
    """Return the level and the settings of one key of the configuration."""
    if given is None:
        return None, {}
    if isinstance(given, Mapping):
        settings = {name: value for name, value in given.items() if name != _LEVEL_KEY}
        level = given.get(_LEVEL_KEY)
        return (None if level is None else _level(f"{key}.{_LEVEL_KEY}", level, problems)), settings
    return _level(key, given, problems), {}


def _level(path: str, given: object, problems: list[Problem]) -> Level | None:
    try:
        return Level(given)
    except ValueError:
        levels = [level.value for level in Level]
        fix = did_you_mean(str(given), levels) or f"write {Level.ADVISORY}"
        problems.append(Problem(path, repr(given), "one of " + ", ".join(levels), fix))
        return None
