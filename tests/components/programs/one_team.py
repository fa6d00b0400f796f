"""A user's program that uses only one component of the folder `components`."""

import pulumi

from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from gpu_platform.planning.teams.section import TeamMember, TeamPlan

team = TeamNamespace(
    "vision",
    TeamNamespaceArgs(
        plan=TeamPlan(
            namespace="vision",
            quota={"requests.nvidia.com/gpu": "8", "requests.nvidia.com/gpu.shared": "0"},
            members=(TeamMember(kind="Group", name="vision"),),
        ),
    ),
)
pulumi.export("namespace", team.namespace)
