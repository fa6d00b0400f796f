"""Types for node plans that all packages share: labels, taints, kubelet settings, and a company's additions to
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpu_platform.base import names

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A planned node taint, with the names of the Kubernetes API. `stack.pool.Taint` is the taint in the stack
    file.
    """

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"

    @property
    def of_node_pool(self) -> dict[str, str]:
        """The taint in a Karpenter NodePool. Its CRD rejects an empty value."""
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": self.effect}

    def tolerated_by(self, tolerations: Iterable[Mapping[str, Any]]) -> bool:
        """Return whether a pod with these tolerations from its spec may run on a node with the taint."""
        return any(self._tolerated_by(one) for one in tolerations)

    def _tolerated_by(self, toleration: Mapping[str, Any]) -> bool:
        if toleration.get("effect") and toleration["effect"] != self.effect:
            return False
        if toleration.get("key") and toleration["key"] != self.key:
            return False
        if toleration.get("operator") == "Exists":
            return True
        return bool(toleration.get("key")) and (toleration.get("value") or "") == self.value


READINESS_TAINT: Final = Taint(key=names.READINESS_TAINT_KEY, value="pending", effect="NoSchedule")
STARTUP_TAINT: Final = Taint(key=names.STARTUP_TAINT_KEY, value="true", effect="NoSchedule")
FAILED_TAINT: Final = Taint(key=names.FAILED_TAINT_KEY, value="", effect="NoSchedule")
"""Taint that the node agent sets on a failing node. On the node, the value of the taint is the name of a Lease,
because Leases limit how many nodes of a pool are tainted.
"""
HOLDING_TAINTS: Final = (READINESS_TAINT, STARTUP_TAINT, FAILED_TAINT)

HUGE_PAGE_MIB = 2
"""Size in MiB of each huge page that nodes reserve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Kernel settings that a pool's nodes receive at boot. `huge_pages` is the number of 2 MiB pages."""

    sysctls: Mapping[str, str]
    huge_pages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """Kubelet settings that a pool's nodes receive when they are created."""

    topology_policy: str
    topology_scope: str
    cpu_manager_policy: str
    memory_manager_policy: Literal["None", "Static"] = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLimits:
    """Kubelet settings that affect nothing else in the plan. None keeps the image's setting."""

    pod_pids_limit: int | None = None
    container_log_max_size: str | None = None
    """A Kubernetes quantity."""
    container_log_max_files: int | None = None
    image_gc_high_percent: int | None = None
    image_gc_low_percent: int | None = None
    cpu_cfs_quota: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScript:
    """A script that GKE runs on new nodes: a Cloud Storage object with its generation, or a secret version."""

    gcs: str | None = None
    generation: int | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBootstrap:
    """A company's additions to the nodes of a pool, applied before the nodes join the cluster."""

    commands: tuple[str, ...] = ()
    """Lines of a bash script (AL2023)."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Bottlerocket settings."""
    script: NodeScript | None = None
    kubelet: KubeletLimits | None = None
