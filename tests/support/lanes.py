"""Hands the tests of a run to the workers of pytest-xdist: groups with a sandbox beside tests that only compute.

Tests with a sandbox mostly wait, and the others use a whole core. So every third worker begins with the others;
all workers take what is left in the end.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

_SANDBOX_GROUPS: Final = ("e2e-", "sandbox-")
_WORKERS_A_LANE: Final = 3


class Lanes(LoadGroupScheduling):
    """Runs a group (`xdist_group`) or the rest of a file on one worker, which has its fixtures and caches once."""

    def _split_scope(self, nodeid: str) -> str:
        group = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if group == nodeid else group

    def _assign_work_unit(self, node: WorkerController) -> None:
        computes = self.nodes.index(node) % _WORKERS_A_LANE == _WORKERS_A_LANE - 1
        wanted = next((scope for scope in self.workqueue if is_of_a_sandbox(scope) != computes), None)
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker its next group when its last test is to begin, which it does once it knows the test after.

        pytest-xdist does so a test earlier; then another worker may have ended before, and could have begun it.
        """
        if self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Give to others what a worker left that crashed; they would wait for ever for what it had done."""
        left = {scope: tests for scope, tests in self.assigned_work[node].items() if not all(tests.values())}
        self.assigned_work[node] = left
        return super().remove_node(node)


def is_of_a_sandbox(scope: str) -> bool:
    """Return whether the tests of a group have a sandbox; a file has none of those that are in a group."""
    return scope.startswith(_SANDBOX_GROUPS)
