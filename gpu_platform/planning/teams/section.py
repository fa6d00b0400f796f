"""Types of the plan of teams: namespaces, quotas, members, priorities and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.nodes.section import Labels, Taint

# Requests of containers without any; a quota on cpu and memory refuses pods without requests.
DEFAULT_REQUEST: Mapping[str, str] = {"cpu": "500m", "memory": "1Gi"}


DEFAULT_LIMIT: Mapping[str, str] = {"cpu": "4", "memory": "16Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassPlan:
    """A PriorityClass; never the cluster's default."""

    name: str
    value: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """A Deployment of a team, with the node selector and tolerations of its pool.

    `units` 0: its pods have no GPU, and `resource` is empty.
    """

    name: str
    pool: str
    replicas: int
    image: str
    command: tuple[str, ...]
    resource: str
    units: int
    cpu: str
    memory: str
    priority_class: str
    node_selector: Labels
    tolerations: tuple[Taint, ...]
    network: Mapping[str, str] = field(default_factory=dict[str, str])
    """Requests of a pod for the network between nodes: EFA interfaces, huge pages."""
    claim: str | None = None
    """The ResourceClaimTemplate of its pods; `resource` is then a class of the driver, `units` its size."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of each pod, one or none."""
        return () if self.claim is None else (self.claim,)

    @property
    def requests(self) -> Mapping[str, str]:
        """Requests and limits of its container."""
        held = {} if self.claim is not None or not self.units else {self.resource: str(self.units)}
        return {"cpu": self.cpu, "memory": self.memory, **held, **self.network}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """A member of a team as RBAC names it."""

    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPlan:
    """One team's namespace and everything in it.

    `quota` holds every GPU resource of the environment, 0 without a share, so that no MIG profile is
    unlimited. `priorities`: the classes that it may use, beside no class.
    """

    namespace: str
    quota: Mapping[str, str]
    members: tuple[TeamMember, ...]
    labels: Labels = field(default_factory=dict[str, str])
    priorities: tuple[str, ...] = ()
    default_request: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_REQUEST))
    default_limit: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_LIMIT))
    claims: tuple[ClaimPlan, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()
