"""The planned configuration of the policy pack, in which the stack's level limits the levels of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.planning.policy import plan
from gpu_platform.stack.operations import Policy
from policies import Level, configure

WASTES, BREAKS = "topology-for-multi-gpu", "gpu-node-taint"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {BREAKS: Level.MANDATORY, WASTES: Level.ADVISORY}),
        ({"level": "mandatory"}, {BREAKS: Level.MANDATORY, WASTES: Level.ADVISORY}),
        ({"level": "advisory"}, {BREAKS: Level.ADVISORY, WASTES: Level.ADVISORY}),
        (
            {"level": "advisory", "rules": {WASTES: {"enforcementLevel": "mandatory"}}},
            {BREAKS: Level.ADVISORY, WASTES: Level.MANDATORY},
        ),
        (
            {"rules": {BREAKS: {"enforcementLevel": "disabled"}}},
            {BREAKS: Level.DISABLED, WASTES: Level.ADVISORY},
        ),
    ],
)
@pytest.mark.parametrize("offered", [None, {"nvidia.com/gpu": 8}])
def test_the_stacks_level_limits_rules_without_their_own_level(
    policy: dict[str, Any], expected: dict[str, Level], offered: dict[str, int] | None
) -> None:
    config = plan(Policy.model_validate(policy), offered=offered).config
    levels = {entry.rule.id: entry.level for entry in configure(config)}
    assert {rule: levels[rule] for rule in expected} == expected
