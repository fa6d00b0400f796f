"""Lists and configures all rules, and evaluates them for the resource records of a stack."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from pydantic import Field, TypeAdapter, ValidationError, create_model

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from gpu_platform.catalog import load_catalog
from gpu_platform.stack.problems import found_text, meant_option, problems_of
from policies import (
    alignment,
    capacity,
    fabric,
    isolation,
    jobs,
    karpenter,
    mig,
    nodes,
    objects,
    plugins,
    pod_limits,
    queues,
    routes,
    scaling,
    sharing,
    software,
    teams,
    workloads,
)
from policies._evaluate import PolicyReport, Violation, evaluate_rule
from policies._own import own_rules
from policies._rule import Level, Rule, Settings
from policies._stack import Stack

_RULES: tuple[Rule[Any, Any], ...] = (
    *sharing.RULES,
    *mig.RULES,
    *nodes.RULES,
    *alignment.RULES,
    *plugins.RULES,
    *workloads.RULES,
    *isolation.RULES,
    *pod_limits.RULES,
    *routes.RULES,
    *objects.RULES,
    *jobs.RULES,
    *queues.RULES,
    *karpenter.RULES,
    *fabric.RULES,
    *teams.RULES,
    *capacity.RULES,
    *software.RULES,
    *scaling.RULES,
)
_ALL = "all"
_LEVEL_KEY = "enforcementLevel"


@dataclass(frozen=True, slots=True)
class Configured:
    """A rule with its level and settings."""

    rule: Rule[Any, Any]
    level: Level
    settings: Settings


def rules(own: Sequence[str] = ()) -> tuple[Rule[Any, Any], ...]:
    """Return every rule in the order of evaluation. `own` names modules with company rules.

    Raises BadInput if a module cannot be loaded.
    """
    return (*_RULES, *own_rules(own))


def configure(
    config: Mapping[str, Any], source: str = "policy configuration", own: Sequence[str] = ()
) -> tuple[Configured, ...]:
    """Return every rule with its level and settings from `config`, which has the format of a CrossGuard
    configuration.

    The format is `{"all": LEVEL, "<rule id>": LEVEL | {"enforcementLevel": LEVEL, ...the rule's settings}}`. A
    rule's own level overrides `all`. With neither, a rule has its default level. Raises one BadInput that lists
    every mistake. `source` is the name of the configuration in this error.
    """
    problems: list[Problem] = []
    every = rules(own)
    known = [rule.id for rule in every]
    for key in config:
        if key not in (_ALL, *known):
            fix = did_you_mean(key, known) or "remove it"
            problems.append(Problem(key, f"unknown rule {key!r}", f"{_ALL}, " + ", ".join(known), fix))
    all_level, all_settings = _split(_ALL, config.get(_ALL), problems)
    problems += [
        Problem(f"{_ALL}.{key}", f"a setting {key!r} for all rules", _LEVEL_KEY, "set it for each rule")
        for key in all_settings
    ]
    configured: list[Configured] = []
    for rule in every:
        level, given = _split(rule.id, config.get(rule.id), problems)
        settings = parse_settings(rule, given, problems)
        configured.append(Configured(rule, level or all_level or rule.level, settings))
    if problems:
        raise BadInput(source, problems)
    return tuple(configured)


@cache
def _adapter(model: type[Settings]) -> TypeAdapter[Settings]:
    return TypeAdapter(model)


@cache
def _adapter_with_level(model: type[Settings]) -> TypeAdapter[Settings]:
    """Return the model of a rule's entire configuration: its level and its settings."""
    level: Any = (Level | None, Field(default=None, alias=_LEVEL_KEY))
    return TypeAdapter(create_model(model.__name__, __base__=model, enforcement_level=level))


def parse_settings(rule: Rule[Any, Any], given: Mapping[str, Any], problems: list[Problem]) -> Settings:
    """Return a rule's settings. If they are invalid, record the mistakes in `problems` and return the defaults."""
    model: type[Settings] = rule.settings
    adapter = _adapter(model)
    try:
        return adapter.validate_python(given)
    except ValidationError as error:
        found = problems_of(error, given, _adapter_with_level(model))
        problems += [replace(problem, path=f"{rule.id}.{problem.path}") for problem in found]
        return model()


def evaluate(
    records: Iterable[object], config: Mapping[str, Any], today: datetime.date, own: Sequence[str] = ()
) -> PolicyReport:
    """Evaluate resource records with every rule that `config` does not disable. Raises BadInput if `config` is
    invalid.

    `own` names modules with company rules.
    """
    stack = Stack.from_records(records, load_catalog())
    reports = [
        evaluate_rule(entry.rule, stack, entry.settings, entry.level, today)
        for entry in configure(config, own=own)
        if entry.level is not Level.DISABLED
    ]
    return PolicyReport(
        violations=tuple(violation for report in reports for violation in report.violations),
        exempted=tuple(violation for report in reports for violation in report.exempted),
        not_checked=tuple(gap for report in reports for gap in report.not_checked),
        idle_exemptions=tuple(one for report in reports for one in report.idle_exemptions),
    )


def analyze(records: Iterable[object], config: Mapping[str, Any], today: datetime.date) -> list[Violation]:
    """Return the violations of resource records. Raises BadInput if `config` is invalid."""
    return list(evaluate(records, config, today).violations)


def _split(key: str, given: object, problems: list[Problem]) -> tuple[Level | None, Mapping[str, Any]]:
    """Return the level and the settings of one key of the configuration."""
    if given is None:
        return None, {}
    if isinstance(given, Mapping):
        mapping = cast("Mapping[str, object]", given)
        settings = {name: value for name, value in mapping.items() if name != _LEVEL_KEY}
        level = mapping.get(_LEVEL_KEY)
        return (None if level is None else _level(f"{key}.{_LEVEL_KEY}", level, problems)), settings
    settings = "" if key == _ALL else f", or a mapping with {_LEVEL_KEY} and settings"
    return _level(key, given, problems, settings), {}


def _level(path: str, given: object, problems: list[Problem], others: str = "") -> Level | None:
    try:
        return Level(given)
    except ValueError:
        levels = [level.value for level in Level]
        fix = meant_option(given, levels) or f"write {Level.ADVISORY}, {Level.MANDATORY} or {Level.DISABLED}"
        problems.append(Problem(path, found_text(given), "one of " + ", ".join(levels) + others, fix))
        return None
