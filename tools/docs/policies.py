"""The reference of the policy rules: what each catches, its settings, and an example on either side of it."""

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

The rules of the policy pack. [Policies](../policies.md) says how to run, configure and exempt them. Every rule
accepts `exempt`; other settings are in the rule's own table. The manifests below are tested: each rule is
violated by the wrong one and satisfied by the right one.
"""

_DIFFERENCES = """
## Where the two differ

Rules about objects that members create are enforced a second time by the API server, by admission policies of each
team's namespace with the same ids. Those below run before a deployment alone:
"""


def page() -> str:
    """Return the page."""
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
    """Return the section on what runs before a deployment alone."""
    rows = [
        (f"[{code(rule.id)}](#{rule.id})", rule.before_only)
        for rule in sorted(rules(), key=lambda rule: rule.id)
        if rule.before_only
    ]
    return "\n".join((_DIFFERENCES, table(("Rule", "Why admission has none"), rows)))


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
