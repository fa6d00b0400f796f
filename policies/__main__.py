"""Serves the rules to the Pulumi CLI as a policy pack: the thin policies over the pure checks."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

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
from policies._evaluate import Undecided, judge
from policies._stack import Stack


class CannotTell(UnknownValueError):
    """What the CLI shows as an advisory message that the policy could not be run: never a pass."""

    def __init__(self, undecided: Sequence[Undecided]) -> None:
        super().__init__(UNKNOWN_STRING_VALUE, [])
        self.message = "; ".join(str(one) for one in undecided)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return what the CLI hands over as a resource record has it.

    Its proxies raise on unknown values, a record holds the sentinel; its numbers are all floats.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _at(value, key) for key in value}
    if isinstance(value, Sequence):
        return [_at(value, index) for index in range(len(value))]
    return value


def _at(container: Any, key: Any) -> Any:  # noqa: ANN401 - a mapping and its key, or a sequence and its index
    try:
        return plain(container[key])
    except UnknownValueError as unknown:
        return unknown.unknown_type_sentinel


def _policy(rule: Rule[Any, Any]) -> StackValidationPolicy:
    """Return the thin policy over a rule.

    Every rule judges the stack as a whole: most need several resources, and the others answer the same so.
    `pulumi up` previews first, and a mandatory violation stops it there, before anything is made.
    """

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        problems: list[Problem] = []
        settings = parse_settings(rule, plain(args.get_config()), problems)
        if problems:
            raise BadInput("policy configuration", problems)
        found = judge(rule, _stack(args.resources), settings, rule.level, datetime.date.today())
        for violation in found.violations:
            report(str(violation), violation.resource)
        if found.undecided:
            raise CannotTell(found.undecided)

    return StackValidationPolicy(
        name=rule.id,
        description=rule.description,
        enforcement_level=EnforcementLevel(rule.level.value),
        config_schema=PolicyConfigSchema({key: dict(schema) for key, schema in rule.config_schema.items()}),
        severity=Severity(rule.severity.value),
        validate=validate,
    )


def _stack(resources: Sequence[PolicyResource]) -> Stack:
    """Return the CLI's resources as the stack that rules judge."""
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
