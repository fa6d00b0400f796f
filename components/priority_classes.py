"""`PriorityClasses`: the scheduling priorities of GPU workloads."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options
from gpu_platform.planning.teams.section import PriorityClassPlan

# Pods with a higher priority class preempt pods with a lower priority class when no GPU is free.
_PREEMPTION = "PreemptLowerPriority"
# A global default would change the priority of every pod in the cluster that names no priority class.
_GLOBAL_DEFAULT = False


class PriorityClasses(pulumi.ComponentResource):
    """The cluster's GPU priority classes. None of them is the global default.

    Outputs: `values`, the priority by class name.
    """

    values: pulumi.Output[dict[str, int]]

    def __init__(
        self, name: str, args: Sequence[PriorityClassPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-platform:index:PriorityClasses", name, None, opts)
        for priority in args:
            KubernetesObject(
                priority.name,
                "scheduling.k8s.io/v1/PriorityClass",
                metadata={"name": priority.name},
                value=priority.value,
                globalDefault=_GLOBAL_DEFAULT,
                preemptionPolicy=_PREEMPTION,
                description=priority.description,
                opts=child_options(self, opts),
            )
        self.values = pulumi.Output.from_input({priority.name: priority.value for priority in args})
        self.register_outputs({"values": self.values})
