"""Types for the team guides: a team's access, pools, volumes, clean-up and example workloads."""

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
    """An example workload that fits within the team's quota and on the nodes of a pool.

    `workload.replicas` is the number of pods that run together. `volume` is an existing claim in the namespace for
    checkpoints, and `storage_class` is the storage class of a claim that the manifest creates. If both are None,
    checkpoints are written to a directory that is deleted with the pod. `smallest_claim` is the minimum claim size
    of that storage class, or empty for any size.
    """

    kind: ExampleKind
    workload: WorkloadPlan
    volume: str | None = None
    storage_class: str | None = None
    smallest_claim: str = ""
    shared: bool = False
    """Whether pods on several nodes write to the claim that the manifest creates."""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotations of the example's pods. They define how close together Kueue places the pods, and keep
    autoscalers from removing the nodes of the pods.
    """
    node_seconds: int | None = None
    """Lifetime of the nodes that are provisioned for the example's pods, or None if no nodes are provisioned."""
    fabric: PodFabricPlan | None = None
    """Additional settings that the example's pods need to communicate between nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePool:
    """A pool that the team has quota for, described by what a pod can request from it. Memory is in MiB.

    `resources` contains the maximum number of units for one pod, by extended resource or device class. `capacity`
    is how nodes are bought, with the same values as in the stack file.
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
    """The GPUs and CPUs of a NUMA node, if kubelets reject pods that span more NUMA nodes than necessary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideVolume:
    """A claim in the namespace for existing storage.

    `source` is the mounted storage. `annotations` are required on each pod that mounts it.
    """

    claim: str
    source: str
    read_only: bool
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideCleanup:
    """The clean-up rules for the namespace. If `delete` is false, the objects are only reported.

    Times have the format of the stack file. A time of None means never.
    """

    delete: bool
    finished_after: str | None
    idle_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePlan:
    """The guide for one team, with the facts that its members need in addition to its TeamPlan and its queue."""

    namespace: str
    cluster: str
    login: tuple[str, ...]
    """Commands that create a kubeconfig. The tuple is empty if the cluster's owner provides the kubeconfig."""
    simulated: bool
    """Whether pods are only scheduled. Their containers do not run, so the pods have no logs and no ports."""
    priority: str
    """The priority class of the team's workloads."""
    pools: tuple[GuidePool, ...]
    examples: tuple[ExamplePlan, ...]
    missing: Mapping[ExampleKind, str] = field(default_factory=dict["ExampleKind", str])
    """For each kind of workload without an example in the guide, the reason why it has no example."""
    volumes: tuple[GuideVolume, ...] = ()
    storage_classes: tuple[str, ...] = ()
    cleanup: GuideCleanup | None = None
