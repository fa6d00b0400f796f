"""Serves the rules to the Pulumi CLI as a CrossGuard policy pack."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from gpu_platform.base.errors import BadInput, GpuPlatformError, Problem
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import plan_to_json
from gpu_platform.stack.loaded import plan_platform
from policies import Rule, rules
from policies._analysis import parse_settings
from policies._evaluate import NotChecked, evaluate_rule, remedies_of
from policies._inputs import NotVisible
from policies._rule import Remedy, Settings
from policies._stack import Stack

_LEVEL = "enforcementLevel"
REMEDY_SUFFIX = "-remedy"


class RuleNotChecked(UnknownValueError):
    """Makes the CLI show an advisory message that a rule could not be checked, instead of reporting a pass."""

    def __init__(self, gaps: Sequence[NotChecked]) -> None:
        super().__init__(UNKNOWN_STRING_VALUE, [])
        self.message = "not checked: " + "; ".join(str(gap) for gap in gaps)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Convert a value from the CLI to the format of a resource record.

    The CLI's proxies raise an error for unknown values, but a resource record contains a sentinel instead. All
    numbers from the CLI are floats.
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

    Every rule is a stack policy, because most rules need several resources. `pulumi up` first runs a preview,
    where a mandatory violation stops it before anything is created.
    """

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        settings = _settings(rule, plain(args.get_config()))
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


def _settings(rule: Rule[Any, Any], given: Mapping[str, Any]) -> Settings:
    problems: list[Problem] = []
    settings = parse_settings(rule, given, problems)
    if problems:
        raise BadInput("policy configuration", problems)
    return settings


def _remedy_policy(rule: Rule[Any, Any]) -> ResourceValidationPolicy:
    """Return the CrossGuard policy that applies a rule's remedy to a resource. It is disabled by default."""

    def remediate(args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        record = {"urn": args.urn, "type": args.resource_type, "name": args.name, "inputs": plain(args.props)}
        stack = Stack.from_records([record], load_catalog())
        try:
            found = remedies_of(rule, stack, _settings(rule, plain(args.get_config())), datetime.date.today())
        except NotVisible as gap:
            raise RuleNotChecked([NotChecked(rule.id, gap.owner, args.name, gap.path, gap.why)]) from None
        for remedy in found:
            _write(cast("MutableMapping[str, Any]", args.props), remedy)
        return args.props if found else None

    return ResourceValidationPolicy(
        name=rule.id + REMEDY_SUFFIX,
        description=f"Writes {rule.remedy}: {rule.description}",
        enforcement_level=EnforcementLevel.DISABLED,
        config_schema=PolicyConfigSchema({key: dict(schema) for key, schema in rule.config_schema.items()}),
        remediate=cast("Any", remediate),  # the SDK's type does not allow synchronous remedies
        severity=Severity(rule.severity.value),
    )


def _write(props: MutableMapping[str, Any], remedy: Remedy) -> None:
    """Write a value in place, so that all other values from the CLI, including secrets, remain unchanged."""
    *way, last = remedy.at.keys
    here: Any = props
    for key in way:
        if isinstance(key, str) and key not in here:
            here[key] = {}
        here = here[key]
    here[last] = remedy.value


def _stack(resources: Sequence[PolicyResource]) -> Stack:
    """Return the CLI's resources in the form that rules check."""
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


def own_modules(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the modules with company rules that the stack file in the CLI's configuration names."""
    platform = _platform(environment)
    policy = cast("Mapping[str, Any]", platform).get("policy") if isinstance(platform, Mapping) else None
    named = cast("Mapping[str, Any]", policy).get("own_rules") if isinstance(policy, Mapping) else None
    return tuple(map(str, cast("list[object]", named))) if isinstance(named, list) else ()


def _platform(environment: Mapping[str, str]) -> object:
    """Return the stack file's content without checking it, or None if there is no stack file."""
    try:
        config = cast("Mapping[str, str]", json.loads(environment.get("PULUMI_CONFIG") or "{}"))
        return json.loads(config.get("gpu-platform:platform") or "null")
    except ValueError:
        return None


def stack_settings(environment: Mapping[str, str]) -> dict[str, EnforcementLevel | dict[str, Any]]:
    """Return the rule settings of the stack file, by rule or `all`, as the initial configuration of the pack.

    The CLI passes the stack's configuration to the pack in PULUMI_CONFIG. Settings of `--policy-pack-config`
    override these settings. The result is empty without a valid stack file. The Pulumi program reports an invalid
    file.
    """
    try:
        platform = _platform(environment)
        if platform is None:
            return {}
        plan = plan_platform(platform, environment.get("PULUMI_STACK", ""))
    except (GpuPlatformError, ValueError):
        return {}
    settings = cast("Mapping[str, Any]", plan_to_json(plan.policy.config))
    return {name: _initial(value) for name, value in settings.items()}


def _initial(setting: str | Mapping[str, Any]) -> EnforcementLevel | dict[str, Any]:
    if isinstance(setting, str):
        return EnforcementLevel(setting)
    level = {"enforcementLevel": EnforcementLevel(setting[_LEVEL])} if _LEVEL in setting else {}
    return {**setting, **level}


if __name__ == "__main__":
    try:
        every = rules(own_modules(os.environ))
    except BadInput as error:
        sys.exit(f"policy.{error.problems[0]}" if len(error.problems) == 1 else str(error))
    offered: list[Policy] = [*map(_policy, every), *(_remedy_policy(rule) for rule in every if rule.remedy)]
    PolicyPack("gpu-platform", offered, initial_config=stack_settings(os.environ))
