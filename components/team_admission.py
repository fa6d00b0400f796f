"""`TeamAdmission`: what the API server refuses in the namespace of a team."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._admission_policy import namespace_policy
from components._options import child_options, formerly, retained
from gpu_platform.catalog.admission_rules import AdmissionPolicy
from gpu_platform.planning.teams.fabric import FabricAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAdmissionArgs:
    """The team's namespace, and what the API server refuses there."""

    namespace: str
    policies: tuple[AdmissionPolicy, ...]


class TeamAdmission(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies of one namespace, each with its binding.

    They are for pods, pod templates of other objects, Services and routes, claims of devices, objects of KEDA, and
    for all requests of members.

    They stay in the cluster as long as the namespace may: without them pods of a team that left could be recreated
    with what admission refused.

    `guards`: what workloads of the team must wait for.

    Outputs: `rules`, their ids.
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
    """The team's namespace, and what enforces its Pod Security level in place of its label."""

    namespace: str
    fabric: FabricAccess


class TeamPodSecurity(pulumi.ComponentResource):
    """Policies of the API server that enforce the Pod Security level of one namespace, with a fabric's exceptions.

    They match the namespace by its name, so that they exist before it, and stay in the cluster as long as it may:
    its label alone would admit every pod.

    `guards`: what the namespace must wait for.

    Outputs: `rules`, their ids.
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
