"""Stack file field `queueing`: Kueue queues for the teams' workloads."""

from __future__ import annotations

from typing import Literal

from gpu_platform.stack._types import Duration, SpecModel
from gpu_platform.stack.parts import Part
from gpu_platform.stack.team import GpuUnits


class Preemption(SpecModel):
    """Which running workloads are preempted in favour of waiting workloads."""

    within_team: Literal["lower-priority", "never"] = "lower-priority"
    """Which workloads of the same team may be preempted: workloads of a lower priority class, or none."""
    reclaim: Literal["any", "lower-priority", "never"] = "any"
    """Which workloads of borrowing teams may be preempted when the team that owns the quota needs it back."""


class Queueing(SpecModel):
    """Queues for the teams' workloads. A workload waits until the quotas cover all its pods."""

    kueue: Part = "install"
    """Kueue. With `install`, the program installs it. With `present`, the owner of an existing cluster has
    installed it and configured it as docs/queueing.md describes.
    """
    without_queue: Literal["default", "refuse"] = "default"
    """What happens to a team's jobs and pods that name no queue. With `default`, they wait in the team's queue
    `default`. With `refuse`, they are refused, and the name of the team's queue is the team's name instead of
    `default`.
    """
    fair_sharing: bool = True
    """Whether borrowed quota is divided in proportion to the weights of the teams. With `false`, it goes to the
    first team that requests it.
    """
    reserve: GpuUnits = GpuUnits()
    """Quota that is reserved for teams with a separate stack. Teams can borrow the capacity that remains after all
    quotas and this reserve.
    """
    preemption: Preemption = Preemption()
    topology: bool | None = None
    """Topology-aware scheduling. A workload starts only when nodes have enough free resources for its pods. If the
    workload requests it, these nodes are close to each other. Only existing nodes are considered. The default is
    `true` if all pools have a fixed size and a device plugin. A new cluster must also have a fixed number of
    system nodes.
    """
    pods_ready_timeout: Duration = "2h"
    """Maximum time until all pods of a started workload are ready, including image pulls and loading models. After
    this time, the workload returns to the queue.
    """
