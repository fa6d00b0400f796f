"""`TeamAdmission`: policies that make the API server refuse requests in a team's namespace."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._admission_policy import namespace_policy
from components._options import child_options, formerly, retained
from gpu_platform.catalog.admission_rules import AdmissionPolicy
from gpu_platform.planning.teams.fabric import FabricAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAdmissionArgs:
    """Namespace of a team, and the admission policies for it."""

    namespace: str
    policies: tuple[AdmissionPolicy, ...]


class TeamAdmission(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies of one namespace, each with its binding.

    They check pods, pod templates of other objects, Services and routes, device claims, KEDA objects, and all
    requests from members. They stay in the cluster as long as the namespace may exist. Otherwise pods of a removed
    team could be recreated with settings that the policies refused. Workloads of the team must wait for the
    resources in `guards`.

    Outputs: `rules`, the ids of the rules.
    """

    guards: list[pulumi.Resource]
    rules: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TeamAdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamAdmission", name, None, formerly("TenantAdmission", opts))
        child = retained(child_options(self, opts))
        self.guards = [one for policy in args.policies for one in namespace_policy(policy, args.namespace, child)]
        ids = dict.fromkeys(rule.id for policy in args.policies for rule in policy.rules)
        self.rules = pulumi.Output.from_input(list(ids))
        self.register_outputs({"rules": self.rules})


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPodSecurityArgs:
    """Namespace of a team, and policies that enforce its Pod Security level in place of the namespace's label."""

    namespace: str
    fabric: FabricAccess


class TeamPodSecurity(pulumi.ComponentResource):
    """Admission policies that enforce the Pod Security level of one namespace, with the exceptions that a GPU
    fabric needs.

    They match the namespace by name, so that they can exist before the namespace. They stay in the cluster as long
    as the namespace may exist, because the namespace's Pod Security label allows every pod. The namespace must
    wait for the resources in `guards`.

    Outputs: `rules`, the ids of the rules.
    """

    guards: list[pulumi.Resource]
    rules: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TeamPodSecurityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamPodSecurity", name, None, formerly("TenantPodSecurity", opts))
        child = retained(child_options(self, opts))
        self.guards = [
            one for policy in args.fabric.policies for one in namespace_policy(policy, args.namespace, child)
        ]
        self.rules = pulumi.Output.from_input([rule.id for one in args.fabric.policies for rule in one.rules])
        self.register_outputs({"rules": self.rules})
