"""`TenantPodDefaults`: what the API server adds to pods in the namespace of a team that request GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.teams.admission import ASKS_FOR_GPUS
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.admission_mutations import mutations, variables

# Defaults protect nothing: a pod without them is still judged by rules and quotas. An error must not stop a team.
_FAILURE_POLICY = "Ignore"
# Webhooks run after the policy. What they set is theirs: a second run would replace it.
_REINVOCATION_POLICY = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPodDefaultsArgs:
    """The team's namespace, the defaults of its pods, and those of its LimitRange."""

    namespace: str
    defaults: PodDefaults
    default_request: Mapping[str, str]
    default_limit: Mapping[str, str]


class TenantPodDefaults(pulumi.ComponentResource):
    """A MutatingAdmissionPolicy for pods that are created in one namespace, with its binding.

    `guards`: what workloads of the team must wait for.

    Outputs: `policy`, its name.
    """

    guards: list[pulumi.Resource]
    policy: pulumi.Output[str]

    def __init__(self, name: str, args: TenantPodDefaultsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TenantPodDefaults", name, None, opts)
        policy_name = f"defaults-of-{args.namespace}"
        metadata = k8s.meta.v1.ObjectMetaArgs(name=policy_name, labels={names.TEAM_LABEL: args.namespace})
        policy = k8s.admissionregistration.v1.MutatingAdmissionPolicy(
            policy_name,
            metadata=metadata,
            spec=_spec(args),
            opts=child_options(self, opts),
        )
        binding = k8s.admissionregistration.v1.MutatingAdmissionPolicyBinding(
            policy_name,
            metadata=metadata,
            spec=k8s.admissionregistration.v1.MutatingAdmissionPolicyBindingSpecArgs(policy_name=policy_name),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        self.guards = [policy, binding]
        self.policy = pulumi.Output.from_input(policy_name)
        self.register_outputs({"policy": self.policy})


def _spec(args: TenantPodDefaultsArgs) -> k8s.admissionregistration.v1.MutatingAdmissionPolicySpecArgs:
    return k8s.admissionregistration.v1.MutatingAdmissionPolicySpecArgs(
        failure_policy=_FAILURE_POLICY,
        reinvocation_policy=_REINVOCATION_POLICY,
        match_constraints=k8s.admissionregistration.v1.MatchResourcesArgs(
            namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                match_labels={"kubernetes.io/metadata.name": args.namespace}
            ),
            resource_rules=[
                k8s.admissionregistration.v1.NamedRuleWithOperationsArgs(
                    api_groups=[""], api_versions=["v1"], operations=["CREATE"], resources=["pods"]
                )
            ],
        ),
        match_conditions=[
            k8s.admissionregistration.v1.MatchConditionArgs(name="requests-gpus", expression=ASKS_FOR_GPUS)
        ],
        variables=[
            k8s.admissionregistration.v1.VariableArgs(name=variable, expression=expression)
            for variable, expression in variables(args.defaults, args.default_request, args.default_limit).items()
        ],
        mutations=[
            k8s.admissionregistration.v1.MutationArgs(
                patch_type="JSONPatch",
                json_patch=k8s.admissionregistration.v1.JSONPatchArgs(expression=expression),
            )
            for expression in mutations(args.defaults)
        ],
    )
