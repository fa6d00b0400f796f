"""The permissions that the documentation lists for `doctor --online` match the calls to the clouds."""

from __future__ import annotations

import json
import re

from gpu_platform.base.paths import STACKS_DIR
from gpu_platform.online.aws.api import iam_action
from gpu_platform.online.aws.client import CALLS
from gpu_platform.online.azure.client import ACTIONS
from gpu_platform.online.google.client import PERMISSIONS

PAGE = (STACKS_DIR.parent / "docs/operations.md").read_text("utf-8")


def block(language: str, after: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE[PAGE.index(after) :], re.DOTALL)
    assert found is not None
    return found[1]


def test_the_iam_policy_allows_the_calls_to_aws_and_nothing_else() -> None:
    (statement,) = json.loads(block("json", "## Ask the cloud before `up`"))["Statement"]

    # Every principal may call GetCallerIdentity, and no policy can deny this call.
    needed = {iam_action(*call) for call in CALLS} - {"sts:GetCallerIdentity"}
    assert set(statement["Action"]) == needed
    assert statement["Effect"] == "Allow"


def test_every_action_of_the_policy_only_reads() -> None:
    # pyrefly: ignore[unsupported-operation]
    verbs = {re.match("[A-Z][a-z]+", operation)[0] for _, operation in CALLS}

    assert verbs <= {"Describe", "Get"}


def test_the_permissions_on_google_cloud_are_those_of_the_calls() -> None:
    listed = set(block("text", "On Google Cloud these roles suffice").split())

    assert listed == set(PERMISSIONS.values())
    assert {permission.rpartition(".")[2] for permission in listed} <= {"get", "list"}


def test_the_actions_on_azure_are_those_of_the_calls() -> None:
    listed = set(block("text", "On Azure the role Reader").split())

    assert listed == set(ACTIONS.values())
    assert {action.rpartition("/")[2] for action in listed} == {"read", "action"}
