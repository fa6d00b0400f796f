"""Registers a team whose service account has an image pull secret."""

from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from gpu_platform.planning.teams.section import ServiceAccountPlan, TeamMember, TeamPlan

TeamNamespace(
    "registry-team",
    TeamNamespaceArgs(
        plan=TeamPlan(
            namespace="registry-team",
            quota={},
            members=(TeamMember(kind="Group", name="registry-team"),),
            service_account=ServiceAccountPlan(name="team", image_pull_secrets=("registry",)),
        ),
    ),
)
