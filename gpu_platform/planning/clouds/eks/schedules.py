"""Check and plan schedules of managed node groups. A schedule consists of scheduled actions of the node group's
Auto Scaling group.

Like an action for a capacity block, an action sets only the node count. EKS keeps control of the minimum and the
maximum. Nothing else may change the node count, so the pool must have a fixed size. The cluster's owner must not
run an autoscaler, because it would discover every node group. While the pool is on, `up` changes the number only
after an edit to `count`.

Sources, read 2026-11-25:
- EC2 Auto Scaling user guide, "Scheduled scaling for Amazon EC2 Auto Scaling" (recurrence by cron, IANA time
  zones, daylight saving time).
- EKS user guide, "Simplify node lifecycle with managed node groups". EKS drains nodes when the desired number is
  reduced, and terminates them after 15 minutes in any case.
- terraform-aws-modules/terraform-aws-eks#2504 (the same resource on the group of a managed node group).
"""

from __future__ import annotations

from typing import Final

from gpu_platform.planning.clouds.eks.blocks import ScheduledSize
from gpu_platform.planning.clouds.eks.karpenter_checks import managed_instead
from gpu_platform.planning.clouds.schedules import SchedulePlan, schedule_of
from gpu_platform.planning.maintenance.section import DAYS
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import EksCluster
from gpu_platform.stack.pool import CapacityBlock, Pool, Reservation

_INSTEAD: Final = "nodes without pods are removed anyway, and cleanup.idle_after stops idle notebooks"


def check_schedule(pool: Pool, cluster: EksCluster, problems: Problems) -> None:
    """Record a problem if a pool's schedule would save nothing, interrupt work, or be undone by an autoscaler.

    `problems` points at the pool.
    """
    if pool.schedule is None:
        return
    here = problems.at("schedule")
    if pool.provisioner == "karpenter":
        here.add(
            "a schedule with provisioner karpenter",
            "a schedule only on a managed node group, because Karpenter creates nodes whenever pods are pending",
            f"remove schedule: {_INSTEAD}; or {managed_instead(pool)}, with a fixed count",
        )
    elif pool.count.is_range:
        here.add(
            f"a schedule on a pool of {pool.count.min} to {pool.count.maximum} nodes",
            (
                "a schedule only on a pool with a fixed number of nodes, because an autoscaler adds nodes "
                "whenever pods are pending"
            ),
            f"write count: {{desired: {pool.count.desired or pool.count.maximum}}}, or remove schedule: "
            + _INSTEAD,
        )
    elif isinstance(pool.capacity, Reservation | CapacityBlock):
        here.add(
            f"a schedule with {pool.capacity.type} capacity",
            "a schedule on pools that are paid by the hour",
            "remove schedule: reserved capacity costs the same when it is not used",
        )
    elif pool.workload != "development" and not pool.schedule.stops_work:
        here.add(
            f"a schedule on a pool with workload {pool.workload}",
            "development pools, or stops_work: true: pods still running at the stop time are terminated, jobs "
            "without checkpoints lose their work, and services do not answer",
            "write stops_work: true, or remove schedule",
        )
    if pool.count.min > 0 and not pool.count.is_range:
        problems.at("count").at("min").add(
            f"{pool.count.min} with a schedule",
            "0: the node group has no nodes while the pool is off",
            "remove min",
        )
    if cluster.parts.cluster_autoscaler == "present":
        here.add(
            "a schedule together with cluster.parts.cluster_autoscaler: present",
            "install or none: EKS tags every node group for the autoscaler of the cluster's owner, which would "
            "add nodes for pending pods while the pool is off",
            "write cluster.parts.cluster_autoscaler: install, or none, or remove schedule",
        )


def scheduled_sizes(pool: Pool) -> tuple[ScheduledSize, ...]:
    """Return the actions that start and stop the nodes of a pool. The result is empty if the pool has no schedule.

    The stop action runs every day, so that it also removes nodes that a person or an `up` started on another day.
    """
    schedule = schedule_of(pool.schedule)
    if schedule is None:
        return ()
    days = ",".join(str((DAYS.index(day) + 1) % 7) for day in schedule.days)  # in cron, 0 is Sunday
    return (
        _action("start", schedule, schedule.start, days, pool.count.desired),
        _action("stop", schedule, schedule.stop, "*", 0),
    )


def _action(what: str, schedule: SchedulePlan, at: str, days: str, nodes: int) -> ScheduledSize:
    hour, minute = (int(part) for part in at.split(":"))
    recurrence = f"{minute} {hour} * * {days}"
    named = f"{hour:02}{minute:02}-{days.replace(',', '') if days != '*' else 'daily'}"
    zone = schedule.time_zone.replace("/", "-").replace("+", "p")
    return ScheduledSize(
        name=f"gpu-platform-{what}-{named}-{zone}-{nodes}",
        recurrence=recurrence,
        nodes=nodes,
        time_zone=schedule.time_zone,
    )
