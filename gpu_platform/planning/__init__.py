"""Turns a stack file and the catalogue into an immutable Plan, without Pulumi, I/O or a clock."""

from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.planning.plan import EnvironmentPlan, Plan, TeamStackPlan
from gpu_platform.planning.planner import check_apart, check_parts, plan_environment, plan_team

__all__ = [
    "EnvironmentPlan",
    "Plan",
    "TeamStackPlan",
    "check_apart",
    "check_parts",
    "plan_environment",
    "plan_team",
    "plan_to_json",
]
