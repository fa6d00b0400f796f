"""`GpuOperator`: the NVIDIA GPU Operator of a cluster, with everything that its pools need once per cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, cast

import pulumi

from components.device_claims import DeviceClasses
from components.gpu_operator import GpuOperator as OperatorRelease
from components.monitoring import Monitoring as MonitoringObjects
from components.priority_classes import PriorityClasses
from components.public._cluster import connection_of, kubernetes_options
from components.public._errors import BadArguments
from components.public._planning import plan_operator
from components.public.stack_file_types import DeviceClass, Monitoring, Operator, Pool
from components.public.types import GpuCluster


class GpuOperatorArgs(TypedDict, total=False):
    """Arguments of the GPU Operator, which are sections of a stack file."""

    cluster: Required[GpuCluster]
    """The cluster, either an existing cluster or one that the same program creates."""
    pools: Required[Sequence[Pool]]
    """All GPU node pools of the cluster, which determine the operator's configuration."""
    operator: Operator
    """Release, driver and toolkit. If unset, the catalogue's default release is used."""
    monitoring: Monitoring
    """GPU metrics and alerts."""
    priorities: Mapping[str, float]
    """Values of the priority classes by name. If unset, `training` is 100 and `inference` is 1000."""
    device_classes: Mapping[str, DeviceClass]
    """With DRA: DeviceClasses in addition to those that the driver creates."""


class GpuOperator(pulumi.ComponentResource):
    """The NVIDIA GPU Operator, and the other resources that GPU pools need once per cluster.

    Create only one per cluster. The component consists of the operator's release with its sharing and MIG
    configurations, priority classes, DeviceClasses, monitoring, and the cloud's plugins. On EKS the plugin is the
    EFA device plugin. On GKE the plugins are the installers for drivers and GPUDirect, and the networks for GPU
    NICs. The child component of the same type creates only the operator.
    """

    release: pulumi.Output[str]
    """Version of the GPU Operator."""
    namespace: pulumi.Output[str]
    """Namespace of the GPU Operator."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) that lists every problem with the arguments."""
        arguments = cast("Mapping[str, Any]", args)
        plan = plan_operator("GpuOperator", name, arguments)
        cluster, connection = arguments["cluster"], connection_of(plan)
        missing = connection.plugin_problems(plan.cluster.cloud, cluster)
        if missing:
            raise BadArguments(f"GpuOperator {name}", missing)
        super().__init__("gpu-platform:index:GpuOperator", name, None, opts)
        child = kubernetes_options(self, name, cluster, opts)
        PriorityClasses("priority-classes", plan.priority_classes, child)
        connection.create_plugins(name, plan.cluster.cloud, cluster, child)
        operator = OperatorRelease(name, plan.operator, child)
        if plan.device_classes:
            DeviceClasses("device-classes", plan.device_classes, child)
        if plan.monitoring is not None:
            after = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[operator]))
            MonitoringObjects("monitoring", plan.monitoring, after)
        self.release = operator.release
        self.namespace = operator.namespace
        self.register_outputs({"release": self.release, "namespace": self.namespace})
