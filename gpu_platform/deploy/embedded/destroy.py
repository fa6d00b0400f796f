"""Deletes all objects that the embedded engine deployed for a stack, and keeps the objects that team members
created.
"""

from __future__ import annotations

from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.deploy.changes import Changes
from gpu_platform.deploy.embedded.applyset import ApplySet
from gpu_platform.deploy.embedded.wait import Waiter
from gpu_platform.deploy.retention.kept_namespaces import prune
from gpu_platform.live.client import KubernetesClient


def destroy(client: KubernetesClient, stack: str, progress: Progress | None = None) -> Changes:
    """Delete the objects of a stack and then its ApplySet parent. Do nothing if the stack is not deployed.

    Team namespaces that contain objects of team members are retained. The parent is deleted last, so that the next
    run can finish an interrupted run. Raises NotReady for an object that is not deleted in time.
    """
    progress = progress or Progress(quiet=True)
    members = ApplySet(client, stack)
    parent = members.read_parent()
    live = members.members(parent.inventory)
    with progress.step(f"deleting {counted(len(live), 'object')} of stack {stack}"):
        changes = prune(client, Waiter(client, members, progress), stack, live.values())
    if parent.exists:
        members.delete_parent()
    return Changes(stack, changes)
