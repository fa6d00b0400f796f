"""Measures how long a node's MIG manager has worked on a layout. After a time limit, the manager is considered
stuck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from gpu_platform.base import names

IN_PROGRESS: Final = ("pending", "rebooting")
"""States of `nvidia.com/mig.config.state` that the MIG manager leaves by itself."""
CHANGE_SECONDS: Final = 1800
"""Maximum duration of a layout change, including a reboot of a machine with eight GPUs if the MIG mode changes."""
_OWNERSHIP: Final = f"f:{names.MIG_STATE_LABEL}"


def is_in_progress(node: Mapping[str, Any]) -> bool:
    """Return whether a node's MIG manager has started a change but not reported a result."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels.get(names.MIG_STATE_LABEL) in IN_PROGRESS


def seconds_in_state(node: Mapping[str, Any], now: datetime) -> float | None:
    """Return how long a node has been in its MIG state, or None if its Node object does not record this time."""
    entries: Sequence[Mapping[str, Any]] = node["metadata"].get("managedFields") or ()
    times = [str(entry["time"]) for entry in entries if entry.get("time") and _owns_state(entry)]
    return (now - datetime.fromisoformat(max(times))).total_seconds() if times else None


def is_stuck(node: Mapping[str, Any], now: datetime) -> bool:
    """Return whether the MIG manager has worked on a node for longer than any change takes.

    A stuck MIG manager does nothing until the label of its node changes, regardless of why it is stuck. Source:
    NVIDIA/mig-parted#485, read 2026-11-28.
    """
    return is_in_progress(node) and (seconds_in_state(node, now) or 0) > CHANGE_SECONDS


def _owns_state(entry: Mapping[str, Any]) -> bool:
    fields: Mapping[str, Any] = entry.get("fieldsV1") or {}
    return _OWNERSHIP in ((fields.get("f:metadata") or {}).get("f:labels") or {})
