"""`gpu-platform policies`: the rules of the policy pack, and what one of them requires."""

from __future__ import annotations

import json
from typing import Any

from gpu_platform.cli.console import console
from gpu_platform.cli.tables import Column, show_table
from gpu_platform.errors import BadInput, ExitCode, Problem, did_you_mean
from gpu_platform.quantity import counted
from policies import Rule, rules


def list_rules(*, to_json: bool) -> ExitCode:
    """Print every rule: id, default level, severity, requirement."""
    ordered = sorted(rules(), key=lambda rule: rule.id)
    if to_json:
        print(json.dumps({"version": 1, "rules": [_document(rule) for rule in ordered]}, indent=2))
        return ExitCode.GOOD
    out = console()
    columns = (Column("rule"), Column("level", 2), Column("severity", 1), Column("requirement", wrap=True))
    rows = [(rule.id, rule.level.value, rule.severity.value, rule.description) for rule in ordered]
    show_table(out, columns, rows)
    out.print(f"{counted(len(rows), 'rule')}; `gpu-platform policies explain RULE` has the settings of one")
    return ExitCode.GOOD


def explain_rule(name: str, *, to_json: bool) -> ExitCode:
    """Print a rule's requirement, settings, and how to set or exempt it; raises BadInput for an unknown one."""
    by_id = {rule.id: rule for rule in rules()}
    rule = by_id.get(name)
    if rule is None:
        fix = did_you_mean(name, by_id) or "see `gpu-platform policies list`"
        problem = Problem("RULE", repr(name), "the id of a rule of `gpu-platform policies list`", fix)
        raise BadInput("policies explain", [problem])
    document = _document(rule)
    if to_json:
        print(json.dumps({"version": 1, **document}, indent=2))
        return ExitCode.GOOD
    out = console()
    out.print(f"{rule.id}: {rule.description}", markup=False)
    stops = "a violation stops the deploy" if rule.level.value == "mandatory" else "a violation is a warning"
    out.print(f"severity {rule.severity.value}, default level {rule.level.value}: {stops}")
    if document["settings"]:
        out.print("settings:")
        columns = (Column("  name"), Column("default"), Column("meaning", wrap=True))
        rows = [
            (f"  {one['name']}", json.dumps(one["default"]), one["description"]) for one in document["settings"]
        ]
        show_table(out, columns, rows)
    example = next((one for one in document["settings"] if one["default"] is not None), None)
    own = f", {example['name']}: {json.dumps(example['default'])}" if example else ""
    out.print("in the stack file:", markup=False)
    out.print(f"  policy: {{rules: {{{rule.id}: {{enforcementLevel: mandatory{own}}}}}}}", markup=False)
    exempt = "{resource: NAME, reason: why, owner: who, until: 2027-01-31}"
    out.print(f"  policy: {{rules: {{{rule.id}: {{exempt: [{exempt}]}}}}}}", markup=False)
    out.print("levels: advisory, mandatory, disabled; examples of both sides: docs/reference/policies.md")
    return ExitCode.GOOD


def _document(rule: Rule[Any, Any]) -> dict[str, Any]:
    settings = {name: schema for name, schema in rule.config_schema.items() if name != "exempt"}
    return {
        "id": rule.id,
        "description": rule.description,
        "severity": rule.severity.value,
        "level": rule.level.value,
        "settings": [
            {
                "name": name,
                "type": schema.get("type", "any"),
                "default": schema.get("default"),
                "description": " ".join(str(schema.get("description", "")).split()),
            }
            for name, schema in settings.items()
        ],
    }
