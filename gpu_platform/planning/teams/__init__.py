"""Decide the quotas, priorities, members, claims and workloads of teams."""

from gpu_platform.planning.teams.allocated import over_allocated, quota_limits
from gpu_platform.planning.teams.available import available_resources
from gpu_platform.planning.teams.cpu_quotas import cpu_quota_decisions
from gpu_platform.planning.teams.environment import (
    check,
    check_alone,
    check_one,
    plan,
    plan_identities,
    plan_one,
)
from gpu_platform.planning.teams.identity import check_identities, identities_of
from gpu_platform.planning.teams.policy_settings import policy_settings
from gpu_platform.planning.teams.purposes import gpu_quota_decisions, is_for
from gpu_platform.planning.teams.scaling import scaling_of
from gpu_platform.planning.teams.team_plans import plan_priority_classes, total_quota

__all__ = [
    "available_resources",
    "check",
    "check_alone",
    "check_identities",
    "check_one",
    "cpu_quota_decisions",
    "gpu_quota_decisions",
    "identities_of",
    "is_for",
    "over_allocated",
    "plan",
    "plan_identities",
    "plan_one",
    "plan_priority_classes",
    "policy_settings",
    "quota_limits",
    "scaling_of",
    "total_quota",
]
