"""A tenant with a member of each role."""

from components.tenant import Tenant, TenantArgs
from gpu_platform.planning.teams.section import TeamMember, TenantPlan

Tenant(
    "role-table",
    TenantArgs(
        plan=TenantPlan(
            namespace="role-table",
            quota={"requests.nvidia.com/gpu": "8"},
            members=(TeamMember(kind="Group", name="role-table-users"),),
            admins=(TeamMember(kind="Group", name="role-table-admins"),),
            viewers=(TeamMember(kind="Group", name="role-table-viewers"),),
        ),
    ),
)
