"""The list of rules is complete, documented and quick to import."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys

import policies
from policies import Level, Severity, rules
from policies._rule import Rule
from tests.planning.conftest import environment, pool, team
from tests.support.recorded import record_platform


def defined() -> list[str]:
    """Return the ids of all rules that the modules of the pack define, including unlisted rules."""
    modules = [
        importlib.import_module(f"policies.{module.name}")
        for module in pkgutil.iter_modules(policies.__path__)
        if module.name != "__main__"
    ]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Rule)}
    return sorted(rule.id for rule in found.values())


def test_every_rule_that_is_defined_is_listed_once():
    assert defined()
    assert sorted(rule.id for rule in rules()) == defined()
    assert len(set(defined())) == len(defined())


def test_every_rule_says_in_one_sentence_what_is_right_and_why():
    for rule in rules():
        assert re.fullmatch(r"[A-Z].{40,}\.", rule.description), rule.id
        assert isinstance(rule.severity, Severity)
        assert isinstance(rule.level, Level)


# Kinds of objects that rules check and members can create, in a cluster or with their own stack.
OF_MEMBERS = {
    *("authentications", "budgets", "device_claims", "exposed", "queued_objects", "routes", "scaled_objects"),
    *("services", "with_additions", "workloads"),
}


def at_admission() -> set[str]:
    """Return the ids of the rules that the API server enforces, read from the rendered policies."""
    one = environment(pool(), queueing={"without_queue": "refuse"}, teams=[team()])
    return {
        match[1]
        for policy in record_platform(one).of("ValidatingAdmissionPolicy")
        for rule in policy.inputs["spec"]["validations"]
        if (match := re.match(r"([a-z0-9-]+): ", rule["message"]))
    }


def test_rules_about_members_objects_apply_at_admission_or_explain():
    enforced = at_admission()
    own = {rule.id for rule in rules() if OF_MEMBERS & set(rule.subjects.__code__.co_names)}
    assert len(own) > 30
    reasons = {rule.id: rule.before_only for rule in rules() if rule.before_only}
    assert own - enforced == set(reasons)
    assert all(re.fullmatch(r"\S.{25,}[^.]", reason) for reason in reasons.values())


def test_every_rule_can_be_exempted_and_its_schema_needs_no_references():
    for rule in rules():
        assert rule.config_schema["exempt"]["items"]["required"] == ["resource", "reason", "owner", "until"]
        assert "$ref" not in repr(rule.config_schema)


def test_the_limits_of_replicas_are_in_the_schema():
    schema = next(rule.config_schema for rule in rules() if rule.id == "sharing-replicas-bounded")
    assert schema["maxTimeSlicingReplicas"]["default"] == 4
    assert (schema["maxMpsReplicas"]["default"], schema["maxMpsReplicas"]["maximum"]) == (8, 48)


def test_importing_the_rules_loads_neither_pulumi_nor_its_policy_sdk():
    code = "import sys, policies; print([name for name in ('pulumi', 'pulumi_policy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
