"""How a user configures levels, settings and exemptions of the rules, and the errors for mistakes."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from policy_records import TODAY, cluster_policy, device_plugin_config_map, node, only, record, shared
from pydantic import TypeAdapter, ValidationError

from gpu_platform.base.errors import BadInput, ExitCode
from gpu_platform.stack.operations import Policy
from policies import Exemption, Level, Severity, analyze, configure, evaluate, rules

CROWDED = [cluster_policy(), device_plugin_config_map(serve=shared(replicas=10))]
RULE = "sharing-replicas-bounded"


def exempt(resource: str = "serve", until: str = "2026-12-31") -> dict[str, Any]:
    return {
        RULE: {
            "exempt": [{"resource": resource, "reason": "demo week, GPU-112", "owner": "vision", "until": until}]
        }
    }


def levels(config: dict[str, Any]) -> dict[str, Level]:
    return {entry.rule.id: entry.level for entry in configure(config)}


def test_the_severity_of_a_rule_is_its_level_unless_the_configuration_sets_one():
    expected = {
        Severity.CRITICAL: Level.MANDATORY,
        Severity.HIGH: Level.MANDATORY,
        Severity.MEDIUM: Level.ADVISORY,
        Severity.LOW: Level.ADVISORY,
    }
    assert {severity: severity.default_level for severity in Severity} == expected
    assert levels({}) == {rule.id: expected[rule.severity] for rule in rules()}


def test_only_rules_whose_breach_wastes_gpu_time_are_advisory():
    advisory = {rule_id for rule_id, level in levels({}).items() if level is Level.ADVISORY}
    assert advisory == {
        "active-deadline",
        "gpu-image-pinned",
        "gpu-node-targeting",
        "karpenter-consolidation",
        "numa-policy-complete",
        "pdb-blocks-drain",
        "priority-preempt-training",
        "sharing-for-training",
        "shm-for-training",
        "spot-for-stateful",
        "topology-for-multi-gpu",
    }


def test_an_advisory_rule_can_be_made_mandatory():
    assert levels({"topology-for-multi-gpu": "mandatory"})["topology-for-multi-gpu"] is Level.MANDATORY
    assert set(levels({"all": "mandatory"}).values()) == {Level.MANDATORY}


def test_all_sets_every_rule_and_a_rules_own_level_wins():
    config = {"all": "advisory", RULE: {"enforcementLevel": "mandatory"}, "sharing-rename": "disabled"}
    found = levels(config)
    assert found[RULE] is Level.MANDATORY
    assert found["sharing-rename"] is Level.DISABLED
    assert found["gpu-node-taint"] is Level.ADVISORY


def test_settings_without_a_level_keep_the_level_of_all():
    assert levels({"all": "advisory", RULE: {"maxMpsReplicas": 4}})[RULE] is Level.ADVISORY


def test_all_may_be_an_object_too():
    assert levels({"all": {"enforcementLevel": "disabled"}})[RULE] is Level.DISABLED


def test_a_violation_carries_the_level_that_applies():
    assert only(analyze(CROWDED, {"all": "advisory"}, TODAY)).level is Level.ADVISORY


def test_a_disabled_rule_is_not_evaluated():
    assert analyze(CROWDED, {RULE: "disabled"}, TODAY) == []


@pytest.mark.parametrize(
    "name",
    [
        "serve",
        "ser*",
        "device-plugin-config-*",
        "gpu-operator/device-plugin-config-1a2b",
        "urn:pulumi:prod::ml::kubernetes:core/v1:ConfigMap::device-plugin-config-1a2b",
    ],
)
def test_an_exemption_names_a_resource_by_any_of_its_names(name: str):
    found = evaluate(CROWDED, exempt(name), TODAY)
    assert found.violations == ()
    assert found.exempted[0].exemption == "exempt until 2026-12-31, vision: demo week, GPU-112"
    assert str(found.exempted[0]).endswith(" [exempt until 2026-12-31, vision: demo week, GPU-112]")


def test_an_exemption_of_something_else_does_not_count():
    found = only(analyze(CROWDED, exempt("train"), TODAY))
    assert found.exemption == ""
    assert not str(found).endswith("]")


def test_an_exemption_counts_on_its_last_day_and_no_longer():
    day = datetime.date(2026, 12, 31)
    last = evaluate(CROWDED, exempt(), day)
    assert (last.violations, last.exempted[0].exemption) == (
        (),
        "exempt until 2026-12-31, vision: demo week, GPU-112",
    )
    late = only(analyze(CROWDED, exempt(), day + datetime.timedelta(days=1)))
    assert late.exemption == "exemption ended 2026-12-31, vision: demo week, GPU-112"


def test_a_renewed_exemption_counts_though_the_old_one_is_still_written():
    config = exempt()
    config[RULE]["exempt"] += exempt(until="2025-01-01")[RULE]["exempt"]
    assert analyze(CROWDED, config, TODAY) == []


def test_an_exemption_of_one_node_leaves_the_other_nodes_of_the_pool():
    nodes = [node(f"train-{index}") for index in range(3)]
    config = {"topology-for-multi-gpu": exempt("train-0")[RULE]}
    found = evaluate(
        nodes, {"all": "disabled", "topology-for-multi-gpu": {"enforcementLevel": "mandatory"}} | config, TODAY
    )
    assert found.violations == ()  # `all` disables the rule, and settings without a level do not enable it
    found = evaluate(nodes, config, TODAY)
    left = only([violation for violation in found.violations if violation.rule == "topology-for-multi-gpu"])
    assert (left.name, len(left.also)) == ("train-1", 1)


def test_a_date_that_yaml_has_parsed_already_is_taken():
    config = exempt()
    config[RULE]["exempt"][0]["until"] = datetime.date(2026, 12, 31)
    assert analyze(CROWDED, config, TODAY) == []


@pytest.mark.parametrize(
    ("config", "path", "fix"),
    [
        ({"gpu-node-tain": "advisory"}, "gpu-node-tain", "did you mean 'gpu-node-taint'?"),
        ({"all": "mandatry"}, "all", "did you mean 'mandatory'?"),
        ({RULE: "remediate"}, RULE, "write advisory"),
        ({RULE: {"enforcementLevel": 3}}, f"{RULE}.enforcementLevel", "write advisory"),
        ({RULE: {"maxMpsReplica": 4}}, f"{RULE}.maxMpsReplica", "did you mean 'maxMpsReplicas'?"),
        ({RULE: {"maxReplicas": 4}}, f"{RULE}.maxReplicas", "did you mean 'maxTimeSlicingReplicas'?"),
        ({RULE: {"maxMpsReplicas": 49}}, f"{RULE}.maxMpsReplicas", ""),
        ({RULE: {"maxMpsReplicas": 0}}, f"{RULE}.maxMpsReplicas", ""),
        ({RULE: {"maxTimeSlicingReplicas": 0}}, f"{RULE}.maxTimeSlicingReplicas", ""),
        ({RULE: {"max_mps_replicas": 4}}, f"{RULE}.max_mps_replicas", "did you mean 'maxMpsReplicas'?"),
        (
            {RULE: {"exempt": [{"resource": "x", "owner": "y", "until": "2027-01-01"}]}},
            f"{RULE}.exempt[0].reason",
            "add reason:",
        ),
        (exempt(until="soon"), f"{RULE}.exempt[0].until", ""),
        ({"all": {"exempt": []}}, "all.exempt", "set it for each rule"),
        ({RULE: 7}, RULE, "write advisory"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_with_its_place_and_fix(config: Any, path: str, fix: str):
    with pytest.raises(BadInput) as raised:
        analyze(CROWDED, config, TODAY)
    assert raised.value.exit_code is ExitCode.BAD_INPUT
    (problem,) = raised.value.problems
    assert problem.path == path
    assert fix in problem.fix


def test_an_invalid_date_is_an_error_with_the_allowed_form():
    with pytest.raises(BadInput, match=r'found "soon"; allowed: a day such as 2026-12-31'):
        configure(exempt(until="soon"))


def test_the_lowest_limit_of_replicas_is_one():
    assert levels({RULE: {"maxMpsReplicas": 1, "maxTimeSlicingReplicas": 1}})[RULE] is Level.MANDATORY


def test_settings_and_exemptions_cannot_be_changed_after_they_were_checked():
    settings = next(entry.settings for entry in configure(exempt()) if entry.rule.id == RULE)
    (exemption,) = settings.exempt
    assert isinstance(exemption, Exemption)
    with pytest.raises(ValidationError, match="frozen"):
        settings.exempt = ()  # pyrefly: ignore[read-only]
    with pytest.raises(ValidationError, match="frozen"):
        exemption.reason = "another"  # pyrefly: ignore[read-only]


def test_two_mistakes_give_two_problems():
    with pytest.raises(BadInput) as raised:
        configure({"sharing-renam": "advisory", RULE: {"maxMpsReplicas": "many"}})
    assert len(raised.value.problems) == 2


def test_a_violation_has_a_stable_json_form():
    found = evaluate(CROWDED, {"all": "advisory"}, TODAY).to_json()
    assert json.loads(json.dumps(found)) == {
        "version": 1,
        "violations": [
            {
                "rule": "sharing-replicas-bounded",
                "severity": "high",
                "level": "advisory",
                "resource": "urn:pulumi:prod::ml::kubernetes:core/v1:ConfigMap::device-plugin-config-1a2b",
                "type": "kubernetes:core/v1:ConfigMap",
                "name": "device-plugin-config-1a2b",
                "subject": "serve",
                "also": [],
                "exemption": "",
                "path": "data.serve.sharing.timeSlicing.resources[0].replicas",
                "found": "10 time-slicing replicas of nvidia.com/gpu in config 'serve'",
                "allowed": "at most 4",
                "fix": "lower replicas to 4, or exempt config 'serve' with a reason and a date",
            }
        ],
        "exempted": [],
        "not_checked": [],
        "idle_exemptions": [],
    }


def test_a_rule_that_was_not_checked_has_a_json_form_too():
    hidden = node(taints=None, patch=True, workload="inference", labels={"nvidia.com/device-plugin.config": None})
    assert evaluate([hidden], {}, TODAY).to_json()["not_checked"] == [
        {
            "rule": "gpu-node-taint",
            "resource": hidden["urn"],
            "subject": "train",
            "path": "spec.taints",
            "why": "the patch does not change the node's taints",
        }
    ]


def test_what_is_no_gpu_matter_is_left_alone():
    other = [
        record("aws:s3/bucket:Bucket", "logs", {"acl": "public-read"}),
        record("pulumi:pulumi:Stack", "ml", {}),
    ]
    found = evaluate(other, {}, TODAY)
    assert (found.violations, found.not_checked) == ((), ())


@pytest.mark.parametrize(
    ("setting", "path", "allowed", "fix"),
    [
        (False, RULE, "or a mapping with enforcementLevel and settings", "did you mean 'disabled'?"),
        ("warn", RULE, "or a mapping with enforcementLevel and settings", "did you mean 'advisory'?"),
        ({"level": "advisory"}, f"{RULE}.level", "enforcementLevel", "did you mean 'enforcementLevel'?"),
        ({"enabled": False}, f"{RULE}.enabled", "enforcementLevel", "did you mean 'enforcementLevel'?"),
        ({"enforcementLevel": False}, f"{RULE}.enforcementLevel", "disabled", "did you mean 'disabled'?"),
    ],
)
def test_an_error_of_a_rules_level_names_what_works(setting: Any, path: str, allowed: str, fix: str):
    with pytest.raises(BadInput) as raised:
        analyze(CROWDED, {RULE: setting}, TODAY)
    (problem,) = raised.value.problems
    assert (problem.path, problem.fix) == (path, fix)
    assert allowed in problem.allowed


@pytest.mark.parametrize("setting", ["advisory", {"enforcementLevel": "advisory"}])
def test_a_stack_file_accepts_a_level_with_or_without_settings(setting: Any):
    policy = TypeAdapter(Policy).validate_python({"rules": {RULE: setting}})
    assert levels(policy.rules)[RULE] is Level.ADVISORY


@pytest.mark.parametrize(
    ("resource", "until", "why"),
    [
        ("serve", "2026-12-31", []),
        ("nobody-*", "2026-12-31", ["covers no violation; remove it, or correct its resource"]),
        ("serve", "2025-01-31", ["ended 2025-01-31; remove it, or set a later day"]),
    ],
)
def test_exemptions_without_effect_are_reported(resource: str, until: str, why: list[str]):
    idle = evaluate(CROWDED, exempt(resource, until), TODAY).idle_exemptions
    assert [(one.why, one.path) for one in idle] == [(text, f"policy.rules.{RULE}.exempt[0]") for text in why]
