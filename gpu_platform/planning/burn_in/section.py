"""Types for the active check plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_platform.catalog.models import Measure
from gpu_platform.planning.clouds.section import PodFile
from gpu_platform.planning.dra.section import ClaimPlan
from gpu_platform.planning.workloads.section import PodPlan
from gpu_platform.stack.team import PodSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastBandwidth:
    """The minimum bandwidth of a healthy node in one measurement, in GB/s (10^9 bytes), and the source of the
    number.
    """

    gb_per_second: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInPoolPlan:
    """Active checks for the nodes of one pool.

    `skipped` is the reason why no check would give a meaningful result, or an empty string if the checks run.
    `alone` is the pod that checks one node with all its GPUs. `together` describes the pods that check two nodes.
    If it is None, `not_together` contains the reason. `network` is the network between these pods. The pods
    must not fall back to TCP over the plain network. `claims` are the ResourceClaimTemplates for the devices of
    the pods. `seconds` is the duration of the checks on one node, not counting the start of the container. `file`
    is the ConfigMap that pods on two nodes mount to use the network, or None.
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
    file: PodFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInPlan:
    """Active checks that run on request. The fields set the namespace, priority and time limit of the checks'
    Jobs, and the measurements for each pool.

    `pod_security` is the Pod Security level of the namespace. `matrix_seconds` is the number of seconds
    for which the GPUs multiply matrices.
    """

    namespace: str
    priority_class: str
    priority: int
    pod_security: PodSecurity | Literal["privileged"]
    matrix_seconds: int
    timeout_seconds: int
    pools: tuple[BurnInPoolPlan, ...]

    @property
    def files(self) -> tuple[PodFile, ...]:
        """ConfigMaps that the pods mount."""
        return tuple({one.file.config_map: one.file for one in self.pools if one.file is not None}.values())
