"""Input of a rehearsal: pools, queues or quotas, and the jobs to run.

Times and durations are in seconds. Amounts are whole numbers: CPU in millicores, memory in bytes, and GPU
resources as numbers of GPUs, shares or MIG instances.
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
"""What a job waited for: quota (from its queue, its cohort or a ResourceQuota), or nodes with free GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Requests of each pod of a job. All pods of a job are equal. Jobs with the same shape are interchangeable for
    quotas and nodes.

    `resource` is the resource name of a GPU, a share or a MIG instance. Each of the `pods` pods requests `units`
    units of this resource. `cpu` and `memory` are the requests of one pod, or None if they are in proportion to
    its units. `pool` is the only pool that the job may use, or None for any pool that offers the resource.
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
    """A job in a trace. All its pods run for `duration` seconds after the last of them has started."""

    name: str
    team: str
    arrival: float
    duration: float
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalPool:
    """A node pool with GPUs.

    `offers` maps each GPU resource to its number of units on a node. `gpus` is the number of GPUs, or the fraction
    of a GPU, that one unit represents. `parts` contains the CPU and memory per unit for pods that request neither.
    If `scaled` is true, an autoscaler changes the number of nodes between `min` and `max` as pods become pending;
    otherwise the pool always has `desired` nodes. `numa` contains the units of each resource on each NUMA node. It
    is set if the kubelet refuses a pod whose units would be on more NUMA nodes than necessary. With `single_numa`,
    the kubelet refuses every pod whose units would be on several NUMA nodes.
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
    """Nominal quota, borrowing limit and lending limit for a resource on a pool."""

    nominal: int
    borrow: int
    lend: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalQueue:
    """A Kueue ClusterQueue. `flavors` contains its limits by pool and resource, in the order in which Kueue tries
    the pools.
    """

    team: str
    cohort: str
    weight: float
    within_queue: Literal["LowerPriority", "Never"]
    reclaim: Literal["Any", "LowerPriority", "Never"]
    flavors: Mapping[str, Mapping[str, QuotaLimits]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The part of a stack that a rehearsal simulates.

    `queues` is empty if the stack does not use Kueue. Pods are then admitted by `quotas`, which contains the
    ResourceQuota limits by team and resource. `cohorts` contains the quota that belongs to a cohort itself, not to
    its queues, by cohort, pool and resource. With `topology`, Kueue starts a job only if all its pods fit on the
    nodes. Otherwise kube-scheduler places the pods one by one. With `packs`, kube-scheduler prefers nodes that are
    in use. If some pods of a started job are not running after `pods_ready_timeout`, the job returns to its queue.
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
    """Assumptions of a rehearsal that are defined neither in the stack file nor in the trace.

    `node_start` is the time in seconds until a new node for a pending pod is ready. `node_idle` is the time in
    seconds after which an autoscaler removes a node without pods. A stopped job resumes from its last checkpoint,
    saved every `checkpoint` seconds, or starts again from the beginning if `checkpoint` is None.
    """

    node_start: float = NODE_SECONDS
    node_idle: float = 600.0
    checkpoint: float | None = None


class Job:
    """State of a job during a rehearsal. `left` is its remaining work in seconds; `epoch` counts its starts."""

    __slots__ = (
        "admitted", "deadline", "ended", "epoch", "first_start", "gpus", "held", "job", "left", "missing",
        "next_cycle", "next_flavor", "order", "places", "pool", "preemptions", "queued", "reason", "shape",
        "since", "state", "team", "timeouts", "waited",
    )  # fmt: skip

    def __init__(self, job: TraceJob, order: int, team: int) -> None:
        self.job, self.order, self.team = job, order, team
        self.shape = job.shape
        self.left = job.duration
        self.state = "new"  # `new`, `queued`, `placing`, `running`, `ended` or `impossible`
        self.queued = job.arrival  # the queue sorts its jobs by this time
        self.since = job.arrival  # time at which the job started to wait or to run
        self.admitted = 0.0
        self.deadline = 0.0
        self.first_start: float | None = None
        self.ended: float | None = None
        self.waited = 0.0
        self.reason: Wait | None = None
        self.preemptions = 0
        self.epoch = 0
        self.pool = -1
        self.places: dict[tuple[int, int], int] = {}  # number of pods by pool and node
        self.gpus = 0.0  # GPUs of all pods of the job
        self.timeouts = 0
        self.missing = 0  # pods without a node
        self.held = 0  # pods that count against a ResourceQuota
        self.next_flavor = 0
        self.next_cycle = -2
