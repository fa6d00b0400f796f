"""Moves of running pods that free whole GPUs for a pending pod, or free all GPUs of a node.

The program does not move pods itself. It advises a move under three conditions: a controller would recreate the
pod, no disruption budget prevents the eviction, and the pod fits on another node in addition to all running and
placed pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from extensions.capacity.scheduling.model import PodGroup, RunningPod, Scenario
from extensions.capacity.scheduling.schedule import Placement
from extensions.capacity.scheduling.state import NodeState

_MOST_MOVES: Final = 8
"""Maximum number of pods that one plan moves. More moves would cause too much disruption for the freed GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move of a running pod: its index in `Scenario.running`, and the index of its new node in
    `Scenario.nodes`.
    """

    running: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """Moves of pods from one node.

    If `purpose` is `pod`, a pending pod of `group` fits on the node after the moves. If it is `node`, all GPUs of
    the node are then free. `idle_before` and `idle_after` are the numbers of the node's GPUs that no pod uses.
    """

    purpose: Literal["pod", "node"]
    node: int
    moves: tuple[Move, ...]
    idle_before: int
    idle_after: int
    group: int | None = None


def plan_moves(scenario: Scenario, placement: Placement) -> tuple[MovePlan, ...]:
    """Return plans of moves. Each plan assumes that the previous plans were carried out.

    The result is empty if no running pod can be moved.
    """
    if not any(one.movable for one in scenario.running):
        return ()
    board = _Board(scenario, placement)
    return (*board.for_pending(placement), *board.for_nodes())


class _Board:
    """State of the nodes while moves are planned."""

    def __init__(self, scenario: Scenario, placement: Placement) -> None:
        self._scenario = scenario
        self._states = [state.copy() for state in placement.states]
        self._where = [one.node for one in scenario.running]
        self._gpus = list(placement.running_gpus)
        self._new = [
            [one for one in placement.assignments if one.node == index] for index in range(len(self._states))
        ]
        self._received: set[int] = set()

    def for_pending(self, placement: Placement) -> Iterator[MovePlan]:
        """Yield moves that make room for one more pending pod."""
        for one in placement.pending:
            group = self._scenario.groups[one.group]
            if one.cause != "resources" or not any(lack.resources for lack in one.lacks):
                continue
            plans = (self._for_pod(lack.node, one.group, group) for lack in one.lacks)
            found = min((plan for plan in plans if plan is not None), key=lambda plan: len(plan[0]), default=None)
            if found is not None:
                yield self._carried_out(found[0], found[1], group, one.group)

    def for_nodes(self) -> Iterator[MovePlan]:
        """Yield moves that remove all GPU pods from a node. Nodes with the fewest GPUs in use come first."""

        def used(state: NodeState) -> int:
            return len(state.gpus) - len(state.idle_gpus())

        for state in sorted(self._states, key=used):
            if not used(state) or self._new[state.index] or state.index in self._received:
                continue
            pods = [index for index in self._on(state.index) if self._uses_gpus(self._scenario.running[index])]
            if (
                not pods
                or len(pods) > _MOST_MOVES
                or not all(self._scenario.running[index].movable for index in pods)
            ):
                continue
            moves = self._relocated(pods, state.index, only_used=True)
            if moves is not None:
                yield self._carried_out(moves, state.index, None, None)

    def _for_pod(self, node: int, index: int, group: PodGroup) -> tuple[list[Move], int] | None:
        """Return the moves that make room for a pending pod on a node, and the index of this node.

        Pods with the fewest GPU units are chosen first, and only as many pods as necessary.
        """
        trial = self._states[node].copy()
        if trial.fits(group.needs()):
            return None
        leaving: list[int] = []
        candidates = [one for one in self._on(node) if self._scenario.running[one].movable]
        candidates.sort(key=lambda one: (sum(self._units(self._scenario.running[one]).values()), one))
        for one in candidates[:_MOST_MOVES]:
            trial.release(self._scenario.running[one].pod, self._gpus[one])
            leaving.append(one)
            if trial.fits(group.needs()):
                break
        else:
            return None
        # Some pods that were chosen early may be able to stay.
        for one in tuple(leaving):
            trial.take(self._scenario.running[one].pod)
            if trial.fits(group.needs()):
                leaving.remove(one)
            else:
                trial.release(self._scenario.running[one].pod, self._gpus[one])
        moves = self._relocated(leaving, node, only_used=False)
        return None if moves is None else (moves, node)

    def _relocated(self, pods: Sequence[int], node: int, *, only_used: bool) -> list[Move] | None:
        """Return moves of pods to other nodes, the largest pod first, or None if a pod does not fit on any other
        node.

        Each pod moves to the node with the fewest free GPUs on which it fits. With `only_used`, nodes whose GPUs
        are all idle are not considered.
        """
        trials: dict[int, NodeState] = {}
        moves: list[Move] = []
        for index in sorted(pods, key=lambda one: -sum(self._units(self._scenario.running[one]).values())):
            pod = self._scenario.running[index].pod
            fitting: list[tuple[int, int]] = []
            for state in self._states:
                if state.index == node or not pod.may_run_on(state.node):
                    continue
                now = trials.get(state.index, state)
                if only_used and state.node.gpus and len(now.idle_gpus()) == len(now.gpus):
                    continue
                if now.fits(pod.needs()):
                    fitting.append((sum(sum(gpu.values()) for gpu in now.gpus), state.index))
            if not fitting:
                return None
            target = min(fitting)[1]
            trials.setdefault(target, self._states[target].copy()).take(pod)
            moves.append(Move(running=index, target=target))
        return moves

    def _carried_out(
        self, moves: Sequence[Move], node: int, group: PodGroup | None, index: int | None
    ) -> MovePlan:
        state = self._states[node]
        before = len(state.idle_gpus())
        for move in moves:
            pod = self._scenario.running[move.running].pod
            state.release(pod, self._gpus[move.running])
            self._gpus[move.running] = self._states[move.target].take(pod)
            self._where[move.running] = move.target
            self._received.add(move.target)
        after = len(state.idle_gpus())
        if group is not None:
            state.take(group)
            self._received.add(node)
        return MovePlan(
            purpose="node" if group is None else "pod",
            node=node,
            moves=tuple(moves),
            idle_before=before,
            idle_after=after,
            group=index,
        )

    def _on(self, node: int) -> list[int]:
        return [index for index, place in enumerate(self._where) if place == node]

    def _units(self, one: RunningPod) -> dict[str, int]:
        offered = {name for node in self._scenario.nodes for name in node.gpu_resources}
        return {name: amount for name, amount in one.pod.requests.items() if name in offered}

    def _uses_gpus(self, one: RunningPod) -> bool:
        return bool(self._units(one))
