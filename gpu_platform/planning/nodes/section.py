"""Types of a node's plan that every package shares: labels, taints and kubelet settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A planned node taint, using names of the Kubernetes API; `spec.pool.Taint` is the one of the stack file."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


HUGE_PAGE_MIB = 2
"""Size of the huge pages that nodes set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Kernel settings that a pool's nodes get at boot. `huge_pages`: of 2 MiB."""

    sysctls: Mapping[str, str]
    huge_pages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """Kubelet settings that a pool's nodes are created with."""

    topology_policy: str
    topology_scope: str
    cpu_manager_policy: str
    memory_manager_policy: Literal["None", "Static"] = "None"
