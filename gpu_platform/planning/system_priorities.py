"""Priority classes that every cluster has, and the ResourceQuota that admits pods with these classes.

Clusters can restrict these classes to namespaces with a ResourceQuota that lists them. GKE does this for every
namespace except kube-system. On other clusters the quota has no effect. Source: Kubernetes documentation, Resource
Quotas, "Limit Priority Class consumption by default"; read 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NODE_CRITICAL: Final = "system-node-critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityQuotaPlan:
    """A ResourceQuota that admits pods with these priority classes to one of the program's namespaces."""

    name: str
    pods: int
    priority_classes: tuple[str, ...]
