"""`GpuOperator`: the NVIDIA GPU Operator of a cluster, with all that its pools need once per cluster."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, cast

import pulumi

from components.device_claims import DeviceClasses
from components.gpu_operator import GpuOperator as OperatorRelease
from components.monitoring import Monitoring as MonitoringObjects
from components.priority_classes import PriorityClasses
from components.public._cluster import create_plugins, kubernetes_options, plugin_problems
from components.public._errors import BadArguments
from components.public._planning import plan_operator
from components.public.stack_file_types import DeviceClass, Monitoring, Operator, Pool
from components.public.types import GpuCluster


class GpuOperatorArgs(TypedDict, total=False):
    """Arguments of the GPU Operator: sections of a stack file."""

    cluster: Required[GpuCluster]
    """The cluster; it exists, or the same program creates it."""
    pools: Required[Sequence[Pool]]
    """All GPU node pools of the cluster: the operator's configuration follows from them."""
    operator: Operator
    """Release, driver and toolkit. Unset: the catalogue's default release."""
    monitoring: Monitoring
    """Metrics and alerts of the GPUs."""
    priorities: Mapping[str, float]
    """Values of the priority classes by name. Unset: training: 100, inference: 1000."""
    device_classes: Mapping[str, DeviceClass]
    """With DRA: DeviceClasses beside those of the driver."""


class GpuOperator(pulumi.ComponentResource):
    """The NVIDIA GPU Operator, and what GPU pools need once per cluster: one per cluster.

    The operator's release with its sharing and MIG configurations, priority classes, DeviceClasses, monitoring,
    and the cloud's own plugins: on EKS the EFA device plugin, on GKE the installers of drivers and GPUDirect and
    the networks that pods join. Its child of the same type is the operator alone.
    """

    release: pulumi.Output[str]
    """Version of the GPU Operator."""
    namespace: pulumi.Output[str]
    """Namespace of the GPU Operator."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) with every problem of the arguments."""
        arguments = cast("Mapping[str, Any]", args)
        plan = plan_operator("GpuOperator", name, arguments)
        missing = plugin_problems(plan, arguments["cluster"])
        if missing:
            raise BadArguments(f"GpuOperator {name}", missing)
        super().__init__("gpu-platform:index:GpuOperator", name, None, opts)
        child = kubernetes_options(self, name, arguments["cluster"], opts)
        PriorityClasses("priority-classes", plan.priority_classes, child)
        create_plugins(name, plan, arguments["cluster"], child)
        operator = OperatorRelease(name, plan.operator, child)
        if plan.device_classes:
            DeviceClasses("device-classes", plan.device_classes, child)
        if plan.monitoring is not None:
            after = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[operator]))
            MonitoringObjects("monitoring", plan.monitoring, after)
        self.release = operator.release
        self.namespace = operator.namespace
        self.register_outputs({"release": self.release, "namespace": self.namespace})
