"""One component of the folder, in a program of somebody else's."""

import pulumi

from components.tenant import Tenant, TenantArgs
from gpu_platform.planning.teams.section import TeamMember, TenantPlan

tenant = Tenant(
    "vision",
    TenantArgs(
        plan=TenantPlan(
            namespace="vision",
            quota={"requests.nvidia.com/gpu": "8", "requests.nvidia.com/gpu.shared": "0"},
            members=(TeamMember(kind="Group", name="vision"),),
        ),
    ),
)
pulumi.export("namespace", tenant.namespace)
