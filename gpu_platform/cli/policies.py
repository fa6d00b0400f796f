"""`gpu-platform policies`: the rules of the policy pack and of a company, and an explanation of one rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.base.quantity import counted
from gpu_platform.cli.tables import Column, show_table
from policies import Level, Rule, configure, own_rules_of, rules


@dataclass(frozen=True, slots=True)
class _Entry:
    """A rule with the configuration of a stack, or with its defaults.

    `module` is the Python module of a company's own rule, or None. `set_values` are the settings that the stack
    changes, by their names in the stack file.
    """

    rule: Rule[Any, Any]
    level: Level
    module: str | None
    set_values: Mapping[str, Any]


def list_rules(stack: str | None, *, to_json: bool) -> ExitCode:
    """Print every rule with id, level, severity and requirement.

    With `stack`, use the levels that the stack sets, and add the stack's own rules.
    """
    entries = sorted(_entries(stack), key=lambda entry: entry.rule.id)
    if to_json:
        print(json.dumps({"version": 1, "rules": [_document(entry) for entry in entries]}, indent=2))
        return ExitCode.GOOD
    out = console()
    columns = (Column("rule"), Column("level", 2), Column("severity", 1), Column("requirement", wrap=True))
    rows = [
        (entry.rule.id, entry.level.value, entry.rule.severity.value, entry.rule.description) for entry in entries
    ]
    show_table(out, columns, rows)
    own = sum(entry.module is not None for entry in entries)
    theirs = f", including {own} of the stack's own" if own else ""
    option = f" --stack {stack}" if stack is not None else ""
    hint = "" if stack is not None else "; `--stack STACK` adds a stack's own rules"
    out.print(
        f"{counted(len(rows), 'rule')}{theirs}; `gpu-platform policies explain RULE{option}` shows the "
        f"settings of a rule{hint}",
        markup=False,
    )
    return ExitCode.GOOD


def explain_rule(name: str, stack: str | None, *, to_json: bool) -> ExitCode:
    """Print a rule's requirement and settings, and how to configure or exempt it. Raises BadInput for an unknown
    rule.
    """
    by_id = {entry.rule.id: entry for entry in _entries(stack)}
    entry = by_id.get(name)
    if entry is None:
        fix = did_you_mean(name, by_id) or _where_listed(name, stack)
        problem = Problem("RULE", repr(name), "the id of a rule in `gpu-platform policies list`", fix)
        raise BadInput("policies explain", [problem])
    document = _document(entry)
    if to_json:
        print(json.dumps({"version": 1, **document}, indent=2))
        return ExitCode.GOOD
    _print(entry, document, stack)
    return ExitCode.GOOD


def _where_listed(name: str, stack: str | None) -> str:
    if "." in name and stack is None:
        return "for a rule of your company, name a stack with its module in policy.own_rules: `--stack STACK`"
    return "see `gpu-platform policies list`"


def _print(entry: _Entry, document: Mapping[str, Any], stack: str | None) -> None:
    rule, settings = entry.rule, cast("list[dict[str, Any]]", document["settings"])
    out = console()
    out.print(f"{rule.id}: {rule.description}", markup=False)
    if entry.module is not None:
        out.print(f"own rule from module {entry.module}", markup=False)
    stops = {
        Level.MANDATORY: "a violation stops the deploy",
        Level.ADVISORY: "a violation is a warning",
        Level.DISABLED: "the rule is not evaluated",
    }
    levels = f"default level {rule.level.value}"
    if stack is not None:
        levels += f", level in {stack} {entry.level.value}"
    out.print(f"severity {rule.severity.value}, {levels}: {stops[entry.level]}", markup=False)
    if settings:
        out.print("settings:")
        here = (Column(f"in {stack}"),) if stack is not None else ()
        columns = (Column("  name"), Column("default"), *here, Column("meaning", wrap=True))
        rows = [
            (
                f"  {one['name']}",
                json.dumps(one["default"]),
                *([_shown(entry, one["name"])] if stack is not None else []),
                one["description"],
            )
            for one in settings
        ]
        show_table(out, columns, rows)
    for one in cast("list[dict[str, Any]]", entry.set_values.get("exempt", [])):
        reason = f"{one['reason']} ({one['owner']}, until {one['until']})"
        out.print(f"exempt: {one['resource']}: {reason}", markup=False)
    example = next((one for one in settings if one["default"] is not None), None)
    own = f", {example['name']}: {json.dumps(example['default'])}" if example else ""
    out.print("in the stack file:", markup=False)
    out.print(f"  policy: {{rules: {{{rule.id}: {{enforcementLevel: mandatory{own}}}}}}}", markup=False)
    exempt = "{resource: NAME, reason: why, owner: who, until: 2027-01-31}"
    out.print(f"  policy: {{rules: {{{rule.id}: {{exempt: [{exempt}]}}}}}}", markup=False)
    reference = "" if entry.module is not None else "; examples: docs/reference/policies.md"
    out.print(f"levels: advisory, mandatory, disabled{reference}")


def _shown(entry: _Entry, setting: str) -> str:
    return json.dumps(entry.set_values[setting]) if setting in entry.set_values else ""


def _entries(stack: str | None) -> list[_Entry]:
    """Return the rules of the pack with their defaults, or all rules of a stack with the stack's configuration."""
    if stack is None:
        return [_Entry(rule, rule.level, None, {}) for rule in rules()]
    from gpu_platform.stack.loaded import load_stack

    policy = load_stack(stack).plan.policy
    modules = {rule.id: module for module in policy.own_rules for rule in own_rules_of((module,))}
    return [
        _Entry(
            one.rule,
            one.level,
            modules.get(one.rule.id),
            one.settings.model_dump(mode="json", by_alias=True, exclude_unset=True),
        )
        for one in configure(policy.config, own=policy.own_rules)
    ]


def _document(entry: _Entry) -> dict[str, Any]:
    rule = entry.rule
    settings = {name: schema for name, schema in rule.config_schema.items() if name != "exempt"}
    own = {"module": entry.module} if entry.module is not None else {}
    return {
        "id": rule.id,
        "description": rule.description,
        "severity": rule.severity.value,
        "level": entry.level.value,
        "default_level": rule.level.value,
        **own,
        "settings": [
            {
                "name": name,
                "type": schema.get("type", "any"),
                "default": schema.get("default"),
                **({"value": entry.set_values[name]} if name in entry.set_values else {}),
                "description": " ".join(str(schema.get("description", "")).split()),
            }
            for name, schema in settings.items()
        ],
        **({"exempt": entry.set_values["exempt"]} if "exempt" in entry.set_values else {}),
    }
