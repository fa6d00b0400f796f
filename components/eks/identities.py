"""`EksTeamIdentities`: an IAM role for the service account of each team, through EKS Pod Identity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._cloud import TeamIdentityOutputs
from components._options import child_options
from components.eks.iam import pod_role
from components.eks.outputs import EksOutputs
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.identities import EksIdentities, TeamRole


@dataclass(frozen=True, slots=True, kw_only=True)
class EksTeamIdentitiesArgs:
    """Planned roles, the cluster plan, and the cluster itself."""

    identities: EksIdentities
    plan: EksClusterPlan
    cluster: EksOutputs


class EksTeamIdentities(pulumi.ComponentResource):
    """The teams' IAM roles, and their associations with the teams' service accounts.

    `teams` contains the outputs for each team. The component itself has no outputs.
    """

    teams: Mapping[str, TeamIdentityOutputs]

    def __init__(self, name: str, args: EksTeamIdentitiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:EksTeamIdentities", name, None, opts)
        self._args = args
        self._child = child_options(self, opts)
        self.teams = {
            role.team: TeamIdentityOutputs(resources=self._create(role)) for role in args.identities.roles
        }
        self.register_outputs({})

    def _create(self, role: TeamRole) -> list[pulumi.Resource]:
        """Associate a role with the team's service account, after creating the role if it does not exist. Return
        the resources that must exist before pods start, because a pod receives credentials only when it starts.
        """
        policies: list[pulumi.Resource] = []
        role_arn: pulumi.Input[str]
        if role.role_arn is not None:
            role_arn = role.role_arn
        else:
            created, policies = self._create_role(role)
            role_arn = created.arn
        association = aws.eks.PodIdentityAssociation(
            self._args.plan.role_name(role.suffix),
            cluster_name=self._args.cluster.name,
            namespace=role.team,
            service_account=role.service_account,
            role_arn=role_arn,
            opts=self._child,
        )
        return [*policies, association]

    def _create_role(self, role: TeamRole) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        plan = self._args.plan
        name = plan.role_name(role.suffix)
        created, attached = pod_role(name, role.service_account, (), plan.iam, self._child, namespace=role.team)
        document = json.dumps({"Version": "2012-10-17", "Statement": list(role.statements)}, sort_keys=True)
        policy = aws.iam.RolePolicy(name, role=created.name, policy=document, opts=self._child)
        return created, [*attached, policy]
