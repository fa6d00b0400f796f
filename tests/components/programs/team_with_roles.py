"""Registers a team with a member of each role."""

from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from gpu_platform.planning.teams.section import TeamMember, TeamPlan

TeamNamespace(
    "role-table",
    TeamNamespaceArgs(
        plan=TeamPlan(
            namespace="role-table",
            quota={"requests.nvidia.com/gpu": "8"},
            members=(TeamMember(kind="Group", name="role-table-users"),),
            admins=(TeamMember(kind="Group", name="role-table-admins"),),
            viewers=(TeamMember(kind="Group", name="role-table-viewers"),),
        ),
    ),
)
