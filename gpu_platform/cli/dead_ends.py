"""Ends an `up` that waits for a node which a controller has given up, with what a person has to do."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from gpu_platform.base import interruption, names
from gpu_platform.base.errors import Finding, GpuPlatformError, UnknownOutcome
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.node_reports import collect_report
from gpu_platform.planning import EnvironmentPlan, Plan
from gpu_platform.planning.mig.progress import IN_PROGRESS
from gpu_platform.planning.validation import gate_name
from validators.cluster import DEAD_ENDS, UPGRADE_FAILED

_SUSPECT: Final = (
    f"{names.DRIVER_UPGRADE_STATE_LABEL}={UPGRADE_FAILED}",
    f"{names.MIG_STATE_LABEL} in (failed, {', '.join(IN_PROGRESS)})",
)
"""Labels of nodes that a controller may have given up."""
_PAST_THE_GATE: Final = (
    "Teams come after the validation of all nodes: their quotas, policies and members, too. To change these while "
    "a node fails, write validation: {gate: false} into the stack file and run `up` again: it waits for no node, "
    "and `validate` reports the same. Take it out again when the nodes pass."
)
_POLL_SECONDS: Final = 10.0
_NEW: Final = 3
"""Looks in a row that find a node given up in this run: a controller may take it up again at once."""
_OLD: Final = 60
"""The same for a node that was given up before this run, which may bring what the node needs."""


class NodesGivenUp(Finding):
    """Nodes that no waiting brings back; what was applied stays, and the next run continues."""


@contextmanager
def ended_by_dead_ends(plan: Plan, cluster: ClusterAccess) -> Generator[None]:
    """Run the body, which waits for nodes of the plan, and raise NodesGivenUp where waiting would not help.

    Nodes that were given up before are named on standard error, with what to do.
    """
    watch = _watched(plan, cluster)
    if watch is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        with interruption.stoppable() as stop:
            watch.start(stop)
            try:
                yield
            finally:
                watch.end()
    except KeyboardInterrupt:
        if not interruption.is_stop():
            raise
        raise NodesGivenUp(
            "waiting does not help; what was applied stays, run the command again after this:\n"
            + "\n".join(f"  - {line}" for line in watch.found.values())
        ) from None


def past_the_gate(plan: Plan, failure: GpuPlatformError) -> str:
    """Return how the rest is applied while nodes fail; empty where `up` ended for another reason.

    Either engine names the DaemonSet of a pool whose nodes do not pass.
    """
    if plan.kind != "environment" or not plan.validation.gate:
        return ""
    gates = (re.escape(gate_name(pool.name)) for pool in plan.pools)
    named = re.search(rf"\b({'|'.join(gates)})(?![\w-])", str(failure)) if plan.pools else None
    return _PAST_THE_GATE if isinstance(failure, NodesGivenUp) or named else ""


def _watched(plan: Plan, cluster: ClusterAccess) -> _Watch | None:
    """Return a watch of the nodes that a deployment is gated by; None without a gate, and for a new cluster."""
    if plan.kind != "environment" or not plan.validation.gate:
        return None
    try:
        client = cluster.client()
        before = dead_ends(client, plan)
    except (UnknownOutcome, Refused):
        return None
    for line in before.values():
        print(f"warning: {line}", file=sys.stderr)
    return _Watch(client, plan, before)


def dead_ends(client: KubernetesClient, plan: EnvironmentPlan) -> dict[str, str]:
    """Return by node of the plan why no waiting brings it back, and what to do; raises UnknownOutcome."""
    if not any(True for labels in _SUSPECT for _ in client.objects("v1", "Node", label_selector=labels)):
        return {}  # most of the time: the nodes of a large cluster are not read again and again
    report = collect_report(client, plan)
    return {
        node.node: f"node {node.node}: {check.id} is {check.observed}: {check.remediation}"
        for node in report.nodes
        if node.node
        for check in node.checks
        if check.id in DEAD_ENDS and check.verdict == "fail"
    }


class _Watch:
    """Looks at the nodes again and again in a thread, and stops the main thread once some are given up."""

    def __init__(self, client: KubernetesClient, plan: EnvironmentPlan, before: Mapping[str, str]) -> None:
        self._client, self._plan = client, plan
        self._before = frozenset(before)
        self._seen: dict[str, int] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.found: dict[str, str] = {}

    def start(self, stop: Callable[[], None]) -> None:
        threading.Thread(target=self._run, args=(stop,), daemon=True).start()

    def end(self) -> None:
        """Look no more; after this the main thread is not stopped."""
        with self._lock:
            self._ended.set()

    def _run(self, stop: Callable[[], None]) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            try:
                now = dead_ends(self._client, self._plan)
            except (UnknownOutcome, Refused):
                continue  # whoever waits reports it
            self._seen = {node: self._seen.get(node, 0) + 1 for node in now}
            over = {node for node, times in self._seen.items() if times >= self._most(node)}
            with self._lock:
                if over and not self._ended.is_set():
                    self.found = {node: now[node] for node in sorted(over)}
                    stop()
                    return

    def _most(self, node: str) -> int:
        return _OLD if node in self._before else _NEW
