"""The two kinds of stack file: an environment, and one team of an environment."""

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
    """Stack file of a whole platform: cluster, operator, pools, teams, monitoring, validation, policy."""

    kind: Literal["environment"]
    cluster: Cluster
    operator: Operator = Operator()
    sharing: Annotated[dict[DnsLabel, Sharing], Field(max_length=200)] = {}
    """Named sharing settings (training, inference) that pools refer to. A node changes from one to another by its
    labels nvidia.com/device-plugin.config and nvidia.com/mig.config."""
    device_classes: Annotated[dict[DeviceClassName, DeviceClass], Field(max_length=200)] = {}
    """With DRA: DeviceClasses in addition to gpu.nvidia.com and mig.nvidia.com, which the driver installs."""
    pools: Annotated[tuple[Pool, ...], Field(min_length=1, max_length=200)]
    compute_classes: Annotated[tuple[ComputeClass, ...], Field(max_length=50)] = ()
    """Pools with the same GPU resource in the order in which they get nodes, such as reserved, on demand, spot."""
    storage: Annotated[dict[DnsLabel, StorageClass], Field(max_length=50)] = {}
    """Storage classes by name, for the claims of teams. A cluster that the program creates on EKS has the default
    class gp3 besides, unless another is declared as default."""
    priorities: Annotated[dict[DnsLabel, PriorityValue], Field(max_length=200)] = {}
    """Priority classes by name and value, added to the defaults training: 100 and inference: 1000, or overriding
    them."""
    teams: Annotated[tuple[Team, ...], Field(max_length=1000)] = ()
    team_identities: Annotated[dict[DnsLabel, TeamIdentity], Field(max_length=1000)] = {}
    """EKS and GKE: identities of teams with a stack of their own, by the team's name; others have `identity`."""
    overcommit: float = Field(default=1.0, ge=1.0, le=10.0)
    """Largest allowed ratio of the sum of all team quotas to the resources that the pools offer."""
    queueing: Queueing | None = None
    """Queues of the teams' workloads. Unset: none; a workload starts when nodes have room for its first pod."""
    addons: Addons = Addons()
    charts: Annotated[dict[str, ChartSettings], Field(max_length=50)] = {}
    """Settings of the Helm charts that the program installs, by their names, such as gpu-operator."""
    chart_mirror: ChartRepository | None = None
    """Repository that has all charts under their names and versions; unset: each chart's own."""
    images: Images = Images()
    objects: Objects = Objects()
    monitoring: Monitoring = Monitoring()
    budget: Budget | None = None
    """What the nodes may cost. Unset: nothing is compared."""
    validation: Validation = Validation()
    cleanup: Cleanup | None = None
    """Reports, and on request deletes, what nobody needs any more in the teams' namespaces. Unset: nothing."""
    policy: Policy = Policy()
    changes: Changes = Changes()
    protect: bool = False
    """Refuse to destroy the stack. To lift it, deploy `protect: false` first."""


class EnvironmentReference(SpecModel):
    """Reference of a team stack to its environment."""

    stack: str = Field(pattern=r"^([^/\s]+/[^/\s]+/)?[A-Za-z0-9_.-]+$", examples=["prod"])
    """The environment's stack: `prod`, or `organization/project/prod`."""
    file: str | None = None
    """The environment's stack file, relative to this one; unset: `Pulumi.<stack>.yaml` in the same folder."""


class TeamStack(SpecModel):
    """One team with its quota, deployed to an environment that a stack reference names."""

    kind: Literal["team"]
    environment: EnvironmentReference
    team: Team
    policy: Policy = Policy()
    protect: bool = False
    """Refuse to destroy the stack. To lift it, deploy `protect: false` first."""


Stack = Annotated[Environment | TeamStack, Field(discriminator="kind")]
