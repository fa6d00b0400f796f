"""Priority classes that every cluster has, and the ResourceQuota that admits pods of them.

GKE, and clusters with such an admission configuration, admit these classes outside kube-system only where a
ResourceQuota of the namespace names them; elsewhere the quota changes nothing. Source: Kubernetes documentation,
Resource Quotas, "Limit Priority Class consumption by default"; read 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NODE_CRITICAL: Final = "system-node-critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityQuotaPlan:
    """A ResourceQuota that admits pods of these priority classes to a namespace of the program."""

    name: str
    pods: int
    priority_classes: tuple[str, ...]
