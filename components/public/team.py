"""`GpuTeam`: one team's namespace on a cluster with GPU pools."""

from collections.abc import Mapping, Sequence
from typing import Any, Required, cast

import pulumi

from components.public._cluster import kubernetes_options
from components.public._planning import plan_team
from components.public.stack_file_types import DeviceClass, Operator, Pool, TeamSettings
from components.public.types import GpuCluster
from components.team_namespace import TeamNamespace, TeamNamespaceArgs


class GpuTeamArgs(TeamSettings, total=False):
    """Arguments of a team: the fields of `teams[]` in a stack file, and the pools of the cluster."""

    cluster: Required[GpuCluster]
    """The cluster, either an existing cluster or one that the same program creates."""
    pools: Required[Sequence[Pool]]
    """All GPU node pools of the cluster. The team's quota is compared with their resources."""
    operator: Operator
    """The GPU Operator of the cluster."""
    name: str
    """Name of the team and of its namespace. The default is the name of the component."""
    priorities: Mapping[str, float]
    """Values of the cluster's priority classes by name. If unset, `training` is 100 and `inference` is 1000."""
    device_classes: Mapping[str, DeviceClass]
    """With DRA: DeviceClasses of the cluster in addition to those that the driver creates."""
    overcommit: float
    """Maximum ratio of the quota to the pools' resources. The default is 1."""


class GpuTeam(pulumi.ComponentResource):
    """A team's namespace, with quotas for each kind of GPU, limits, access, network policies, and its workloads.

    The quota of each team is checked separately. GpuPlatform also checks the sum of all teams' quotas.
    """

    namespace: pulumi.Output[str]
    """Namespace of the team."""
    quota: pulumi.Output[dict[str, str]]
    """Hard limits of the team's ResourceQuota."""

    def __init__(self, name: str, args: GpuTeamArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Raises BadArguments (a pulumi.RunError) that lists every problem with the arguments."""
        arguments = cast("Mapping[str, Any]", args)
        plan, guide, workloads = plan_team("GpuTeam", name, arguments)
        super().__init__("gpu-platform:index:GpuTeam", name, None, opts)
        team = TeamNamespace(
            plan.namespace,
            TeamNamespaceArgs(plan=plan, guide=guide, workloads=workloads),
            kubernetes_options(self, name, arguments["cluster"], opts),
        )
        self.namespace = team.namespace
        self.quota = pulumi.Output.from_input(dict(plan.quota))
        self.register_outputs({"namespace": self.namespace, "quota": self.quota})
