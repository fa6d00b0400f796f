"""`AksTeamIdentities`: a managed identity for the service account of each team, through Workload ID."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_azure as azure

from components._cloud import TeamIdentityOutputs
from components._options import child_options
from components.aks.outputs import AksOutputs
from gpu_platform.planning.clouds.aks.identities import (
    AUDIENCE,
    CLIENT_ID,
    AksIdentities,
    ContainerRole,
    TeamManagedIdentity,
)
from gpu_platform.planning.clouds.aks.plan import AksClusterPlan

_CONDITION_VERSION = "2.0"
# With the type, Azure accepts an identity that Entra ID has not distributed to all of its servers yet.
_PRINCIPAL = "ServicePrincipal"


@dataclass(frozen=True, slots=True, kw_only=True)
class AksTeamIdentitiesArgs:
    """Planned identities, the cluster plan, and the cluster itself. `issuer` is the URL of its OIDC issuer."""

    identities: AksIdentities
    plan: AksClusterPlan
    cluster: AksOutputs
    issuer: pulumi.Output[str]


class AksTeamIdentities(pulumi.ComponentResource):
    """The teams' managed identities, their roles on containers, and their federated identity credentials.

    `teams` contains the outputs for each team. The component itself has no outputs.
    """

    teams: Mapping[str, TeamIdentityOutputs]

    def __init__(self, name: str, args: AksTeamIdentitiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:AksTeamIdentities", name, None, opts)
        self._args = args
        self._child = child_options(self, opts)
        self.teams = {
            one.team: self._create(one) if one.existing is None else self._join(one, one.existing)
            for one in args.identities.identities
        }
        self.register_outputs({})

    def _create(self, plan: TeamManagedIdentity) -> TeamIdentityOutputs:
        args = self._args
        identity = azure.authorization.UserAssignedIdentity(
            plan.name,
            name=plan.name,
            location=args.cluster.region,
            resource_group_name=args.cluster.resource_group,
            tags=args.plan.tags,
            opts=self._child,
        )
        roles = [self._assign(plan, role, identity.principal_id) for role in plan.roles]
        credential = self._federate(plan, identity.id)
        return TeamIdentityOutputs(resources=[*roles, credential], annotations={CLIENT_ID: identity.client_id})

    def _join(self, plan: TeamManagedIdentity, existing: str) -> TeamIdentityOutputs:
        """Let the team use an existing identity. The identity's owner assigns its roles."""
        found = azure.authorization.get_user_assigned_identity_output(
            name=existing.split("/")[-1],
            resource_group_name=existing.split("/")[4],
            opts=pulumi.InvokeOutputOptions(parent=self),
        )
        return TeamIdentityOutputs(
            resources=[self._federate(plan, existing)], annotations={CLIENT_ID: found.client_id}
        )

    def _federate(self, plan: TeamManagedIdentity, identity: pulumi.Input[str]) -> pulumi.Resource:
        return azure.armmsi.FederatedIdentityCredential(
            plan.name,
            name=plan.name,
            user_assigned_identity_id=identity,
            issuer=self._args.issuer,
            subject=f"system:serviceaccount:{plan.team}:{plan.service_account}",
            audience=AUDIENCE,
            opts=self._child,
        )

    def _assign(
        self, plan: TeamManagedIdentity, role: ContainerRole, principal: pulumi.Input[str]
    ) -> pulumi.Resource:
        account, container = role.container.split("/")[8], role.container.split("/")[-1]
        return azure.authorization.Assignment(
            f"{plan.name}/{account}/{container}/{role.role}",
            scope=role.container,
            role_definition_name=role.role,
            principal_id=principal,
            principal_type=_PRINCIPAL,
            condition=role.condition,
            condition_version=_CONDITION_VERSION if role.condition is not None else None,
            opts=self._child,
        )
