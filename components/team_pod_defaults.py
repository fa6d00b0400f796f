"""`TeamPodDefaults`: defaults that the API server adds to the GPU pods of a team's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components._admission_policy import mutating_policy
from components._options import child_options, formerly
from gpu_platform.base import names
from gpu_platform.planning.teams.admission_defaults import PodDefaults
from gpu_platform.planning.teams.admission_mutations import mutations, variables
from gpu_platform.planning.teams.cel import asks_for_gpus

# Pods with more containers than this receive no defaults.
_MOST_CONTAINERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPodDefaultsArgs:
    """The namespace of a team, the defaults for its pods, and the defaults of its LimitRange."""

    namespace: str
    defaults: PodDefaults
    default_request: Mapping[str, str]
    default_limit: Mapping[str, str]


class TeamPodDefaults(pulumi.ComponentResource):
    """A MutatingAdmissionPolicy for new pods in one namespace, and its binding.

    Workloads of the team must wait for the resources in `guards`.

    Outputs: `policy`, the name of the policy.
    """

    guards: list[pulumi.Resource]
    policy: pulumi.Output[str]

    def __init__(self, name: str, args: TeamPodDefaultsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:TeamPodDefaults", name, None, formerly("TenantPodDefaults", opts))
        policy_name = f"defaults-of-{args.namespace}"
        self.guards = mutating_policy(
            {"name": policy_name, "labels": {names.TEAM_LABEL: args.namespace}},
            args.namespace,
            [("", "v1", "pods")],
            mutations(args.defaults),
            child_options(self, opts),
            # Check the container count first, because the cost of the expressions grows with its square.
            conditions={
                "has-few-containers": f"object.spec.containers.size() <= {_MOST_CONTAINERS}",
                "requests-gpus": asks_for_gpus("object.spec"),
            },
            variables=variables(args.defaults, args.default_request, args.default_limit),
        )
        self.policy = pulumi.Output.from_input(policy_name)
        self.register_outputs({"policy": self.policy})
