"""Generates the reference page for the policy rules: the purpose of each rule, its settings, and an allowed and a
forbidden example.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_platform.base.paths import PROJECT_ROOT
from policies import Rule, rules
from tools.docs.markdown import GENERATED, block, code, table

EXAMPLES = PROJECT_ROOT / "tests" / "policies" / "examples"

_INTRODUCTION = """
# Policy rules

The rules of the policy pack. [Policies](../policies.md) describes how to run, configure and exempt them. Every
rule accepts `exempt`; the table of a rule lists its other settings. Tests check that each rule is violated by its
wrong example and satisfied by its right example.
"""

_DIFFERENCES = """
## Where the two differ

The API server enforces rules about objects that members create a second time, with admission policies for each
team's namespace that have the same ids. The following rules run only before a deployment:
"""


def page() -> str:
    """Return the reference page in Markdown."""
    ordered = sorted(rules(), key=lambda rule: rule.id)
    summary = table(
        ("Rule", "Severity", "Default level", "Requirement"),
        [
            (f"[{code(rule.id)}](#{rule.id})", rule.severity.value, rule.level.value, rule.description)
            for rule in ordered
        ],
    )
    return "\n".join((GENERATED + _INTRODUCTION, summary, _differences(), *(_section(rule) for rule in ordered)))


def _differences() -> str:
    """Return the section about the rules that run only before a deployment."""
    rows = [
        (f"[{code(rule.id)}](#{rule.id})", rule.before_only)
        for rule in sorted(rules(), key=lambda rule: rule.id)
        if rule.before_only
    ]
    return "\n".join((_DIFFERENCES, table(("Rule", "Why admission has no such rule"), rows)))


def _section(rule: Rule[Any, Any]) -> str:
    parts = [
        f"## {rule.id}\n",
        f"{rule.description}\n",
        f"Severity {code(rule.severity.value)}, default level {code(rule.level.value)}.\n",
    ]
    if rule.remedy:
        parts.append(f"Remedy (`{rule.id}-remedy`, with the Pulumi CLI, off by default): writes {rule.remedy}.\n")
    settings = {name: schema for name, schema in rule.config_schema.items() if name != "exempt"}
    if settings:
        header = ("Setting", "Type", "Default", "Allowed")
        parts.append(table(header, [_setting(name, schema) for name, schema in settings.items()]))
    for kind, title in (("wrong", "Wrong"), ("right", "Right")):
        text = (EXAMPLES / f"{rule.id}.{kind}.yaml").read_text("utf-8")
        parts += [f"{title}:\n", block(text, "yaml")]
    return "\n".join(parts)


def _setting(name: str, schema: Mapping[str, Any]) -> tuple[str, str, str, str]:
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"list of {schema['items']['type']}"
    low, high = schema.get("minimum"), schema.get("maximum")
    allowed = "" if low is None else f"{low} to {high}" if high is not None else f"at least {low}"
    return code(name), kind, code(json.dumps(schema.get("default"))), allowed
