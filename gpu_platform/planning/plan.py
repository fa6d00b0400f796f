"""The immutable Plan, in which every decision is resolved. Components, validators and reports read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_platform.planning.addons.section import AddonsPlan
from gpu_platform.planning.burn_in.section import BurnInPlan
from gpu_platform.planning.charts.section import ChartsPlan
from gpu_platform.planning.cleanup.section import CleanupPlan
from gpu_platform.planning.clouds.identities import CloudIdentities
from gpu_platform.planning.clouds.section import ClusterPlan
from gpu_platform.planning.clouds.storage import StoragePlan, VolumePlan
from gpu_platform.planning.cost.section import CostPlan
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.dra.section import DeviceClassPlan
from gpu_platform.planning.guide.section import GuidePlan
from gpu_platform.planning.headroom.section import HeadroomPlan
from gpu_platform.planning.maintenance.section import ChangesPlan
from gpu_platform.planning.monitoring.section import MonitoringPlan
from gpu_platform.planning.objects.section import ObjectsPlan
from gpu_platform.planning.operator.section import OperatorPlan
from gpu_platform.planning.policy.section import PolicyPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.queues.section import QueuesPlan, TeamQueuePlan
from gpu_platform.planning.teams.section import PriorityClassPlan, TeamPlan
from gpu_platform.planning.validation.section import ValidationPlan
from gpu_platform.planning.workloads.section import TeamWorkloadsPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """The plan of a whole platform."""

    kind: Literal["environment"]
    stack: str
    cluster: ClusterPlan
    operator: OperatorPlan
    pools: tuple[PoolPlan, ...]
    priority_classes: tuple[PriorityClassPlan, ...]
    device_classes: tuple[DeviceClassPlan, ...]
    teams: tuple[TeamPlan, ...]
    monitoring: MonitoringPlan | None
    validation: ValidationPlan
    policy: PolicyPlan
    cost: CostPlan
    decisions: tuple[Decision, ...]
    changes: ChangesPlan = field(default_factory=ChangesPlan)
    storage: StoragePlan = field(default_factory=StoragePlan)
    identities: CloudIdentities | None = None
    """Cloud resources for team identities."""
    queues: QueuesPlan | None = None
    workloads: tuple[TeamWorkloadsPlan, ...] = ()
    """Workloads that teams run in addition to their Deployments."""
    guides: tuple[GuidePlan, ...] = ()
    """Instructions for the members of each team."""
    addons: AddonsPlan = field(default_factory=AddonsPlan)
    charts: ChartsPlan = field(default_factory=ChartsPlan)
    objects: ObjectsPlan = field(default_factory=ObjectsPlan)
    cleanup: CleanupPlan | None = None
    headroom: HeadroomPlan | None = None
    burn_in: BurnInPlan | None = None
    """Active checks, which run on request. None if the stack file declares none."""
    protect: bool
    """Whether every deployment engine refuses to destroy the stack."""
    quota_limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Upper limits for the sum of the quotas of all stacks on the environment, by ResourceQuota key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamStackPlan:
    """The stack of one team, on top of the environment that `environment_stack` deploys."""

    kind: Literal["team"]
    stack: str
    environment_stack: str
    cluster: ClusterPlan
    teams: tuple[TeamPlan, ...]
    policy: PolicyPlan
    decisions: tuple[Decision, ...]
    queues: tuple[TeamQueuePlan, ...] = ()
    volumes: tuple[VolumePlan, ...] = ()
    """The existing volumes that the environment gives the team."""
    workloads: tuple[TeamWorkloadsPlan, ...] = ()
    """Workloads that the team runs in addition to its Deployments."""
    guides: tuple[GuidePlan, ...] = ()
    """Instructions for the members of the team."""
    objects: ObjectsPlan = field(default_factory=ObjectsPlan)
    protect: bool
    """Whether every deployment engine refuses to destroy the stack."""
    quota_limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Upper limits for the sum of the quotas of all stacks on the environment, by ResourceQuota key."""


Plan = EnvironmentPlan | TeamStackPlan
