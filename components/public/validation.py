"""`GpuValidation`: compares every node of the pools with the pool's declaration."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, cast

import pulumi

from components.node_validation import NodeValidation, NodeValidationArgs
from components.public._cluster import kubernetes_options
from components.public._planning import plan_validation
from components.public.stack_file_types import Operator, Pool, ValidationSettings
from components.public.types import GpuCluster


class GpuValidationArgs(ValidationSettings, total=False):
    """Arguments of the validation: the fields of `validation` in a stack file, and the pools."""

    cluster: Required[GpuCluster]
    """The cluster, either an existing cluster or one that the same program creates."""
    pools: Required[Sequence[Pool]]
    """The GPU node pools to validate."""
    operator: Operator
    """The GPU Operator of the cluster, which determines the expected driver versions."""


class GpuValidation(pulumi.ComponentResource):
    """A DaemonSet per pool that compares each node with the pool's declaration.

    List the pools and the operator in `depends_on`. With `gate`, resources that depend on this component are
    created after the nodes are validated.
    """

    namespace: pulumi.Output[str]
    """Namespace of the DaemonSets and of their reports."""

    def __init__(self, name: str, args: GpuValidationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) that lists every problem with the arguments."""
        arguments = cast("Mapping[str, Any]", args)
        plan = plan_validation("GpuValidation", name, arguments)
        super().__init__("gpu-platform:index:GpuValidation", name, None, opts)
        validation = NodeValidation(
            name,
            NodeValidationArgs(validation=plan.validation, pools=plan.pools),
            kubernetes_options(self, name, arguments["cluster"], opts),
        )
        self.namespace = validation.namespace
        self.register_outputs({"namespace": self.namespace})
