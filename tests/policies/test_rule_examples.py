"""On the rules' reference page, each rule has a wrong example that violates it, and a right example that does not.

If a value in an example is unknown before the deployment, the rule reports neither a pass nor a violation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from policy_records import UNKNOWN, Record, record, report_of

from gpu_platform.base.paths import PROJECT_ROOT
from policies import rules

EXAMPLES = PROJECT_ROOT / "tests" / "policies" / "examples"
IDS = [rule.id for rule in rules()]


SETTINGS: dict[str, dict[str, Any]] = {
    "bare-pod": {"namespaces": ["vision"]},
    "cost-ceiling": {"maxUsdPerHour": 20},
}
"""Rule settings that the comments of the examples mention."""


def records(example: str) -> list[Record]:
    found: list[Record] = []
    for manifest in yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text("utf-8")):
        if "type" in manifest and "properties" in manifest:  # a cloud resource, as in a Pulumi YAML program
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
def test_a_rule_is_satisfied_by_its_right_example_and_can_check_it(rule: str):
    found = report_of(rule, *records(f"{rule}.right"), **SETTINGS.get(rule, {}))
    assert not found.violations, [str(violation) for violation in found.violations]
    assert not found.not_checked, found.not_checked


# These rules recognise a ConfigMap only by its content if no operator in the stack names it.
BY_CONTENT = {"sharing-replicas-bounded", "sharing-rename"}


def hidden(example: str) -> Iterator[tuple[str, list[Record]]]:
    """For every value in an example, yield its place and the records of the example with this value unknown."""
    base = records(example)
    for index, one in enumerate(base):
        for path in places(one["inputs"]):
            changed = copy.deepcopy(base)
            here: Any = changed[index]["inputs"]
            for key in path[:-1]:
                here = here[key]
            here[path[-1]] = UNKNOWN
            yield f"{one['name']}: {'.'.join(map(str, path))}", changed


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every item in a nested dict or list."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_does_not_pass_what_it_cannot_see(rule: str):
    passed: list[str] = []
    unknown = 0
    for place, changed in hidden(f"{rule}.wrong"):
        found = report_of(rule, *changed, **SETTINGS.get(rule, {}))
        unknown += bool(found.not_checked)
        if not found.violations and not found.not_checked:
            passed.append(place)
    if rule in BY_CONTENT:
        passed = [place for place in passed if not place.endswith((": data", ": data.serve"))]
    else:
        assert unknown
    assert passed == []


@pytest.mark.parametrize("rule", IDS)
def test_a_rule_is_not_violated_by_what_it_cannot_see(rule: str):
    for place, changed in hidden(f"{rule}.right"):
        found = report_of(rule, *changed, **SETTINGS.get(rule, {}))
        assert not found.violations, place


def test_every_example_belongs_to_a_rule():
    expected = {f"{rule}.{kind}.yaml" for rule in IDS for kind in ("wrong", "right")}
    assert {path.name for path in EXAMPLES.iterdir()} == expected
