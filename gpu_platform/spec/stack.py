"""The two kinds of stack: an environment, and one team's share on top of one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.spec._types import DnsLabel, SpecModel
from gpu_platform.spec.claims import DeviceClass, DeviceClassName
from gpu_platform.spec.cluster import Cluster, Operator
from gpu_platform.spec.operations import Monitoring, Policy, Validation
from gpu_platform.spec.pool import Pool
from gpu_platform.spec.sharing import Sharing
from gpu_platform.spec.team import Team

PriorityValue = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]


class Environment(SpecModel):
    """A whole platform: cluster, operator, pools, teams, monitoring, validation, policy."""

    kind: Literal["environment"]
    cluster: Cluster
    operator: Operator = Operator()
    sharing: dict[DnsLabel, Sharing] = {}
    """Ways to share a GPU by name (training, inference): pools name them, and a node is moved from one to another
    by its labels nvidia.com/device-plugin.config and nvidia.com/mig.config."""
    device_classes: dict[DeviceClassName, DeviceClass] = {}
    """With DRA: DeviceClasses beside gpu.nvidia.com and mig.nvidia.com, which come with the driver."""
    pools: Annotated[tuple[Pool, ...], Field(min_length=1)]
    priorities: dict[DnsLabel, PriorityValue] = {}
    """Priority classes beside, or instead of, the defaults training: 100 and inference: 1000."""
    teams: tuple[Team, ...] = ()
    overcommit: float = Field(default=1.0, ge=1.0, le=10.0)
    """How many times the teams' quotas may sum to what the pools offer."""
    monitoring: Monitoring = Monitoring()
    validation: Validation = Validation()
    policy: Policy = Policy()


class EnvironmentReference(SpecModel):
    """The environment that a team stack stands on."""

    stack: str = Field(pattern=r"^([^/\s]+/[^/\s]+/)?[A-Za-z0-9_.-]+$", examples=["prod"])
    """The environment's stack: `prod`, or `organization/project/prod`."""
    file: str | None = None
    """Its stack file, relative to this one; unset: `Pulumi.<stack>.yaml` beside it."""


class TeamStack(SpecModel):
    """One team's share, on top of an environment reached by a stack reference."""

    kind: Literal["team"]
    environment: EnvironmentReference
    team: Team
    policy: Policy = Policy()


Stack = Annotated[Environment | TeamStack, Field(discriminator="kind")]
