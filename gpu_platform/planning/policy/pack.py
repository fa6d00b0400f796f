"""Plan the policy pack's configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpu_platform.planning.policy.section import PolicyPlan
from gpu_platform.spec.operations import Policy

_QUOTA_RULE = "gpu-namespace-quota"


def plan(policy: Policy, offered: Iterable[str] | None = None) -> PolicyPlan:
    """Return the policy pack's configuration.

    `all` is set only to lower mandatory rules: it would also raise the rules that are advisory by default.
    `offered`: resources of pools in another stack, which are not among the resources of this stack.
    """
    ceiling = {"all": policy.level} if policy.level == "advisory" else {}
    config: dict[str, Any] = {**ceiling, **policy.rules}
    if offered is not None:
        config[_QUOTA_RULE] = {"resources": sorted(set(offered)), **policy.rules.get(_QUOTA_RULE, {})}
    return PolicyPlan(level=policy.level, config=config)
