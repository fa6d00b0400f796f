"""The IAM policies in the catalogue: the values that replace their placeholders, and the statements that are
omitted.
"""

from __future__ import annotations

import json
import re

import pytest
import yaml

from gpu_platform.base.paths import CODE_ROOT
from gpu_platform.catalog.iam_policies import iam_policy, iam_statements

# The placeholders in each policy, by the policy's name.
NAMES = {
    name: frozenset(re.findall(r"\{(\w+)\}", json.dumps(statements)))
    for file in (CODE_ROOT / "gpu_platform" / "catalog" / "iam").glob("*.yaml")
    for name, statements in yaml.safe_load(file.read_text("utf-8"))["policies"].items()
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_filled_policy_has_no_placeholder_left(name: str) -> None:
    values = {value: f"the-{value}" for value in NAMES[name]}
    document = iam_policy(name, values)
    text = json.dumps(document)
    assert document["Version"] == "2012-10-17"
    for value in NAMES[name]:
        assert f"{{{value}}}" not in text
        assert f"the-{value}" in text


@pytest.mark.parametrize("name", sorted(name for name, values in NAMES.items() if values))
def test_a_missing_value_is_an_error(name: str) -> None:
    [first, *_] = sorted(NAMES[name])
    values = {value: "x" for value in NAMES[name] if value != first}
    with pytest.raises(KeyError, match=first):
        iam_statements(name, values)


def test_a_statement_without_resources_is_left_out() -> None:
    keys = ["arn:aws:kms:us-east-2:123456789012:key/a"]
    assert iam_statements("volume-keys", {"keys": []}) == ()
    assert [one["Resource"] for one in iam_statements("volume-keys", {"keys": keys})] == [keys, keys]


def test_a_list_fills_a_condition() -> None:
    rules = ["arn:aws:events:us-east-2:1:rule/a", "arn:aws:events:us-east-2:1:rule/b"]
    allow, deny = iam_statements("karpenter-queue", {"queue": "arn:q", "rules": rules})
    assert allow["Condition"] == {"ArnEquals": {"aws:SourceArn": rules}}
    assert (deny["Effect"], deny["Principal"], deny["Action"]) == ("Deny", "*", "sqs:*")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_allowed_action_on_all_resources_only_reads(name: str) -> None:
    values = {value: f"the-{value}" for value in NAMES[name]}
    reads = ("Describe", "Get", "List")
    for statement in iam_statements(name, values):
        if statement["Effect"] == "Allow" and statement["Resource"] == "*":
            for action in statement["Action"]:
                assert action.partition(":")[2].startswith(reads), f"{name}: {action} on all resources"
