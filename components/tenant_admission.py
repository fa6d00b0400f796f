"""`TenantAdmission`: what the API server refuses in the namespace of a team."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.teams.admission import SERVICE_RULE, VARIABLES, PodRule

# A policy that cannot be evaluated refuses: an outage of it must not open the namespace.
_FAILURE_POLICY = "Fail"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_PODS = ("pods", "pods/ephemeralcontainers")
_SERVICES = ("services",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAdmissionArgs:
    """The team's namespace, and the rules of its pods."""

    namespace: str
    rules: tuple[PodRule, ...]


class TenantAdmission(pulumi.ComponentResource):
    """Policies of the API server for one namespace: on its pods and on its Services, each with a binding.

    `guards`: what workloads of the team must wait for.

    Outputs: `rules`, their ids.
    """

    guards: list[pulumi.Resource]
    rules: pulumi.Output[list[str]]

    def __init__(self, name: str, args: TenantAdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TenantAdmission", name, None, opts)
        child = child_options(self, opts)
        pods: list[pulumi.Resource] = []
        if args.rules:  # a policy has one rule at least
            pods = self._create(f"pods-of-{args.namespace}", args, _PODS, args.rules, child, variables=True)
        services = self._create(f"services-of-{args.namespace}", args, _SERVICES, (SERVICE_RULE,), child)
        self.guards = [*pods, *services]
        self.rules = pulumi.Output.from_input([rule.id for rule in (*args.rules, SERVICE_RULE)])
        self.register_outputs({"rules": self.rules})

    def _create(
        self,
        name: str,
        args: TenantAdmissionArgs,
        resources: Sequence[str],
        rules: Sequence[PodRule],
        opts: pulumi.ResourceOptions,
        *,
        variables: bool = False,
    ) -> list[pulumi.Resource]:
        metadata = k8s.meta.v1.ObjectMetaArgs(name=name, labels={names.TEAM_LABEL: args.namespace})
        policy = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
            name,
            metadata=metadata,
            spec=k8s.admissionregistration.v1.ValidatingAdmissionPolicySpecArgs(
                failure_policy=_FAILURE_POLICY,
                match_constraints=k8s.admissionregistration.v1.MatchResourcesArgs(
                    namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                        match_labels={_NAMESPACE_LABEL: args.namespace}
                    ),
                    resource_rules=[
                        k8s.admissionregistration.v1.NamedRuleWithOperationsArgs(
                            api_groups=[""],
                            api_versions=["v1"],
                            operations=["CREATE", "UPDATE"],
                            resources=list(resources),
                        )
                    ],
                ),
                variables=[
                    k8s.admissionregistration.v1.VariableArgs(name=variable, expression=expression)
                    for variable, expression in VARIABLES.items()
                ]
                if variables
                else None,
                validations=[
                    k8s.admissionregistration.v1.ValidationArgs(
                        expression=rule.expression, message=f"{rule.id}: {rule.message}", reason="Forbidden"
                    )
                    for rule in rules
                ],
            ),
            opts=opts,
        )
        binding = k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            name,
            metadata=metadata,
            spec=k8s.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpecArgs(
                policy_name=name, validation_actions=["Deny"]
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        return [policy, binding]
