"""Check EC2 Capacity Blocks, and plan when their node groups have nodes and when the next block takes over.

Sources, read 2026-11-23:
- EKS user guide, "Manage compute for AI/ML workloads on Amazon EKS with node groups". A node group that is created
  before its block begins has desired size 0, and a scheduled action scales it up at the start. EKS adds the action
  "Amazon EKS Node Group Capacity Scaledown Before Reservation End". The action scales the group to zero 40 minutes
  before the end, and must not be edited.
- EC2 user guide, Capacity Blocks. EC2 terminates instances from 30 minutes before the end. With scheduled scaling,
  AWS handles retries.
- Amazon EC2 Auto Scaling user guide, "Use Capacity Blocks for machine learning workloads". An Auto Scaling group
  uses one block.

Instances of some families must be terminated before EKS empties the node group (`instances_end_minutes` of
`AwsFamily`). For these families the program adds its own scheduled action, which empties the group earlier.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gpu_platform.base.quantity import duration_text
from gpu_platform.catalog.models import AwsFamily
from gpu_platform.planning.clouds.endings import PodEnding, window_endings
from gpu_platform.planning.clouds.windows import CapacityWindow, utc_text
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import CapacityBlock, Pool, Reservation

DRAIN_BEFORE_END = timedelta(minutes=40)
"""How long before the end of a capacity block EKS scales its nodes to zero."""
_TIME_TO_DRAIN = timedelta(minutes=10)
"""Time from the start of a node's drain until its instance is terminated. EKS allows the same time for families
without `instances_end_minutes`.
"""
_LONGEST = timedelta(days=364)
_AFTER_START = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSize:
    """A scheduled action that sets the node count of a node group's Auto Scaling group.

    `recurrence` is a cron expression with minute, hour, day, month and weekday. `time_zone` is its IANA time zone,
    or None for UTC. The action recurs, because Auto Scaling rejects a one-time action whose time has passed, and
    deletes a one-time action once it has run. After a refresh of the state, every later `up` would then fail
    (terraform-provider-aws#3033, read 2026-11-23). A recurring action can be created at any time, and is not
    deleted. The action for a block runs once a year, and a block is reserved at most eight weeks ahead.

    `name` contains the time and the size, so that a change to either creates a new action. An update of the old
    action would send the time that AWS computed for its last run (terraform-provider-aws#38983).
    """

    name: str
    recurrence: str
    nodes: int
    time_zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """A capacity block and the node group for its nodes.

    The stack file can declare a single block or a list of blocks, and the name of the first node group depends on
    this form. `former_name` is the name of the first group in the other form. An existing group keeps that name.
    If `start` is None, the group is created with its nodes. If `stop` is None, EKS empties the group before the
    block ends.
    """

    node_group: str
    window: CapacityWindow
    start: ScheduledSize | None
    stop: ScheduledSize | None
    former_name: str | None


def drain_before_end(family: AwsFamily) -> timedelta:
    """Return how long before the end of a capacity block its nodes are drained."""
    return max(DRAIN_BEFORE_END, timedelta(minutes=family.instances_end_minutes) + _TIME_TO_DRAIN)


def windows_of(pool: Pool, drain: timedelta = DRAIN_BEFORE_END) -> tuple[CapacityWindow, ...]:
    """Return the reserved capacity of a pool, sorted by time. Capacity that is not completely declared is left
    out.

    `drain` is how long before the end of a block its nodes are drained.
    """
    match pool.capacity:
        case Reservation(reservation=reservation, zone=zone):
            return (CapacityWindow(reservation=reservation, zone=zone),)
        case CapacityBlock() as capacity:
            return _windows(capacity, drain)
        case _:
            return ()


def _windows(capacity: CapacityBlock, drain: timedelta) -> tuple[CapacityWindow, ...]:
    if capacity.blocks is None:
        if capacity.reservation is None or capacity.zone is None:
            return ()
        single = CapacityWindow(
            reservation=capacity.reservation,
            zone=capacity.zone,
            starts=capacity.starts,
            ends=capacity.ends,
            drain=drain,
        )
        return (single,)
    found = (
        CapacityWindow(
            reservation=one.reservation,
            zone=one.zone,
            starts=one.starts,
            ends=one.ends,
            drain=drain,
        )
        for one in capacity.blocks
    )
    return tuple(sorted(found, key=lambda one: one.starts or datetime.min.replace(tzinfo=UTC)))


def block_endings(windows: Sequence[CapacityWindow]) -> tuple[PodEnding, ...]:
    """Return when and why pods are terminated at the end of a capacity block.

    The result is empty for other reserved capacity.
    """
    drain = next((window.drain for window in windows if window.drain), timedelta())
    why = f"nodes of a capacity block are drained {minutes(drain)} minutes before its end"
    return window_endings(windows, why, int(_TIME_TO_DRAIN.total_seconds()))


def plan_blocks(pool: Pool, family: AwsFamily) -> tuple[BlockPlan, ...]:
    """Return the capacity blocks of a pool, sorted by time. The result is empty if the pool uses no capacity
    blocks.
    """
    if not isinstance(pool.capacity, CapacityBlock):
        return ()
    several = pool.capacity.blocks is not None
    return tuple(
        BlockPlan(
            node_group=_own_name(pool, window) if several else pool.name,
            window=window,
            start=_start(pool, window),
            stop=_stop(window),
            # The node group of the earliest block keeps its name if later blocks are added to the stack file.
            # The node group also keeps its name if all later blocks are removed from the stack file.
            former_name=(pool.name if several else _own_name(pool, window)) if index == 0 else None,
        )
        for index, window in enumerate(windows_of(pool, drain_before_end(family)))
    )


def _own_name(pool: Pool, window: CapacityWindow) -> str:
    """Return the name of a block's node group.

    It has at most 63 characters, because a pool's name has at most 40.
    """
    return f"{pool.name}-{window.reservation.removeprefix('cr-')}"


def _start(pool: Pool, window: CapacityWindow) -> ScheduledSize | None:
    if window.starts is None or pool.provisioner == "karpenter":
        return None
    # If instances are launched before the block is active, the launch fails and is retried only later.
    return _scheduled("start", window.starts + _AFTER_START, pool.count.desired)


def _stop(window: CapacityWindow) -> ScheduledSize | None:
    if window.drains is None or window.drain <= DRAIN_BEFORE_END:
        return None
    return _scheduled("stop", window.drains, 0)


def _scheduled(what: str, when: datetime, nodes: int) -> ScheduledSize:
    at = when.astimezone(UTC)
    return ScheduledSize(
        name=f"gpu-platform-{what}-{at:%Y%m%dT%H%MZ}-{nodes}",
        recurrence=f"{at.minute} {at.hour} {at.day} {at.month} *",
        nodes=nodes,
    )


def check_form(capacity: CapacityBlock, here: Problems) -> bool:
    """Return whether capacity is declared either as a single block or as a list of blocks. If not, record a
    problem.
    """
    single = [name for name in ("reservation", "zone", "starts", "ends") if getattr(capacity, name) is not None]
    if capacity.blocks is not None and single:
        here.at("blocks").add(
            f"blocks together with {', '.join(single)}",
            "blocks, or the fields of a single block",
            "move the single block into a new entry of blocks",
        )
        return False
    missing = [name for name in ("reservation", "zone") if getattr(capacity, name) is None]
    if capacity.blocks is None and missing:
        (here if len(missing) > 1 else here.at(missing[0])).add(
            f"a capacity block without {' and '.join(missing)}",
            "the reservation and zone of a block, or a list of blocks in `blocks`",
            "write the id and the zone that aws ec2 describe-capacity-reservations shows",
        )
        return False
    return True


def check_blocks(pool: Pool, capacity: CapacityBlock, family: AwsFamily, here: Problems) -> None:
    """Record problems for impossible times, overlapping blocks, and a `min` above 0 if a node group is sometimes
    empty.
    """
    drain = drain_before_end(family)
    if capacity.blocks is None:
        _check_times(capacity.starts, capacity.ends, drain, here)
    else:
        for index, block in enumerate(capacity.blocks):
            _check_times(block.starts, block.ends, drain, here.at("blocks").at(f"[{index}]"))
        _check_together(capacity, here.at("blocks"))
    windows = _windows(capacity, drain)
    scheduled = any(window.starts is not None or _stop(window) is not None for window in windows)
    if scheduled and pool.count.min > 0 and pool.provisioner == "managed":
        pool_problems = Problems(here.path.removesuffix(".capacity"), here.found)
        pool_problems.at("count").at("min").add(
            f"{pool.count.min} with a capacity block and scheduled actions that start or stop its nodes",
            "0: the node group has no nodes before the block begins or after it ends",
            "remove min",
        )


def _check_times(starts: datetime | None, ends: datetime | None, drain: timedelta, here: Problems) -> None:
    if starts is None or ends is None:
        return
    if ends - drain <= starts:
        here.at("ends").add(
            f"{utc_text(ends)}, with a start at {utc_text(starts)}",
            f"an end more than {minutes(drain)} minutes after the start: {who_drains(drain)} {minutes(drain)} "
            "minutes before the end",
            "copy starts and ends from StartDate and EndDate in aws ec2 describe-capacity-reservations",
        )
    elif ends - starts > _LONGEST:
        here.at("ends").add(
            f"{utc_text(ends)}, {(ends - starts).days} days after the start",
            f"at most {_LONGEST.days} days after the start: the action that starts the nodes runs once a year",
            "copy starts and ends from StartDate and EndDate in aws ec2 describe-capacity-reservations",
        )


def _check_together(capacity: CapacityBlock, here: Problems) -> None:
    seen: set[str] = set()
    for index, block in enumerate(capacity.blocks or ()):
        if block.reservation in seen:
            here.at(f"[{index}]").at("reservation").add(
                f"{block.reservation!r} again", "each block once", "remove it"
            )
        seen.add(block.reservation)
    for one, next_ in itertools.pairwise(_windows(capacity, DRAIN_BEFORE_END)):
        if one.ends is not None and next_.starts is not None and next_.starts < one.ends:
            here.add(
                f"{next_.reservation} begins at {utc_text(next_.starts)}, before {one.reservation} ends at "
                f"{utc_text(one.ends)}",
                "blocks that do not overlap: each block has count nodes, and quotas are checked for one block",
                "use another pool for a block that overlaps",
            )


def minutes(drain: timedelta) -> int:
    """Return a duration in whole minutes."""
    return int(drain.total_seconds()) // 60


def who_drains(drain: timedelta) -> str:
    """Return the first words of a message about the end of a block. They state whether EKS or a scheduled action
    scales the block's nodes to zero.
    """
    who = "EKS" if drain <= DRAIN_BEFORE_END else "a scheduled action of the program"
    return f"{who} scales a block's nodes to zero"


def gaps(blocks: Sequence[BlockPlan]) -> Iterator[tuple[CapacityWindow, CapacityWindow, str]]:
    """Yield each pair of consecutive blocks, with the time between them as text. The pool has no nodes during this
    time, which is at least 40 minutes.
    """
    for one, next_ in itertools.pairwise(block.window for block in blocks):
        if one.drains is not None and next_.starts is not None:
            yield one, next_, duration_text(int((next_.starts - one.drains).total_seconds()))
