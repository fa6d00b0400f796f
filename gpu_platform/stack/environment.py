"""The two kinds of stack file: an environment, and a single team of an environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.stack._types import DnsLabel, SpecModel
from gpu_platform.stack.addons import Addons
from gpu_platform.stack.changes import Changes
from gpu_platform.stack.charts import ChartRepository, ChartSettings
from gpu_platform.stack.claims import DeviceClass, DeviceClassName
from gpu_platform.stack.cluster import Cluster, Operator
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.images import Images
from gpu_platform.stack.objects import Objects
from gpu_platform.stack.operations import Budget, Cleanup, Monitoring, Policy, Validation
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.queueing import Queueing
from gpu_platform.stack.sharing import Sharing
from gpu_platform.stack.storage import StorageClass
from gpu_platform.stack.team import Team
from gpu_platform.stack.team_identity import TeamIdentity

PriorityValue = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]


class Environment(SpecModel):
    """Stack file of a whole platform: cluster, operator, pools, teams, monitoring, validation and policy."""

    kind: Literal["environment"]
    cluster: Cluster
    operator: Operator = Operator()
    sharing: Annotated[dict[DnsLabel, Sharing], Field(max_length=200)] = {}
    """Named sharing settings, such as `training` and `inference`, that pools refer to. The node labels
    nvidia.com/device-plugin.config and nvidia.com/mig.config switch a node to other settings in this field.
    """
    device_classes: Annotated[dict[DeviceClassName, DeviceClass], Field(max_length=200)] = {}
    """DeviceClasses for DRA in addition to gpu.nvidia.com and mig.nvidia.com. The DRA driver installs these two.
    """
    pools: Annotated[tuple[Pool, ...], Field(min_length=1, max_length=200)]
    compute_classes: Annotated[tuple[ComputeClass, ...], Field(max_length=50)] = ()
    """Compute classes: pools with the same GPU resource. Each compute class lists its pools in the order in which
    they receive nodes, such as reserved, on-demand, spot.
    """
    storage: Annotated[dict[DnsLabel, StorageClass], Field(max_length=50)] = {}
    """Storage classes for the teams' volume claims, by name. An EKS cluster that the program creates also has the
    default storage class gp3, unless another storage class is declared as default.
    """
    priorities: Annotated[dict[DnsLabel, PriorityValue], Field(max_length=200)] = {}
    """Priority classes, by name and value. They extend or override the defaults `training: 100` and `inference:
    1000`.
    """
    teams: Annotated[tuple[Team, ...], Field(max_length=1000)] = ()
    team_identities: Annotated[dict[DnsLabel, TeamIdentity], Field(max_length=1000)] = {}
    """Identities of teams with a separate stack, by team name, on EKS and GKE. Teams in this file use the field
    `identity` instead.
    """
    overcommit: float = Field(default=1.0, ge=1.0, le=10.0)
    """Maximum sum of all team quotas, as a multiple of the resources that the pools offer."""
    queueing: Queueing | None = None
    """Queues of the teams' workloads. If unset, there are no queues, and a workload starts when a node has enough
    free resources for its first pod.
    """
    addons: Addons = Addons()
    charts: Annotated[dict[str, ChartSettings], Field(max_length=50)] = {}
    """Settings of the Helm charts that the program installs, by chart name, such as gpu-operator."""
    chart_mirror: ChartRepository | None = None
    """Repository that contains all charts under their original names and versions. The default is each chart's
    original repository.
    """
    images: Images = Images()
    objects: Objects = Objects()
    monitoring: Monitoring = Monitoring()
    budget: Budget | None = None
    """Maximum cost of the nodes. If unset, no cost is checked."""
    validation: Validation = Validation()
    cleanup: Cleanup | None = None
    """Clean-up that reports, and optionally deletes, unused objects in the teams' namespaces. If unset, there is
    no clean-up.
    """
    policy: Policy = Policy()
    changes: Changes = Changes()
    protect: bool = False
    """Refuse to destroy the stack. To remove the protection, first deploy `protect: false`."""


class EnvironmentReference(SpecModel):
    """Reference from a team stack to its environment."""

    stack: str = Field(pattern=r"^([^/\s]+/[^/\s]+/)?[A-Za-z0-9_.-]+$", examples=["prod"])
    """Stack name of the environment, such as `prod` or `organization/project/prod`."""
    file: str | None = None
    """Stack file of the environment, relative to this file. The default is `Pulumi.<stack>.yaml` in the same
    folder.
    """


class TeamStack(SpecModel):
    """Stack file of a single team with its quota. The team is deployed to the environment that `environment`
    refers to.
    """

    kind: Literal["team"]
    environment: EnvironmentReference
    team: Team
    policy: Policy = Policy()
    protect: bool = False
    """Refuse to destroy the stack. To remove the protection, first deploy `protect: false`."""


Stack = Annotated[Environment | TeamStack, Field(discriminator="kind")]
