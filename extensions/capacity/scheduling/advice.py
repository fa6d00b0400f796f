"""Smallest changes that give pending pods a node.

Each change is verified by placing the whole list of pods again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from extensions.capacity.scheduling.explain import amount_text, asked_devices, quantity_text
from extensions.capacity.scheduling.model import (
    CPU,
    MEMORY,
    Amounts,
    Node,
    Pending,
    PodGroup,
    Scenario,
    quota_resource,
)
from extensions.capacity.scheduling.schedule import Placement, admit, place
from gpu_platform.base import names

Kind = Literal["less", "resource", "nodes", "quota"]

TRIALS: Final = 400
"""Maximum number of times that all pods are placed to find the advice of one report. Unlike a time limit, this
limit leads to the same advice on every machine.
"""
_MOST_NEW_NODES: Final = 16
_STEPS: Final = {CPU: 10, MEMORY: 2**20}  # step sizes for reduced requests: 10 millicores and 1 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A type of node that can be added to a pool.

    `left` is the number of nodes that can be added before the pool reaches its maximum size.
    """

    node: Node
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change that gives all pods of a group a node.

    `requests` contains the requests of a pod after the change, or is None if they stay the same. `drops_selector`
    is true if the node selector must be removed. `added` contains the nodes to add to `pool`. `quota` contains the
    team's quotas after the change. `displaces` contains the number of pods in other groups that would become
    pending because of the change, by group.
    """

    group: int
    kind: Kind
    text: str
    requests: Amounts | None = None
    drops_selector: bool = False
    added: tuple[Node, ...] = ()
    pool: str = ""
    quota: Amounts | None = None
    displaces: tuple[tuple[str, int], ...] = ()


def applied(scenario: Scenario, advice: Advice) -> Scenario:
    """Return the scenario with an advised change applied."""
    groups = list(scenario.groups)
    group = groups[advice.group]
    if advice.requests is not None:
        group = replace(group, requests=advice.requests, scored=_scored(group, advice.requests))
    if advice.drops_selector:
        group = replace(group, node_selector={}, affinity=())
    groups[advice.group] = group
    quotas = dict(scenario.quotas)
    if advice.quota is not None:
        quotas[group.team] = advice.quota
    return replace(scenario, groups=tuple(groups), nodes=(*scenario.nodes, *advice.added), quotas=quotas)


class Adviser:
    """Searches for changes. It tries each change by placing all pods again, and stops after `trials` tries."""

    def __init__(
        self, scenario: Scenario, placement: Placement, types: Sequence[NodeType], *, trials: int = TRIALS
    ) -> None:
        self._scenario = scenario
        self._placed = placement.placed(len(scenario.groups))
        self._types = types
        self._trials = trials

    @property
    def exhausted(self) -> bool:
        """Whether the search has used all its tries, so that it may have missed some changes."""
        return self._trials <= 0

    def advise(self, pending: Sequence[Pending]) -> tuple[Advice, ...]:
        """Return changes that help the pending pods of a group: the smallest change of each kind."""
        group = self._scenario.groups[pending[0].group]
        found: list[Advice] = []
        for candidates in (
            self._less(pending, CPU),
            self._less(pending, MEMORY),
            self._other_resources(pending[0].group, group),
            self._more_nodes(pending),
            self._higher_quota(pending),
        ):
            found.extend(candidates)
        return tuple(sorted(found, key=lambda one: bool(one.displaces)))

    def _less(self, pending: Sequence[Pending], name: str) -> Iterator[Advice]:
        """Yield advice to lower the CPU or memory request to the largest value that lets all pods of the group
        get a node.
        """
        lacking = {resource for one in pending for lack in one.lacks for resource in lack.resources}
        limits = {quota_resource(one.key) for one in pending if one.cause == "quota"}
        if name not in lacking | limits:
            return
        index = pending[0].group
        group = self._scenario.groups[index]
        step, asked = _STEPS[name], group.requests[name]

        def with_amount(steps: int) -> Advice:
            amount = steps * step
            return Advice(
                group=index,
                kind="less",
                text=f"request at most {amount_text(name, amount)} ({name}: {quantity_text(name, amount)}) a pod",
                requests={**group.requests, name: amount},
            )

        found = self._largest(with_amount, (asked - 1) // step)
        if found is not None:
            yield found

    def _largest(self, with_steps: Callable[[int], Advice], most: int) -> Advice | None:
        """Return the advice with the largest number of steps (1 to `most`) that still lets all pods get a node."""
        low, high = 1, most
        found: Advice | None = None
        while low <= high:
            # Try the smallest number first. If it does not work, no larger number works.
            middle = 1 if found is None else (low + high) // 2
            tried = self._verified(with_steps(middle))
            if tried is None:
                if found is None:
                    return None
                high = middle - 1
            else:
                found, low = tried, middle + 1
        return found

    def _other_resources(self, index: int, group: PodGroup) -> Iterator[Advice]:
        """Yield advice to request one unit of another resource. Only pods that request a single unit get this
        advice.
        """
        devices = asked_devices(self._scenario, group) or list(filter(names.is_gpu_resource, group.requests))
        if len(devices) != 1 or group.requests[devices[0]] != 1:
            return
        offered = dict.fromkeys(name for node in self._scenario.nodes for name in node.gpu_resources)
        rest = {name: amount for name, amount in group.requests.items() if name not in devices}
        for name in offered:
            if name in devices:
                continue
            for drops in (False, True) if group.node_selector or group.affinity else (False,):
                anywhere = ", without the node selector" if drops else ""
                tried = self._verified(
                    Advice(
                        group=index,
                        kind="resource",
                        text=f"request one {name} instead of {devices[0]}{anywhere}, "
                        "if this part of a GPU is enough",
                        requests={**rest, name: 1},
                        drops_selector=drops,
                    )
                )
                if tried is not None:
                    yield tried
                    break

    def _more_nodes(self, pending: Sequence[Pending]) -> Iterator[Advice]:
        """Yield, for each pool, advice to add the smallest number of nodes that gives all pods of the group a
        node.
        """
        if all(one.cause == "quota" for one in pending):
            return
        index = pending[0].group
        group = self._scenario.groups[index]
        for type_ in self._types:
            if not group.may_run_on(type_.node) or not self._on_empty(type_.node, group):
                continue
            for count in range(1, _MOST_NEW_NODES + 1):
                more = "one more node" if count == 1 else f"{count} more nodes"
                over = "" if count <= type_.left else ", above its maximum size"
                pool = type_.node.pool
                tried = self._verified(
                    Advice(
                        group=index,
                        kind="nodes",
                        text=f"{more} of pool {pool}{over}",
                        added=tuple(
                            replace(type_.node, name=f"{pool}-new-{number}") for number in range(1, count + 1)
                        ),
                        pool=pool,
                    )
                )
                if tried is not None:
                    yield tried
                    break
                if self.exhausted or count * self._on_empty(type_.node, group) > group.count:
                    break

    def _on_empty(self, node: Node, group: PodGroup) -> int:
        """Return how many pods of a group fit on an empty node."""
        return min(
            (node.allocatable.get(name, group.count) // amount for name, amount in group.needs().items()),
            default=0,
        )

    def _higher_quota(self, pending: Sequence[Pending]) -> Iterator[Advice]:
        """Yield advice to raise the team's quotas to the smallest values that admit all pods of the group.

        Yield nothing if the pods would still not get nodes.
        """
        if not any(one.cause == "quota" for one in pending):
            return
        index = pending[0].group
        group = self._scenario.groups[index]
        admitted = admit(self._scenario)[0]
        asked: dict[str, int] = {}
        for number, one in enumerate(self._scenario.groups[: index + 1]):
            if one.team == group.team and not one.admitted:
                count = one.count if number == index else admitted[number]
                for name, amount in one.needs().items():
                    asked[name] = asked.get(name, 0) + amount * count
        quota = self._scenario.quotas[group.team]
        higher = {key: max(amount, asked.get(quota_resource(key) or "", 0)) for key, amount in quota.items()}
        raised = [
            f"{key} by {quantity_text(quota_resource(key) or key, higher[key] - quota[key])}"
            for key in quota
            if higher[key] > quota[key]
        ]
        tried = self._verified(
            Advice(
                group=index,
                kind="quota",
                text=f"raise the quota of team {group.team}: {', '.join(raised)}",
                quota=higher,
            )
        )
        if tried is not None:
            yield tried

    def _verified(self, advice: Advice) -> Advice | None:
        """Return the advice with the pods that it displaces, or None if pods of the group stay pending."""
        if self._trials <= 0:
            return None
        self._trials -= 1
        after = applied(self._scenario, advice)
        placed = place(after).placed(len(after.groups))
        if placed[advice.group] < after.groups[advice.group].count:
            return None
        displaced = tuple(
            (str(group), self._placed[index] - placed[index])
            for index, group in enumerate(after.groups)
            if index != advice.group and placed[index] < self._placed[index]
        )
        return replace(advice, displaces=displaced)


def _scored(group: PodGroup, requests: Amounts) -> Amounts:
    """Return the CPU and memory that the scheduler uses for scores after a change to the requests."""
    return {
        name: amount + requests.get(name, 0) - group.requests.get(name, 0) for name, amount in group.scored.items()
    }
