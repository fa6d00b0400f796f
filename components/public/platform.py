"""`GpuPlatform`: a whole platform, as a stack file describes one."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Required, TypedDict, cast

import pulumi

from components.public._environment import create_environment, passing_on
from components.public._planning import plan_whole_platform
from components.public.stack_file_types import (
    Addons,
    Budget,
    Changes,
    ChartSettings,
    Cleanup,
    ComputeClass,
    DeviceClass,
    Images,
    Monitoring,
    Objects,
    Operator,
    PlatformCluster,
    Pool,
    Queueing,
    StorageClass,
    Team,
    TeamIdentity,
    ValidationSettings,
)


class GpuPlatformArgs(TypedDict, total=False):
    """Arguments of a platform: the sections of a stack file."""

    cluster: Required[PlatformCluster]
    """The cluster: an existing one, or with `create` a new one on EKS or GKE."""
    pools: Required[Sequence[Pool]]
    """GPU node pools."""
    operator: Operator
    """The NVIDIA GPU Operator. Unset: the catalogue's default release."""
    teams: Sequence[Team]
    """Teams with their quotas, members and workloads."""
    team_identities: Mapping[str, TeamIdentity]
    """EKS and GKE: identities of teams with a stack file of their own, by the team's name."""
    priorities: Mapping[str, float]
    """Values of the priority classes by name. Unset: training: 100, inference: 1000."""
    device_classes: Mapping[str, DeviceClass]
    """With DRA: DeviceClasses beside those of the driver."""
    compute_classes: Sequence[ComputeClass]
    """EKS and GKE: pools with the same GPUs, in the order in which they get nodes."""
    storage: Mapping[str, StorageClass]
    """EKS and GKE: storage classes by name, for the claims of teams."""
    overcommit: float
    """How many times the quotas of all teams may exceed what the pools offer. Unset: 1."""
    queueing: Queueing
    """Queues of the teams' workloads, by Kueue. Unset: none."""
    addons: Addons
    """EKS, GKE and existing clusters: controllers of what members run. Unset: none."""
    charts: Mapping[str, ChartSettings]
    """EKS, GKE and existing clusters: settings of the Helm charts that are installed, by their names."""
    chart_mirror: str
    """Repository that has all charts under their names and versions. Unset: each chart's own."""
    images: Images
    """From which registry the images of the program's own pods come. Unset: each image's own."""
    objects: Objects
    """Labels and annotations of the company on every Kubernetes object. Unset: none."""
    monitoring: Monitoring
    """Metrics and alerts of the GPUs."""
    budget: Budget
    """What the nodes may cost. Unset: nothing is compared."""
    validation: ValidationSettings
    """Validation of every node before teams get it."""
    cleanup: Cleanup
    """Reports, and on request deletes, what nobody needs any more in the namespaces of teams. Unset: nothing."""
    changes: Changes
    """When nodes may be changed, and how many at a time. A `window` is that of a GKE cluster that the component
    creates, and refused elsewhere; `max_unavailable` is the most that a pool's own may be."""


class GpuPlatform(pulumi.ComponentResource):
    """A GPU platform: cluster, node pools, GPU Operator, monitoring, validation and teams. One per stack.

    It registers the same resources as a stack file with the same sections.
    """

    kubeconfig: pulumi.Output[Optional[str]]  # noqa: UP045 - the SDK reads this annotation
    """Kubeconfig of the cluster: its content for EKS and GKE, with no token in it; else its path, where given."""
    context: pulumi.Output[Optional[str]]  # noqa: UP045 - the SDK reads this annotation
    """Context of the kubeconfig."""
    operator_release: pulumi.Output[str]
    """Version of the GPU Operator."""
    namespaces: pulumi.Output[list[str]]
    """Namespaces of the teams."""
    cost_usd_per_hour: pulumi.Output[Optional[float]]  # noqa: UP045 - the SDK reads this annotation
    """List price of the desired nodes, USD per hour; none where a price is not known."""

    def __init__(self, name: str, args: GpuPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) with every problem of the arguments."""
        plan = plan_whole_platform("GpuPlatform", name, cast("Mapping[str, Any]", args))
        super().__init__("gpu-platform:index:GpuPlatform", name, None, passing_on(opts))
        outputs = create_environment(self, name, plan)
        self.kubeconfig = pulumi.Output.from_input(outputs["kubeconfig"])
        self.context = pulumi.Output.from_input(outputs["context"])
        self.operator_release = pulumi.Output.from_input(outputs["operator"])
        self.namespaces = pulumi.Output.from_input(outputs["namespaces"])
        self.cost_usd_per_hour = pulumi.Output.from_input(outputs["cost_usd_per_hour"])
        self.register_outputs(
            {
                "kubeconfig": self.kubeconfig,
                "context": self.context,
                "operatorRelease": self.operator_release,
                "namespaces": self.namespaces,
                "costUsdPerHour": self.cost_usd_per_hour,
            }
        )
