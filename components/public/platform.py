"""`GpuPlatform`: a whole platform, with the same sections as a stack file."""

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
    """Arguments of a platform, which are the sections of a stack file."""

    cluster: Required[PlatformCluster]
    """The cluster, either an existing cluster or a new one on EKS, GKE or AKS with `create`."""
    pools: Required[Sequence[Pool]]
    """GPU node pools."""
    operator: Operator
    """The NVIDIA GPU Operator. If unset, the catalogue's default release is used."""
    teams: Sequence[Team]
    """Teams with their quotas, members and workloads."""
    team_identities: Mapping[str, TeamIdentity]
    """EKS and GKE: identities of teams that have their own stack file, by the team's name."""
    priorities: Mapping[str, float]
    """Values of the priority classes by name. If unset, `training` is 100 and `inference` is 1000."""
    device_classes: Mapping[str, DeviceClass]
    """With DRA: DeviceClasses in addition to those that the driver creates."""
    compute_classes: Sequence[ComputeClass]
    """EKS and GKE: pools with the same GPUs, in the order in which nodes are added to them."""
    storage: Mapping[str, StorageClass]
    """EKS, GKE and AKS: storage classes by name, for the teams' volume claims."""
    overcommit: float
    """Maximum ratio of the quotas of all teams to the pools' resources. The default is 1."""
    queueing: Queueing
    """Queues for the teams' workloads, managed by Kueue. If unset, there are no queues."""
    addons: Addons
    """All except the sandbox: controllers for team members' workloads. If unset, none are installed."""
    charts: Mapping[str, ChartSettings]
    """All except the sandbox: settings of the installed Helm charts, by chart name."""
    chart_mirror: str
    """Repository with all charts under their names and versions. If unset, each chart comes from its own
    repository.
    """
    images: Images
    """Registry for the images of the program's own pods. If unset, each image comes from its own registry."""
    objects: Objects
    """Company labels and annotations for every Kubernetes object. If unset, none are added."""
    monitoring: Monitoring
    """GPU metrics and alerts."""
    budget: Budget
    """Budget for the nodes' cost. If unset, the cost is not checked."""
    validation: ValidationSettings
    """Validation of every node before teams can use it."""
    cleanup: Cleanup
    """Clean-up that reports unused objects in the teams' namespaces, and deletes them if configured. If unset,
    there is no clean-up.
    """
    changes: Changes
    """When nodes may be changed, and how many at a time. `window` is allowed only for a GKE cluster that the
    component creates. `max_unavailable` is the upper limit for the `max_unavailable` of each pool.
    """


class GpuPlatform(pulumi.ComponentResource):
    """A GPU platform with its cluster, node pools, GPU Operator, monitoring, validation and teams.

    Create only one per stack. It registers the same resources as a stack file with the same sections.
    """

    kubeconfig: pulumi.Output[Optional[str]]  # noqa: UP045 - the SDK reads this annotation
    """Kubeconfig of the cluster. For EKS, GKE and AKS it is the content, without a token. Otherwise it is the
    path, if one is given.
    """
    context: pulumi.Output[Optional[str]]  # noqa: UP045 - the SDK reads this annotation
    """Context of the kubeconfig."""
    operator_release: pulumi.Output[str]
    """Version of the GPU Operator."""
    namespaces: pulumi.Output[list[str]]
    """Namespaces of the teams."""
    cost_usd_per_hour: pulumi.Output[Optional[float]]  # noqa: UP045 - the SDK reads this annotation
    """List price of the desired nodes in USD per hour, or none if a price is not known."""

    def __init__(self, name: str, args: GpuPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) that lists every problem with the arguments."""
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
