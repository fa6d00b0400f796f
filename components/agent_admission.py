"""`AgentAdmission`: the API server refuses what the agent of one node writes about another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.validation.agent_admission import (
    BY_THE_AGENT,
    CLAIM_RULE,
    LEASE_RULE,
    REPORT_RULE,
    AgentRule,
    node_rules,
)

_REPORTS = "gpu-node-agent-reports"
_NODES = "gpu-node-agent-nodes"
_LEASES = "gpu-node-agent-leases"
_CLAIMS = "gpu-node-agent-node-claims"
_CHANGES = ["CREATE", "UPDATE"]
_VERSION = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAdmissionArgs:
    """What agents do about their node: `cordons` it while a check fails, `replaces` it (deletes its NodeClaim)."""

    cordons: bool
    replaces: bool


class AgentAdmission(pulumi.ComponentResource):
    """Admission policies, with bindings, for requests of node agents.

    Agents write ConfigMaps, nodes and Leases, and delete NodeClaims.

    `guards`: what agents must wait for.

    Outputs: `policies`, the names.
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
        self._child = child_options(self, opts)
        self.guards = [
            *self._create_policy(_REPORTS, ["configmaps"], [REPORT_RULE]),
            *self._create_policy(_NODES, ["nodes", "nodes/status"], node_rules(cordons=args.cordons)),
            *self._create_policy(
                _LEASES,
                ["leases"],
                [LEASE_RULE],
                group="coordination.k8s.io",
                operations=[*_CHANGES, "DELETE"],
            ),
        ]
        if args.replaces:
            self.guards += self._create_policy(
                _CLAIMS, ["nodeclaims"], [CLAIM_RULE], group="karpenter.sh", operations=["DELETE"]
            )
        self.policies = pulumi.Output.from_input(
            [_REPORTS, _NODES, _LEASES, *([_CLAIMS] if args.replaces else [])]
        )
        self.register_outputs({"policies": self.policies})

    def _create_policy(
        self,
        name: str,
        resources: list[str],
        rules: Sequence[AgentRule],
        *,
        group: str = "",
        operations: Sequence[str] = _CHANGES,
    ) -> list[pulumi.Resource]:
        metadata = {"name": name}
        policy = KubernetesObject(
            name,
            "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
            metadata=metadata,
            spec={
                "failurePolicy": "Fail",  # a token without a node's name writes nothing
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [group],
                            "apiVersions": [_VERSION],
                            "operations": list(operations),
                            "resources": resources,
                        }
                    ]
                },
                "matchConditions": [{"name": "node-agent", "expression": BY_THE_AGENT}],
                "validations": [
                    {"expression": rule.expression, "message": rule.message, "reason": "Forbidden"}
                    for rule in rules
                ],
            },
            opts=self._child,
        )
        binding = KubernetesObject(
            name,
            "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
            metadata=metadata,
            spec={"policyName": name, "validationActions": ["Deny"]},
            opts=pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(depends_on=[policy])),
        )
        return [policy, binding]
