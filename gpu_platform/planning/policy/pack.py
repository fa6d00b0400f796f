"""Plan the policy pack's configuration."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_platform.planning.policy.section import PolicyPlan
from gpu_platform.spec.operations import Policy

_QUOTA_RULE = "gpu-namespace-quota"


def plan(policy: Policy, offered: Iterable[str] | None = None) -> PolicyPlan:
    """Return the policy pack's configuration.

    `offered`: what the pools of another stack offer, which the pack does not see among the stack's own resources.
    """
    config = {"all": policy.level, **policy.rules}
    if offered is not None:
        config[_QUOTA_RULE] = {"resources": sorted(set(offered)), **policy.rules.get(_QUOTA_RULE, {})}
    return PolicyPlan(level=policy.level, config=config)
