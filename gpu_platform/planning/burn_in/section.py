"""Types of the plan of active checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_platform.catalog.models import Measure
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.workloads.section import PodPlan
from gpu_platform.stack.team import PodSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastBandwidth:
    """The least that a healthy node reaches in one measurement, GB/s (10^9 bytes), and where that is from."""

    gb_per_second: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInPoolPlan:
    """Active checks of the nodes of one pool.

    `skipped`: why none is meaningful; empty: they run. `alone`: the pod on one node, with all of its GPUs.
    `together`: the pods on two nodes; None: none, for the reason `not_together`. `network`: what they communicate
    by; they must not use TCP over the plain network. `claims`: templates that the pods claim devices by.
    `seconds`: of the checks on one node, without the start of the container.
    """

    pool: str
    machine_type: str
    gpus_per_node: int
    skipped: str
    alone: PodPlan | None
    together: PodPlan | None
    not_together: str
    network: str
    claims: tuple[ClaimPlan, ...]
    least: Mapping[Measure, LeastBandwidth]
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInPlan:
    """Active checks on request: where their Jobs run, how long, and what each pool's nodes are measured by.

    `pod_security`: level of the namespace. `matrix_seconds`: how long GPUs multiply matrices.
    """

    namespace: str
    priority_class: str
    priority: int
    pod_security: PodSecurity | Literal["privileged"]
    matrix_seconds: int
    timeout_seconds: int
    pools: tuple[BurnInPoolPlan, ...]
