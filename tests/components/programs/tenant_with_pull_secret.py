"""A tenant whose service account has an image pull secret."""

from components.tenant import Tenant, TenantArgs
from gpu_platform.planning.teams.section import ServiceAccountPlan, TeamMember, TenantPlan

Tenant(
    "registry-team",
    TenantArgs(
        plan=TenantPlan(
            namespace="registry-team",
            quota={},
            members=(TeamMember(kind="Group", name="registry-team"),),
            service_account=ServiceAccountPlan(name="team", image_pull_secrets=("registry",)),
        ),
    ),
)
