"""Stops `up` when it waits for a node that a controller has given up on, and reports how to repair the node."""

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
"""Label selectors for nodes that a controller may have given up on."""
_PAST_THE_GATE: Final = (
    "The quotas, policies and members of teams are applied after the validation of all nodes. To change them "
    "while a node fails, write validation: {gate: false} into the stack file and run `up` again. `up` then "
    "waits for no node, and `validate` reports the same findings. Remove the setting when the nodes pass."
)
_POLL_SECONDS: Final = 10.0
_NEW: Final = 3
"""Number of consecutive polls that must report a node before `up` stops, if the controller gave up on the node
during this run. One poll is not enough, because the controller may retry the node immediately.
"""
_OLD: Final = 60
"""Number of consecutive polls that must report a node before `up` stops, if the controller gave up on the node
before this run. The number is large, because this run may repair the node.
"""


class NodesGivenUp(Finding):
    """Some nodes will not recover, however long `up` waits. Changes already made are kept, and the next run
    continues from there.
    """


@contextmanager
def ended_by_dead_ends(plan: Plan, cluster: ClusterAccess) -> Generator[None]:
    """Run the body of a `with` block that waits for planned nodes. Raise NodesGivenUp if they cannot appear.

    Nodes that a controller gave up on before the run are reported on standard error, with instructions.
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
    """Return how to apply the remaining changes if `up` ended because nodes fail validation, or else an empty
    string.

    With either engine, the error names the DaemonSet of a pool with such nodes.
    """
    if plan.kind != "environment" or not plan.validation.gate:
        return ""
    gates = (re.escape(gate_name(pool.name)) for pool in plan.pools)
    named = re.search(rf"\b({'|'.join(gates)})(?![\w-])", str(failure)) if plan.pools else None
    return _PAST_THE_GATE if isinstance(failure, NodesGivenUp) or named else ""


def _watched(plan: Plan, cluster: ClusterAccess) -> _Watch | None:
    """Return a watch of the nodes that `up` waits for. Return None if `up` does not wait for the validation of
    nodes, or if the cluster cannot be read.
    """
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
    """Return the reason and the instructions for each node of the plan that a controller has given up on.

    Raises UnknownOutcome if the cluster does not answer.
    """
    if not any(True for labels in _SUSPECT for _ in client.objects("v1", "Node", label_selector=labels)):
        return {}  # usually no node matches, so the report about all nodes is not needed
    report = collect_report(client, plan)
    return {
        node.node: f"node {node.node}: {check.id} is {check.observed}: {check.remediation}"
        for node in report.nodes
        if node.node
        for check in node.checks
        if check.id in DEAD_ENDS and check.verdict == "fail"
    }


class _Watch:
    """Polls the nodes in a thread, and stops the main thread when a controller has given up on nodes."""

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
        """Stop polling. After this call, the watch no longer stops the main thread."""
        with self._lock:
            self._ended.set()

    def _run(self, stop: Callable[[], None]) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            try:
                now = dead_ends(self._client, self._plan)
            except (UnknownOutcome, Refused):
                continue  # the main thread reports the error
            self._seen = {node: self._seen.get(node, 0) + 1 for node in now}
            over = {node for node, times in self._seen.items() if times >= self._most(node)}
            with self._lock:
                if over and not self._ended.is_set():
                    self.found = {node: now[node] for node in sorted(over)}
                    stop()
                    return

    def _most(self, node: str) -> int:
        return _OLD if node in self._before else _NEW
