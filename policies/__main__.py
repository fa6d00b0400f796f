"""Serve the rules to the Pulumi CLI as a CrossGuard policy pack."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from gpu_platform.catalog import load_catalog
from gpu_platform.errors import BadInput, Problem
from policies import Rule, rules
from policies._analysis import parse_settings
from policies._evaluate import NotChecked, evaluate_rule
from policies._stack import Stack


class RuleNotChecked(UnknownValueError):
    """Makes the CLI show an advisory message that a rule could not be checked, instead of a pass."""

    def __init__(self, gaps: Sequence[NotChecked]) -> None:
        super().__init__(UNKNOWN_STRING_VALUE, [])
        self.message = "not checked: " + "; ".join(str(gap) for gap in gaps)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a value of the CLI in the form of a resource record.

    The CLI's proxies raise on unknown values, where a record holds the sentinel; its numbers are all floats.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return {key: _at(mapping, key) for key in mapping}
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        return [_at(items, index) for index in range(len(items))]
    return value


def _at(container: Any, key: Any) -> Any:  # noqa: ANN401 - a mapping and its key, or a sequence and its index
    try:
        return plain(container[key])
    except UnknownValueError as unknown:
        return unknown.unknown_type_sentinel


def _policy(rule: Rule[Any, Any]) -> StackValidationPolicy:
    """Return the CrossGuard policy of a rule.

    Every rule is a stack policy, since most rules need several resources. `pulumi up` previews first, and a
    mandatory violation stops it there, before anything is created.
    """

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        problems: list[Problem] = []
        settings = parse_settings(rule, plain(args.get_config()), problems)
        if problems:
            raise BadInput("policy configuration", problems)
        found = evaluate_rule(rule, _stack(args.resources), settings, rule.level, datetime.date.today())
        for violation in found.violations:
            report(str(violation), violation.resource)
        if found.not_checked:
            raise RuleNotChecked(found.not_checked)

    return StackValidationPolicy(
        name=rule.id,
        description=rule.description,
        enforcement_level=EnforcementLevel(rule.level.value),
        config_schema=PolicyConfigSchema({key: dict(schema) for key, schema in rule.config_schema.items()}),
        severity=Severity(rule.severity.value),
        validate=validate,
    )


def _stack(resources: Sequence[PolicyResource]) -> Stack:
    """Return the CLI's resources as the stack that rules check."""
    records = [
        {
            "urn": resource.urn,
            "type": resource.resource_type,
            "name": resource.name,
            "inputs": plain(resource.props),
            "dependencies": [dependency.urn for dependency in resource.dependencies],
        }
        for resource in resources
    ]
    return Stack.from_records(records, load_catalog())


if __name__ == "__main__":
    PolicyPack("gpu-platform", [_policy(rule) for rule in rules()])
