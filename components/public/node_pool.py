"""`GpuNodePool`: one GPU node pool of a cluster."""

from collections.abc import Mapping
from typing import Any, Optional, Required, cast

import pulumi

from components.public._cluster import connection_of, kubernetes_options
from components.public._connection import NewPool
from components.public._errors import BadArguments
from components.public._planning import plan_pool
from components.public.stack_file_types import Operator, Pool, PoolSettings
from components.public.types import GpuCluster, NodeTaint


class GpuNodePoolArgs(PoolSettings, total=False):
    """Arguments of a GPU node pool: the fields of `pools[]` in a stack file, and the cluster."""

    cluster: Required[GpuCluster]
    """The cluster of the pool, either an existing cluster or one that the same program creates."""
    operator: Operator
    """The GPU Operator of the cluster, which determines the driver and toolkit of the nodes."""
    name: str
    """Name of the pool. The default is the name of the component."""


class GpuNodePool(pulumi.ComponentResource):
    """A GPU node pool with the node labels, taints, disks, network and placement that its workload needs.

    On EKS it is a managed node group or a Karpenter NodePool, on GKE a node pool, and on AKS an agent pool. On an
    existing cluster it labels the given nodes. In the sandbox it creates simulated nodes.
    """

    labels: pulumi.Output[dict[str, str]]
    """Labels of the nodes."""
    taints: pulumi.Output[list[NodeTaint]]
    """Node taints that pods must tolerate, including taints that the cloud adds."""
    node_selector: pulumi.Output[dict[str, str]]
    """Labels that select nodes of this pool."""
    resources: pulumi.Output[dict[str, int]]
    """Extended resources of one node, such as `nvidia.com/gpu: 8`."""
    node_pool_name: pulumi.Output[Optional[str]]  # noqa: UP045 - the SDK reads this annotation
    """Name of the EKS node group, the Karpenter NodePool, the GKE node pool or the AKS agent pool. None for other
    providers.
    """
    node_names: pulumi.Output[list[str]]
    """Nodes that the component created or labelled. Empty on EKS, GKE and AKS."""

    def __init__(self, name: str, args: GpuNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) that lists every problem with the arguments."""
        arguments = cast("Mapping[str, Any]", args)
        plan = plan_pool("GpuNodePool", name, arguments)
        [pool], cluster, connection = plan.pools, arguments["cluster"], connection_of(plan)
        missing = connection.pool_problems(pool, cluster)
        if missing:
            raise BadArguments(f"GpuNodePool {name}", missing)
        super().__init__("gpu-platform:index:GpuNodePool", name, None, opts)
        self._pool = cast(
            "Pool",
            {
                "name": pool.name,
                **{key: value for key, value in arguments.items() if key not in ("cluster", "operator")},
            },
        )
        node_pool_name, node_names = connection.create_pool(
            NewPool(
                component=self,
                name=name,
                pool=pool,
                plan=plan.cluster.cloud,
                cluster=cluster,
                opts=kubernetes_options(self, name, cluster, opts),
            )
        )
        self.labels = pulumi.Output.from_input(dict(pool.labels))
        self.taints = pulumi.Output.from_input(
            [NodeTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.all_taints]
        )
        self.node_selector = pulumi.Output.from_input(dict(pool.node_selector))
        self.resources = pulumi.Output.from_input(pool.units_per_node)
        self.node_pool_name = pulumi.Output.from_input(node_pool_name)
        self.node_names = pulumi.Output.from_input(node_names)
        self.register_outputs(
            {
                "labels": self.labels,
                "taints": self.taints,
                "nodeSelector": self.node_selector,
                "resources": self.resources,
                "nodePoolName": self.node_pool_name,
                "nodeNames": self.node_names,
            }
        )

    @property
    def pool(self) -> Pool:
        """The pool as declared by the arguments, for `pools` of GpuOperator, GpuValidation and GpuTeam."""
        return self._pool
