"""Types of the plan of guides: access, pools, volumes, clean-up, and example workloads of a team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gpu_platform.planning.clouds.schedules import SchedulePlan
from gpu_platform.planning.nodes.section import Labels, Taint
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.section import PodFabricPlan

ExampleKind = Literal["training", "inference", "notebook", "batch"]
KINDS: Final[tuple[ExampleKind, ...]] = ("training", "inference", "notebook", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePlan:
    """A workload that the team's quota and a pool hold, as nodes and queues are planned.

    `workload.replicas`: pods that run together. `volume`: claim of the namespace for checkpoints, `storage_class`:
    of a claim that the manifest makes; both None: a directory that ends with the pod. `smallest_claim`: of that
    class; empty: any size.
    """

    kind: ExampleKind
    workload: WorkloadPlan
    volume: str | None = None
    storage_class: str | None = None
    smallest_claim: str = ""
    shared: bool = False
    """Whether pods on several nodes write the claim that the manifest makes."""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of its pods: how close to each other Kueue starts them, and that Karpenter keeps their nodes."""
    node_seconds: int | None = None
    """How long nodes live that are provisioned for its pods; None: nodes are not provisioned for them."""
    fabric: PodFabricPlan | None = None
    """What its pods need to communicate between nodes, beside what they request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePool:
    """A pool whose resources the team's quota has, as a pod requests it. Memory in MiB.

    `resources`: most units that one pod can get, by extended resource or device class; `capacity`: how nodes are
    bought, as in the stack file.
    """

    name: str
    workload: str
    machine_type: str
    gpu: str
    gpu_memory_mib: int
    nodes_max: int
    capacity: str
    resources: Mapping[str, int]
    node_selector: Labels
    tolerations: tuple[Taint, ...]
    schedule: SchedulePlan | None = None
    aligned: tuple[int, int] | None = None
    """GPUs and CPUs of a NUMA node where kubelets refuse pods that are on more of them than need be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideVolume:
    """A claim of the namespace for what exists already.

    `source`: what is mounted; `annotations`: of each pod that mounts it.
    """

    claim: str
    source: str
    read_only: bool
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideCleanup:
    """What is cleaned up in the namespace. `delete`: or only reported; times as in the stack file, None: never."""

    delete: bool
    finished_after: str | None
    idle_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePlan:
    """Guide of one team: what its members need to know beyond its TeamPlan and its queue."""

    namespace: str
    cluster: str
    login: tuple[str, ...]
    """Commands that make a kubeconfig; empty: the cluster's owner has it."""
    simulated: bool
    """Pods are scheduled, and their containers do not run: they have no logs and no ports."""
    priority: str
    """The class of the team's workloads."""
    pools: tuple[GuidePool, ...]
    examples: tuple[ExamplePlan, ...]
    missing: Mapping[ExampleKind, str] = field(default_factory=dict["ExampleKind", str])
    """Why there is no example, by kind."""
    volumes: tuple[GuideVolume, ...] = ()
    storage_classes: tuple[str, ...] = ()
    cleanup: GuideCleanup | None = None
