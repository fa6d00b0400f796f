"""Stack file field `queueing`: queues for the workloads of teams, by Kueue."""

from __future__ import annotations

from typing import Literal

from gpu_platform.stack._types import Duration, SpecModel
from gpu_platform.stack.parts import Part
from gpu_platform.stack.team import GpuUnits


class Preemption(SpecModel):
    """Which running workloads are stopped for waiting ones."""

    within_team: Literal["lower-priority", "never"] = "lower-priority"
    """Workloads of the same team: those of a lower priority class, or none."""
    reclaim: Literal["any", "lower-priority", "never"] = "any"
    """Workloads of teams that borrow, when the team whose quota it is needs it."""


class Queueing(SpecModel):
    """Queues of the workloads of teams: a workload starts when all its pods fit the quotas, else it waits."""

    kueue: Part = "install"
    """`install`: the program installs Kueue; `present`: the owner of an existing cluster has installed it and
    configures it as docs/queueing.md says."""
    without_queue: Literal["default", "refuse"] = "default"
    """Jobs and pods of a team that name no queue: they wait in the team's queue `default`, or they are refused and
    the queue has the team's name."""
    fair_sharing: bool = True
    """Divide what teams borrow by their weights; else the first that asks gets it."""
    reserve: GpuUnits = GpuUnits()
    """Quota that is kept for teams with a stack of their own. Teams borrow what neither a quota nor this has."""
    preemption: Preemption = Preemption()
    topology: bool | None = None
    """Start a workload only when nodes have room for its pods, near each other if it asks for that
    (topology-aware scheduling). It sees only nodes that exist. Unset: yes if all pools have a fixed size and a
    device plugin, and the system nodes of a new cluster have a fixed number, too."""
    pods_ready_timeout: Duration = "2h"
    """Time until all pods of a started workload must be ready, with the pull of images and the load of models;
    after it the workload goes back to the queue."""
