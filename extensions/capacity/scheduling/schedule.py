"""Places pods as kube-scheduler does: quota admission in the order of the file, then pods by priority.

Each pod gets the node with the best score of a profile (`NodeState.score`). If nodes have equal scores, the first
node is chosen; kube-scheduler would choose a random one. Preemption is not simulated. It is not needed for a list
of pods that is placed from the start, because pods with higher priority are placed first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from extensions.capacity.scheduling.model import Assignment, Pending, PodGroup, Scenario, quota_resource
from extensions.capacity.scheduling.state import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Result of a placement.

    `before` and `states` are the nodes before and after. `running_gpus` contains the GPUs of each running pod.
    """

    assignments: tuple[Assignment, ...]
    pending: tuple[Pending, ...]
    states: tuple[NodeState, ...]
    running_gpus: tuple[tuple[int, ...], ...]

    def placed(self, groups: int) -> list[int]:
        """Return how many pods of each group have a node."""
        counts = Counter(one.group for one in self.assignments)
        return [counts[index] for index in range(groups)]


def place(scenario: Scenario) -> Placement:
    """Place the pods with the scenario's profile. Return the assigned nodes, and the pods that stay pending."""
    states, running_gpus = start(scenario)
    admitted, pending = admit(scenario)
    assignments: list[Assignment] = []
    for index in in_order(scenario.groups):
        if admitted[index]:
            placed, rest = _place_group(index, scenario, admitted[index], states)
            assignments.extend(placed)
            if rest is not None:
                pending.append(rest)
    pending.sort(key=lambda one: one.group)
    return Placement(
        assignments=tuple(assignments),
        pending=tuple(pending),
        states=tuple(states),
        running_gpus=running_gpus,
    )


def start(scenario: Scenario) -> tuple[list[NodeState], tuple[tuple[int, ...], ...]]:
    """Return the nodes with their running pods, and the GPUs of each running pod."""
    states = [NodeState(index, node) for index, node in enumerate(scenario.nodes)]
    return states, tuple(states[one.node].take(one.pod) for one in scenario.running)


def in_order(groups: Sequence[PodGroup]) -> list[int]:
    """Return the indices of groups in the order of the scheduler's queue: by priority, then by index."""
    return sorted(range(len(groups)), key=lambda index: -groups[index].priority)


def admit(scenario: Scenario) -> tuple[list[int], list[Pending]]:
    """Return how many pods of each group the quotas admit, and the pods that the quotas reject."""
    left = {team: dict(quota) for team, quota in scenario.quotas.items()}
    admitted: list[int] = []
    held: list[Pending] = []
    for index, group in enumerate(scenario.groups):
        quota = left.get(group.team)
        if quota is None or group.admitted:
            admitted.append(group.count)
            continue
        needs = group.needs()
        limited = {key: quota_resource(key) or "" for key in quota}
        taken = {key: needs[name] for key, name in limited.items() if name in needs}
        # Number of pods that each quota key admits. The smallest number applies.
        most = {key: max(0, quota[key] // amount) for key, amount in taken.items()}
        tightest = min(most, key=lambda key: most[key], default="")
        count = min((group.count, *most.values()))
        for key, amount in taken.items():
            quota[key] -= amount * count
        admitted.append(count)
        if count < group.count:
            held.append(
                Pending(
                    group=index,
                    count=group.count - count,
                    cause="quota",
                    key=tightest,
                    quota_left=quota[tightest],
                )
            )
    return admitted, held


def _place_group(
    index: int, scenario: Scenario, count: int, states: Sequence[NodeState]
) -> tuple[list[Assignment], Pending | None]:
    group, profile = scenario.groups[index], scenario.profile
    needs = group.needs()
    allowed = [state for state in states if group.may_run_on(state.node)]
    disliked = {state.index: group.disliked(state.node) for state in allowed}
    most = max(disliked.values(), default=0)
    # Placing a pod changes only the score of its node.
    queue = [
        (-state.score(group, disliked[state.index], most, profile), state.index)
        for state in allowed
        if state.fits(needs)
    ]
    heapq.heapify(queue)
    placed: list[Assignment] = []
    while queue and len(placed) < count:
        _, node = heapq.heappop(queue)
        state = states[node]
        placed.append(Assignment(group=index, node=node, gpus=state.take(group)))
        if state.fits(needs):
            heapq.heappush(queue, (-state.score(group, disliked[node], most, profile), node))
    rest = count - len(placed)
    return placed, _pending(index, group, rest, states, allowed) if rest else None


def _pending(
    index: int, group: PodGroup, count: int, states: Sequence[NodeState], allowed: Sequence[NodeState]
) -> Pending:
    selected = [state for state in states if group.selects(state.node)]
    taints = (group.not_tolerated(state.node) for state in selected)
    return Pending(
        group=index,
        count=count,
        cause="resources" if allowed else "nodes",
        lacks=tuple(state.lack(group.needs()) for state in allowed),
        unmatched=len(states) - len(selected),
        untolerated=Counter(str(taint) for taint in taints if taint is not None),
    )
