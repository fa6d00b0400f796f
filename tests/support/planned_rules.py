"""The admission rules that a plan contains for a team."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog.admission_rules import AdmissionRule
from gpu_platform.planning.teams.section import TeamPlan


def rules_of(team: TeamPlan, policy: str) -> Sequence[AdmissionRule]:
    """Return the rules in one of the team's policies."""
    return next(one.rules for one in team.policies if one.name == policy)
