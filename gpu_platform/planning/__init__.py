"""Pure decisions: spec and catalogue in, one immutable Plan out. No Pulumi, no I/O, no clock."""

from gpu_platform.planning.make import check_parts, make_environment_plan, make_team_plan
from gpu_platform.planning.plan import EnvironmentPlan, Plan, TeamPlan, plan_as_json

__all__ = [
    "EnvironmentPlan",
    "Plan",
    "TeamPlan",
    "check_parts",
    "make_environment_plan",
    "make_team_plan",
    "plan_as_json",
]
