"""The examples of the rules' reference page: a rule is violated by its wrong example, not by its right one."""

from __future__ import annotations

import pytest
import yaml
from policy_records import Record, record, report_of

from gpu_platform.paths import PROJECT_ROOT
from policies import rules

EXAMPLES = PROJECT_ROOT / "tests" / "policies" / "examples"
IDS = [rule.id for rule in rules()]


SETTINGS: dict[str, dict[str, float]] = {"cost-ceiling": {"maxUsdPerHour": 20}}
"""Settings that an example states in a comment."""


def records(example: str) -> list[Record]:
    found: list[Record] = []
    for manifest in yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text("utf-8")):
        if "type" in manifest and "properties" in manifest:  # a cloud's resource, as in a Pulumi YAML program
            after = tuple(one["urn"] for one in found if one["name"] in manifest.get("dependsOn", ()))
            found.append(record(manifest["type"], manifest["name"], manifest["properties"], after))
        else:
            found.append(record(_type(manifest), manifest["metadata"]["name"], manifest))
    return found


def _type(manifest: Record) -> str:
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_is_violated_by_its_wrong_example(rule: str):
    assert report_of(rule, *records(f"{rule}.wrong"), **SETTINGS.get(rule, {})).violations


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_is_satisfied_by_its_right_example_and_can_judge_it(rule: str):
    found = report_of(rule, *records(f"{rule}.right"), **SETTINGS.get(rule, {}))
    assert not found.violations, [str(violation) for violation in found.violations]
    assert not found.not_checked, found.not_checked


def test_every_example_belongs_to_a_rule():
    expected = {f"{rule}.{kind}.yaml" for rule in IDS for kind in ("wrong", "right")}
    assert {path.name for path in EXAMPLES.iterdir()} == expected
