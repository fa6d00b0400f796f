"""Plan the configuration of the policy pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.catalog.scaling_triggers import PROMETHEUS
from gpu_platform.planning.policy.section import PolicyPlan
from gpu_platform.stack.operations import Policy

_QUOTA_RULE = "gpu-namespace-quota"
_TRIGGER_RULE = "keda-trigger-server"
_CAPACITY_RULE, _PLACE_RULE = "quota-exceeds-capacity", "quota-unplaceable"


def plan(
    policy: Policy,
    overcommit: float = 1,
    offered: Mapping[str, int] | None = None,
    scaling: tuple[Sequence[str], Sequence[str]] = ((), ()),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> PolicyPlan:
    """Return the policy pack's configuration.

    `all` is set only to make mandatory rules advisory. If it were set to mandatory, it would also apply to the
    rules that are advisory by default. `overcommit` is the environment's setting. `offered` contains the units
    that pools of another stack offer, by extended resource or device class. This stack does not contain these
    pools. `scaling` contains the servers and types of KEDA triggers. `settings` contains the settings of other
    rules, which limit what teams may have.
    """
    ceiling = {"all": policy.level} if policy.level == "advisory" else {}
    config: dict[str, Any] = {**ceiling, **policy.rules}
    if offered is not None:
        capacity = {"capacity": {name: units for name, units in sorted(offered.items()) if "/" in name}}
        config[_QUOTA_RULE] = {"resources": sorted(offered), **policy.rules.get(_QUOTA_RULE, {})}
        config[_CAPACITY_RULE] = {**capacity, **policy.rules.get(_CAPACITY_RULE, {})}
        config[_PLACE_RULE] = {**capacity, **policy.rules.get(_PLACE_RULE, {})}
    servers, triggers = scaling
    if triggers or any(one != PROMETHEUS for one in servers):
        asked = {"servers": sorted(set(servers)), "triggers": sorted(set(triggers))}
        config[_TRIGGER_RULE] = {**asked, **policy.rules.get(_TRIGGER_RULE, {})}
    for rule, values in (settings or {}).items():
        config[rule] = {**values, **policy.rules.get(rule, {})}
    if overcommit > 1:
        config[_CAPACITY_RULE] = {"overcommit": overcommit, **config.get(_CAPACITY_RULE, {})}
    return PolicyPlan(level=policy.level, config=config, own_rules=policy.own_rules)
