"""`AgentAdmission`: prevents the node agent of one node from changing another node."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._admission_policy import bound_policy, policy_spec
from components._options import child_options
from gpu_platform.planning.validation.agent_admission import agent_policies


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAdmissionArgs:
    """Actions that agents may take.

    With `cordons`, an agent cordons its node while a check fails. With `replaces`, it replaces the node by
    deleting the node's NodeClaim.
    """

    cordons: bool
    replaces: bool


class AgentAdmission(pulumi.ComponentResource):
    """Admission policies and their bindings for requests from node agents.

    Agents write ConfigMaps, nodes and Leases, and delete NodeClaims. Agents must not start before the resources in
    `guards` exist.

    Outputs: `policies`, the names of the policies.
    """

    guards: list[pulumi.Resource]
    policies: pulumi.Output[list[str]]

    def __init__(
        self,
        name: str,
        args: AgentAdmissionArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-platform:index:AgentAdmission", name, None, opts)
        child = child_options(self, opts)
        policies = agent_policies(cordons=args.cordons, replaces=args.replaces)
        self.guards = [
            one for policy in policies for one in bound_policy({"name": policy.name}, policy_spec(policy), child)
        ]
        self.policies = pulumi.Output.from_input([policy.name for policy in policies])
        self.register_outputs({"policies": self.policies})
