"""Types of the plan of workloads: training jobs, inference services, Ray clusters, notebooks, batch jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_platform.planning.clouds.storage import VolumeSidecar
from gpu_platform.planning.teams.section import WorkloadPlan

TrainingApi = Literal["job", "jobset", "trainjob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A volume of a pod and its mount path.

    It is a claim of the namespace, a ConfigMap or a path of the node; with none of them it ends with the pod.
    """

    name: str
    path: str
    claim: str | None = None
    config_map: str | None = None
    host_path: str | None = None
    read_only: bool = False
    sidecar: VolumeSidecar | None = None
    """What reads and writes the volume in the pod itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClaimPlan:
    """A PersistentVolumeClaim of one entry. `storage_class` None: the cluster's default class.

    `shared`: whether pods on several nodes write it.
    """

    name: str
    storage_class: str | None
    size: str
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarPlan:
    """A container that runs beside the main one as root. `cpu`, `memory`: its requests, a part of the pod's."""

    name: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    mounts: tuple[MountPlan, ...]
    capabilities: tuple[str, ...]
    cpu: str
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFabricPlan:
    """Mounts, annotations and sidecar of a pod with all GPUs of a node, so that NCCL uses the node's GPU NICs.

    `library_path`: directories before those of the image; `profile`: a script of the node that sets NCCL's
    variables, where the vendor ships one.
    """

    annotations: Mapping[str, str]
    mounts: tuple[MountPlan, ...]
    env: Mapping[str, str]
    library_path: tuple[str, ...]
    profile: str | None = None
    sidecar: SidecarPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """Pods of an entry. `workload.replicas`: how many there are at the same time; times in seconds."""

    workload: WorkloadPlan
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    """Secrets of the namespace whose keys become environment variables."""
    mounts: tuple[MountPlan, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    grace_seconds: int | None = None
    """From SIGTERM to SIGKILL; None: Kubernetes' 30 s."""
    node_seconds: int | None = None
    """How long the nodes that are provisioned for them have to live; None: nodes are not provisioned for them."""
    fabric: PodFabricPlan | None = None
    """None: its pods communicate within a node, or need nothing for it beside requests and claims."""

    @property
    def volume_sidecar(self) -> VolumeSidecar | None:
        """The container for its volumes; there is one, however many need it."""
        return next((one.sidecar for one in self.mounts if one.sidecar is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobPlan:
    """Pods that train one model. `processes`: of torchrun in each.

    `stop_on`: exit codes that end the job; `interrupted_on`: those after which it starts again for nothing.
    """

    pod: PodPlan
    api: TrainingApi
    processes: int
    retries: int
    stop_on: tuple[int, ...]
    deadline_seconds: int
    interrupted_on: tuple[int, ...] = ()
    claim: KeptClaimPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingPlan:
    """A ScaledObject of KEDA: with a query of Prometheus, the lag of a Kafka topic, or both.

    `query`, `threshold` empty: no query; `kafka`: metadata of that trigger, empty: there is none;
    `kafka_authentication`: name of its TriggerAuthentication, or empty.
    """

    min_replicas: int
    max_replicas: int
    server: str
    query: str
    threshold: str
    cool_down_seconds: int
    kafka: Mapping[str, str] = field(default_factory=dict[str, str])
    kafka_authentication: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePlan:
    """An HTTPRoute. `hostname` None: all of the gateway's; `timeout_seconds` None: its own limit of an answer."""

    gateway_namespace: str
    gateway: str
    hostname: str | None
    path: str
    timeout_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceServicePlan:
    """Pods behind a Service. `nodes`: pods of each replica; above 1 they are a LeaderWorkerSet."""

    pod: PodPlan
    replicas: int
    nodes: int
    port: int
    health_path: str
    startup_seconds: int
    autoscaling: AutoscalingPlan | None = None
    route: RoutePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookPlan:
    """A suspended CronJob, of which members make Jobs. `idle_seconds`: of JupyterLab, if `pod` has no command."""

    pod: PodPlan
    home: str
    """Directory of its files."""
    idle_seconds: int
    deadline_seconds: int
    claim: KeptClaimPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobPlan:
    """An indexed Job, or with `schedule` a CronJob. `retries`: of each part."""

    pod: PodPlan
    parts: int
    retries: int
    stop_on: tuple[int, ...]
    deadline_seconds: int
    schedule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayWorkersPlan:
    """Workers of one kind. `gpus`: that Ray counts for each of them."""

    name: str
    pod: PodPlan
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterPlan:
    """A RayCluster of KubeRay. `recreates`: a change of its pods ends them and starts others.

    Only for the operator that the program installs: the field is newer than others may be (v1.6.0,
    ray-project/kuberay#4185, read 2026-11-28).
    """

    name: str
    recreates: bool
    version: str
    head: PodPlan
    workers: tuple[RayWorkersPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamWorkloadsPlan:
    """Workloads of one team beside its Deployments."""

    namespace: str
    training_jobs: tuple[TrainingJobPlan, ...] = ()
    inference_services: tuple[InferenceServicePlan, ...] = ()
    ray_clusters: tuple[RayClusterPlan, ...] = ()
    notebooks: tuple[NotebookPlan, ...] = ()
    batch_jobs: tuple[BatchJobPlan, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all entries."""
        of_pods = (*self.training_jobs, *self.inference_services, *self.notebooks, *self.batch_jobs)
        return (*(one.pod.workload.name for one in of_pods), *(one.name for one in self.ray_clusters))

    @property
    def always(self) -> Iterator[WorkloadPlan]:
        """Pods that run all the time, on nodes of a pool."""
        for service in self.inference_services:
            yield service.pod.workload
        for cluster in self.ray_clusters:
            yield from (
                pod.workload for pod in (cluster.head, *(one.pod for one in cluster.workers)) if pod.workload.pool
            )

    @property
    def all_pods(self) -> Iterator[PodPlan]:
        """Pods of every entry."""
        for one in (*self.training_jobs, *self.inference_services, *self.notebooks, *self.batch_jobs):
            yield one.pod
        for cluster in self.ray_clusters:
            yield cluster.head
            yield from (workers.pod for workers in cluster.workers)
