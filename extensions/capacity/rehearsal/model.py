"""Input of a rehearsal: pools, queues or quotas, and the arriving jobs.

Times and durations are seconds. Amounts are whole numbers: CPU in millicores, memory in bytes, GPUs, shares and
instances in units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gpu_platform.api.plans import NODE_SECONDS

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

Wait = Literal["quota", "nodes"]
"""What a job waited for: quota (its own, borrowed, or a ResourceQuota), or nodes with free GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What all pods of a job request; jobs of one shape are exchangeable for quotas and nodes.

    `resource`: of a GPU, a share or an instance, `units` of it for each of `pods` pods; `cpu`, `memory`: of a pod,
    None: its units' part of a node; `pool`: the only pool that it may use, None: any that offers the resource.
    """

    resource: str
    units: int
    pods: int = 1
    cpu: int | None = None
    memory: int | None = None
    priority: int = 0
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job: all its pods run for `duration` seconds from the time that the last of them has started."""

    name: str
    team: str
    arrival: float
    duration: float
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalPool:
    """A pool. `offers`: units by GPU resource on a node; `gpus`: GPUs that one unit of a resource is.

    `parts`: CPU and memory that come with one unit where a pod names none. `scaled`: an autoscaler changes the
    number of nodes between `min` and `max` by pending pods; else there are always `desired`. `numa`: units by
    resource on each NUMA node, where the kubelet refuses pods on more of these than need be; `single_numa`: it
    refuses all on several.
    """

    name: str
    desired: int
    min: int
    max: int
    scaled: bool
    gpus_per_node: int
    cpu: int
    memory: int
    pods: int
    offers: Mapping[str, int]
    gpus: Mapping[str, float]
    parts: Mapping[str, tuple[int, int]]
    usd_per_hour: float | None
    numa: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    single_numa: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """Nominal quota of a resource on a pool, and the most that is borrowed and lent."""

    nominal: int
    borrow: int
    lend: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalQueue:
    """A ClusterQueue of Kueue. `flavors`: by pool, in the order in which they are tried, limits by resource."""

    team: str
    cohort: str
    weight: float
    within_queue: Literal["LowerPriority", "Never"]
    reclaim: Literal["Any", "LowerPriority", "Never"]
    flavors: Mapping[str, Mapping[str, QuotaLimits]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A stack as the rehearsal sees it.

    `queues`: empty without Kueue; then `quotas` (ResourceQuotas: by team, limits by resource) admit pods.
    `cohorts`: what a cohort lends that no queue has, by cohort, pool and resource. `topology`: Kueue starts a job
    only when nodes have room for all its pods; else kube-scheduler places its pods one by one.
    `packs`: kube-scheduler prefers nodes that are in use. `pods_ready_timeout`: after it a started job whose pods
    do not all run goes back to its queue.
    """

    pools: tuple[RehearsalPool, ...]
    teams: tuple[str, ...]
    queues: tuple[RehearsalQueue, ...] = ()
    cohorts: Mapping[str, Mapping[str, Mapping[str, int]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[str, int]]]
    )
    quotas: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    fair_sharing: bool = True
    packs: bool = False
    topology: bool = False
    pods_ready_timeout: float = 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Assumptions of a rehearsal that neither the stack file nor the trace defines.

    `node_start`: seconds from a pending pod to a ready new node; `node_idle`: seconds without pods after which an
    autoscaler removes a node; `checkpoint`: a stopped job goes on from the last whole multiple of it, None: it
    starts over.
    """

    node_start: float = NODE_SECONDS
    node_idle: float = 600.0
    checkpoint: float | None = None


class Job:
    """A job while it is rehearsed. `left`: seconds of work that are not done; `epoch`: counts its starts."""

    __slots__ = (
        "admitted", "deadline", "ended", "epoch", "first_start", "gpus", "held", "job", "left", "missing",
        "next_cycle", "next_flavor", "order", "places", "pool", "preemptions", "queued", "reason", "shape",
        "since", "state", "team", "timeouts", "waited",
    )  # fmt: skip

    def __init__(self, job: TraceJob, order: int, team: int) -> None:
        self.job, self.order, self.team = job, order, team
        self.shape = job.shape
        self.left = job.duration
        self.state = "new"  # new, queued, placing, running, ended, impossible
        self.queued = job.arrival  # by which its queue orders it
        self.since = job.arrival  # since when it waits or runs
        self.admitted = 0.0
        self.deadline = 0.0
        self.first_start: float | None = None
        self.ended: float | None = None
        self.waited = 0.0
        self.reason: Wait | None = None
        self.preemptions = 0
        self.epoch = 0
        self.pool = -1
        self.places: dict[tuple[int, int], int] = {}  # pods by pool and node
        self.gpus = 0.0  # of all its pods
        self.timeouts = 0
        self.missing = 0  # pods that have no node
        self.held = 0  # pods that count against a ResourceQuota
        self.next_flavor = 0
        self.next_cycle = -2
