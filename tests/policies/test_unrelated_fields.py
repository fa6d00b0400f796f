"""No field hides an unrelated violation: the findings are the same for any value of any field.

For each field, the test adds a violating pool and its teams to the stack. It also adds the wrong examples of all
rules to the resources that the program registers, except for examples that need their own cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from policy_records import TODAY, Record

from gpu_platform.base.errors import BadInput
from gpu_platform.planning import Plan
from gpu_platform.stack import Environment
from gpu_platform.stack.loaded import plan_platform
from policies import Level, evaluate, rules
from tests.policies.test_rule_examples import records
from tests.stack.field_cases import PROVIDERS, STACKS
from tests.stack.field_changes import stack_for, values_for
from tests.stack.stack_fields import changed, fields_of, get, place_of
from tests.support.recorded import record_platform

Platform = dict[str, Any]
Findings = frozenset[tuple[str, str]]
"""The rule and the resource of each violation."""

OF_STACK = {"sharing-across-tenants", "sharing-replicas-bounded", "cost-ceiling"}
"""Rules that the added pool, teams and settings violate."""
RELATED = {"teams[].inference_services[].route": {"route-host"}}
"""Fields that change a rule's settings. A declared route without a host makes the pack allow all hosts."""
POOL: Mapping[str, Mapping[str, Any]] = {
    "sandbox": {"machine_type": "g6.12xlarge"},
    "existing": {"machine_type": "g6.12xlarge", "nodes": {"names": ["c0", "c1"]}},
    "eks": {"machine_type": "g6.12xlarge", "zones": ["us-east-2a"]},
    "gke": {"machine_type": "g2-standard-24", "zones": ["us-central1-a"]},
}


def violating(stack: Platform, provider: str) -> Platform:
    """Return a stack with another pool of shared GPUs, two teams that share these GPUs, and a low cost ceiling."""
    pool = {
        "name": "clients",
        "count": {"desired": 2},
        "workload": "training",
        "sharing": {"mode": "time-slicing", "replicas": 16},
        **POOL[provider],
    }
    domain = "@example.com" if provider == "gke" else ""
    teams = [
        {
            "name": name,
            "quota": {"shared": 4, "cpu": 8, "memory": "32Gi"},
            "priority": "training",
            "members": [f"group:{name}{domain}"],
        }
        for name in ("first", "second")
    ]
    policy = stack.get("policy", {})
    ceiling = {"cost-ceiling": {"maxUsdPerHour": 1}}
    return {
        **stack,
        "pools": [*stack["pools"], pool],
        "teams": [*stack.get("teams", []), *teams],
        "policy": {**policy, "rules": {**policy.get("rules", {}), **ceiling}},
    }


@cache
def wrong_examples() -> tuple[Record, ...]:
    """Return the wrong examples of all mandatory rules. Their namespaces, pools and hosts are in no stack."""
    found: list[Record] = []
    for rule in rules():
        if rule.level is Level.MANDATORY:
            text = json.dumps(records(f"{rule.id}.wrong")).replace("example.com", "example.net")
            text = re.sub(r"\b(vision|search|train|serve|notebooks)\b", r"\1x", text)
            found += json.loads(re.sub(r'(urn:[^"]*)', rf"\1--{rule.id}", text))
    return tuple(found)


def findings(stack: Platform, plan: Plan) -> Findings:
    """Return the violations of the stack, and the wrong examples that violate their rule when they are added to
    the stack.
    """
    registered = [one.to_json() for one in record_platform(stack).resources]
    own, all_ = (
        evaluate([*registered, *more], plan.policy.config, TODAY, plan.policy.own_rules).violations
        for more in ((), wrong_examples())
    )
    of_stack = {(one.rule, "") for one in own if one.rule in OF_STACK}
    of_examples = {(one.rule, one.resource) for one in all_ if one.resource.endswith(f"--{one.rule}")}
    return frozenset(of_stack | of_examples)


SECTIONS = ("pools", "teams", "queueing", "sharing", "validation", "operator")
"""Sections that the rules read. The short test changes one field of each section."""


def cases(provider: str, *, all_fields: bool) -> Iterator[tuple[str, Platform]]:
    """For each field, yield a stack in which that field has another value.

    Unless `all_fields` is set, change only the first field of each section in `SECTIONS`.
    """
    sections: set[str] = set()
    for field in fields_of(Environment):
        section = re.split(r"[.\[({]", field.path)[0]
        if (section == "cluster" and not field.path.startswith(f"cluster({provider}).")) or section == "policy":
            continue
        if not all_fields and (section in sections or section not in SECTIONS):
            continue
        sections.add(section)
        stack = stack_for(field.path, provider)
        values = values_for(field, get(stack, place_of(field.path, stack)), provider)
        assert not isinstance(values, str), values
        yield field.path, violating(changed(stack, place_of(field.path, stack), values[0]), provider)


def judge(provider: str, *, all_fields: bool) -> int:
    """Compare the findings for each changed field with the findings of the unchanged stack. Return the number of
    planned stacks.
    """
    plain = violating(dict(STACKS[provider]), provider)
    expected = findings(plain, plan_platform(plain, "test"))
    assert {rule for rule, example in expected if not example} == OF_STACK
    assert len(expected) > 35
    planned, wrong = 0, dict[str, list[str]]()
    for path, stack in cases(provider, all_fields=all_fields):
        try:
            plan = plan_platform(stack, "test")
        except BadInput:
            continue  # the field needs other pools or another provider
        planned += 1
        related = {rule for field, of in RELATED.items() if path.startswith(field) for rule in of}
        if lost := {rule for rule, _ in expected - findings(stack, plan)} - related:
            wrong[path] = sorted(lost)
    assert wrong == {}
    return planned


def test_no_section_of_the_stack_file_hides_a_violation() -> None:
    assert judge("eks", all_fields=False) == len(SECTIONS)


@pytest.mark.long
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_field_of_the_stack_file_hides_a_violation(provider: str) -> None:
    assert judge(provider, all_fields=True) > 150
