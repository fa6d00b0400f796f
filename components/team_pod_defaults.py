"""`TeamPodDefaults`: what the API server adds to pods in the namespace of a team that request GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options, formerly
from gpu_platform.base import names
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.admission_mutations import mutations, variables
from gpu_platform.planning.teams.cel import asks_for_gpus

# Defaults protect nothing: a pod without them is still judged by rules and quotas. An error must not stop a team.
_FAILURE_POLICY = "Ignore"
# Pods with more get none.
_MOST_CONTAINERS = 100
# Webhooks run after the policy. What they set is theirs: a second run would replace it.
_REINVOCATION_POLICY = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPodDefaultsArgs:
    """The team's namespace, the defaults of its pods, and those of its LimitRange."""

    namespace: str
    defaults: PodDefaults
    default_request: Mapping[str, str]
    default_limit: Mapping[str, str]


class TeamPodDefaults(pulumi.ComponentResource):
    """A MutatingAdmissionPolicy for pods that are created in one namespace, with its binding.

    `guards`: what workloads of the team must wait for.

    Outputs: `policy`, its name.
    """

    guards: list[pulumi.Resource]
    policy: pulumi.Output[str]

    def __init__(self, name: str, args: TeamPodDefaultsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamPodDefaults", name, None, formerly("TenantPodDefaults", opts))
        policy_name = f"defaults-of-{args.namespace}"
        metadata = {"name": policy_name, "labels": {names.TEAM_LABEL: args.namespace}}
        policy = KubernetesObject(
            policy_name,
            "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
            metadata=metadata,
            spec=_spec(args),
            opts=child_options(self, opts),
        )
        binding = KubernetesObject(
            policy_name,
            "admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding",
            metadata=metadata,
            spec={"policyName": policy_name},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        self.guards = [policy, binding]
        self.policy = pulumi.Output.from_input(policy_name)
        self.register_outputs({"policy": self.policy})


def _spec(args: TeamPodDefaultsArgs) -> Manifest:
    return {
        "failurePolicy": _FAILURE_POLICY,
        "reinvocationPolicy": _REINVOCATION_POLICY,
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": args.namespace}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        # The time of the expressions grows with the square of the containers: first, before it asks for GPUs.
        "matchConditions": [
            {"name": "has-few-containers", "expression": f"object.spec.containers.size() <= {_MOST_CONTAINERS}"},
            {"name": "requests-gpus", "expression": asks_for_gpus("object.spec")},
        ],
        "variables": [
            {"name": variable, "expression": expression}
            for variable, expression in variables(args.defaults, args.default_request, args.default_limit).items()
        ],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": expression},
            }
            for expression in mutations(args.defaults)
        ],
    }
