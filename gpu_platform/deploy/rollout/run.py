"""Changes the nodes of a MIG rollout within the `max_unavailable` of each pool. A later run changes the remaining
nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from gpu_platform.base.errors import Finding
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.rollout.annotations import field_manager, labels_by, node_document
from gpu_platform.deploy.rollout.live_cluster import add_configs
from gpu_platform.deploy.rollout.node import NodeRoll, Outcome
from gpu_platform.deploy.rollout.plan import NodeChange, PoolRollout, Rollout
from gpu_platform.live.client import KubernetesClient
from gpu_platform.planning.plan import EnvironmentPlan

_POLL_SECONDS = 0.5
_PROGRESS_SECONDS = 15.0


class RolloutFailed(Finding):
    """Some nodes did not receive their new layout. Changed nodes keep their new layout, and the next run continues
    from there.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes: tuple[Outcome, ...] = tuple(outcomes)
        done = sum(outcome.is_good for outcome in outcomes)
        nodes = counted(len(outcomes), "node")
        head = f"MIG layout: {done} of {nodes} changed; nothing else of the stack was applied"
        rest = [f"  - {outcome}" for outcome in outcomes if not outcome.is_good]
        super().__init__("\n".join([head, *rest]))


def roll(
    client: KubernetesClient,
    plan: EnvironmentPlan,
    rollout: Rollout,
    progress: Progress,
    closed: Callable[[], str] = lambda: "",
) -> tuple[Outcome, ...]:
    """Change the layout of every node of a rollout. Raises RolloutFailed if a node does not receive its new
    layout.

    `closed` returns why no further change may start now, or an empty string. Changes that have started are
    finished.
    """
    if not rollout.changes:
        return ()
    changed = add_configs(client, plan, rollout)
    for change in rollout.changes:
        if not change.drains:
            _rename(client, change, plan.stack)
    all_pools = _AllPools(plan.changes.max_unavailable, rollout.unavailable, closed)
    every = [_PoolRoll(client, pool, plan.stack, changed, progress, all_pools) for pool in rollout.drained]
    all_pools.pools = every
    while sum(pool.step() for pool in every):  # each round advances every pool
        time.sleep(_POLL_SECONDS)
    for pool in every:
        pool.finish()
    outcomes = [outcome for pool in every for outcome in pool.outcomes]
    if not all(outcome.is_good for outcome in outcomes):
        raise RolloutFailed(outcomes)
    return tuple(outcomes)


def _rename(client: KubernetesClient, change: NodeChange, stack: str) -> None:
    """Change the config name of a node whose layout stays the same."""
    node = client.get("v1", "Node", change.node)
    if node is not None:
        manager = field_manager(stack)
        labels = {**labels_by(manager, node), **change.labels}
        client.apply(node_document(node, labels), manager=manager)


class _AllPools:
    """Limits on a rollout across all pools of a stack: `changes.max_unavailable`, and the maintenance window."""

    def __init__(self, most: int | None, unavailable: Iterable[str], closed: Callable[[], str]) -> None:
        self.pools: Sequence[_PoolRoll] = ()
        self._most = most
        self._before = set(unavailable)
        self._closed = closed

    def why_not(self, node: NodeChange) -> str:
        """Return why the change to a node may not start now, or an empty string if it may start."""
        if reason := self._closed():
            return reason
        out = self._before.union(*(pool.unavailable() for pool in self.pools))
        if self._most is None or node.out or len(out) < self._most:
            return ""
        return _held_by("changes.max_unavailable", self._most, out)

    def allow(self, count: int) -> str:
        """Return the stack file fields to set so that `count` nodes of a pool may be unavailable."""
        own = f"sharing.max_unavailable: {count}"
        return own if self._most is None or count <= self._most else f"{own} and changes.max_unavailable: {count}"


def _held_by(limit: str, most: int, out: Collection[str], allow: str = "") -> str:
    """Return which unavailable nodes use up a limit, and what to do so that another node may be changed."""
    fix = allow or f"{limit}: {len(out) + 1}"
    held = f"{limit} is {most}, and these nodes are unavailable: {', '.join(sorted(out))}"
    return f"{held}; `gpu-platform validate` shows what to do about each node, or write {fix}"


class _PoolRoll:
    """Rollout of one pool: nodes that are not cordoned yet, active nodes, and the outcomes of finished nodes."""

    def __init__(
        self,
        client: KubernetesClient,
        pool: PoolRollout,
        stack: str,
        configs_changed: str,
        progress: Progress,
        all_pools: _AllPools,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._all_pools = all_pools
        self._pool = pool
        start = partial(NodeRoll, client, rules=pool.rules, stack=stack, configs_changed=configs_changed)
        self._progress = progress
        self._reported_at = self._moved_at = time.monotonic()
        self._active: list[NodeRoll] = []
        self._waiting = [start(change) for change in pool.changes if change.drains]
        self._sort_out()
        for node in self._active:
            self._announce(node)

    def step(self) -> bool:
        """Start to change the nodes that may be changed, and continue active nodes. Return whether the pool has
        more to do.
        """
        was_active = bool(self._active)
        asked = self._start()
        for node in self._active:
            node.step()
        self._sort_out()
        self._report_progress()
        if not self._active:
            self._give_up([node for node in asked if node in self._waiting])
        # When a node of this pool is finished, the change to another node may be allowed.
        return was_active or bool(self._active) or any(not self._why_not(node) for node in self._waiting)

    def finish(self) -> None:
        """Record the nodes whose change could not start."""
        self.outcomes += [Outcome(node.change, "not-begun", self._why_not(node)) for node in self._waiting]
        self._waiting = []

    def _start(self) -> list[NodeRoll]:
        """Start to change nodes that may be cordoned. Return the nodes whose disruption budgets were checked."""
        asked: list[NodeRoll] = []
        for node in list(self._waiting):
            if not self._why_not(node):
                asked.append(node)
                node.step()
                if node.taken:
                    self._announce(node)
                self._sort_out()
        return asked

    def _announce(self, node: NodeRoll) -> None:
        change = node.change
        self._progress.line(f"{change.node}: {change.old} \N{RIGHTWARDS ARROW} {change.new}")

    def _sort_out(self) -> None:
        """Assign each node to a group by its state: active, waiting, or done with an outcome."""
        nodes = [*self._active, *self._waiting]
        for node in nodes:
            if node.outcome is not None:
                self._progress.line(str(node.outcome))
                self.outcomes.append(node.outcome)
        left = [node for node in nodes if node.outcome is None]
        active = [node for node in left if node.taken]
        if active != self._active:
            self._moved_at = time.monotonic()
        self._active, self._waiting = active, [node for node in left if not node.taken]

    def _give_up(self, blocked: Sequence[NodeRoll]) -> None:
        """Give up on blocked nodes if the pool has made no progress within the drain timeout."""
        if time.monotonic() > self._moved_at + self._pool.rules.drain_timeout_seconds:
            for node in blocked:
                node.give_up()
            self._sort_out()

    def unavailable(self) -> set[str]:
        """Return the nodes of the pool that are unavailable now."""
        failed = {outcome.change.node for outcome in self.outcomes if outcome.result == "failed"}
        return {*self._pool.elsewhere, *failed, *(node.change.node for node in self._active)}

    def _why_not(self, node: NodeRoll) -> str:
        """Return why the change to a node may not start now, or an empty string if it may start."""
        out, most = self.unavailable(), self._pool.rules.max_unavailable
        if not node.change.out and len(out) >= most:
            return _held_by("sharing.max_unavailable", most, out, self._all_pools.allow(len(out) + 1))
        return self._all_pools.why_not(node.change)

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now > self._reported_at + _PROGRESS_SECONDS:
            self._reported_at = now
            for node in [*self._active, *(node for node in self._waiting if node.doing != "starting")]:
                self._progress.line(f"still {node.doing}: {node.change.node}")
