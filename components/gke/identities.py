"""`GkeTeamIdentities`: IAM roles for the teams' service accounts, through Workload Identity Federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components._cloud import TeamIdentityOutputs
from components._options import child_options
from components.gke.outputs import GkeOutputs
from gpu_platform.planning.clouds.gke.identities import GkeIdentities
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan

_BELOW = "below the prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeTeamIdentitiesArgs:
    """Planned roles, the cluster plan, and the cluster itself, whose project contains the identity pool."""

    identities: GkeIdentities
    plan: GkeClusterPlan
    cluster: GkeOutputs


class GkeTeamIdentities(pulumi.ComponentResource):
    """IAM roles for each team's service account, on buckets or on a Google Cloud service account.

    `teams` contains the outputs for each team. The component itself has no outputs.
    """

    teams: Mapping[str, TeamIdentityOutputs]

    def __init__(self, name: str, args: GkeTeamIdentitiesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeTeamIdentities", name, None, opts)
        self._project = args.plan.project
        # A project's first cluster creates the project's identity pool.
        # Before the identity pool exists, IAM refuses its members.
        child = child_options(self, opts, *args.cluster.ready)
        number = gcp.organizations.get_project_output(
            project_id=self._project, opts=pulumi.InvokeOutputOptions(parent=self)
        ).number
        resources: dict[str, list[pulumi.Resource]] = {}
        for grant in args.identities.buckets:
            member = gcp.storage.BucketIAMMember(
                grant.name,
                bucket=grant.bucket,
                role=grant.role,
                member=self._principal(number, grant.team, grant.service_account),
                condition=gcp.storage.BucketIAMMemberConditionArgs(title=_BELOW, expression=grant.condition)
                if grant.condition is not None
                else None,
                opts=child,
            )
            resources.setdefault(grant.team, []).append(member)
        for account in args.identities.accounts:
            user = gcp.serviceaccount.IAMMember(
                account.name,
                service_account_id=account.account,
                role=account.role,
                member=self._principal(number, account.team, account.service_account),
                opts=child,
            )
            resources.setdefault(account.team, []).append(user)
        self.teams = {team: TeamIdentityOutputs(resources=found) for team, found in resources.items()}
        self.register_outputs({})

    def _principal(self, number: pulumi.Output[str], namespace: str, service_account: str) -> pulumi.Output[str]:
        pool = f"locations/global/workloadIdentityPools/{self._project}.svc.id.goog"
        subject = f"ns/{namespace}/sa/{service_account}"
        return pulumi.Output.concat(
            "principal://iam.googleapis.com/projects/", number, f"/{pool}/subject/{subject}"
        )
