"""`GkeComputeClass`: sets the order in which GKE tries node pools when it adds nodes for pending pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.clouds.gke.plan import ComputeClassPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeComputeClassArgs:
    """Plan for the compute class, and the names of its node pools in order, with the suffixes that Pulumi adds."""

    plan: ComputeClassPlan
    node_pools: Sequence[pulumi.Output[str]]


class GkeComputeClass(pulumi.ComponentResource):
    """A ComputeClass with one rule for each node pool.

    Outputs: `compute_class`, the name of the class.
    """

    compute_class: pulumi.Output[str]

    def __init__(self, name: str, args: GkeComputeClassArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:GkeComputeClass", name, None, opts)
        plan = args.plan
        KubernetesObject(
            plan.name,
            "cloud.google.com/v1/ComputeClass",
            metadata={"name": plan.name},
            spec={**plan.spec, "priorities": [{"nodepools": [node_pool]} for node_pool in args.node_pools]},
            opts=child_options(self, opts),
        )
        self.compute_class = pulumi.Output.from_input(plan.name)
        self.register_outputs({"compute_class": self.compute_class})
