"""Reports which objects a run had not applied when it stopped, for example because an object was not ready."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpu_platform.base.quantity import counted
from gpu_platform.deploy.changes import Action, Changes
from gpu_platform.live.objects import ObjectKey

_MAX_LISTED = 8


def withheld_text(keys: Sequence[ObjectKey], total: int, previewed: Changes | None) -> str:
    """Return a message about the objects that a run did not apply, or an empty string if it applied all objects.

    `previewed` contains the changes if the run has compared the objects with the cluster. In that case, only
    objects that change are listed.
    """
    if not keys:
        return ""
    text = f"{len(keys)} of {counted(total, 'object')} were not applied"
    if previewed is None:
        return f"{text}: {_by_namespace(keys)}"
    waiting = set(keys)
    changes = [
        f"{change.action.value} {change.key}"
        for change in previewed.changes
        if change.key in waiting and change.action is not Action.UNCHANGED
    ]
    if not changes:
        return f"{text}; none of these objects would change"
    more = [f"and {len(changes) - _MAX_LISTED} more"] if len(changes) > _MAX_LISTED else []
    listed = [f"  - {line}" for line in (*changes[:_MAX_LISTED], *more)]
    return "\n".join([f"{text}; these objects would change:", *listed])


def _by_namespace(keys: Sequence[ObjectKey]) -> str:
    counts = Counter(key.namespace for key in keys)
    parts = [f"{count} in namespace {name}" for name, count in counts.items() if name]
    return ", ".join([*parts, *([f"{counts['']} without a namespace"] if counts[""] else [])])
