"""Types for workload plans: training jobs, inference services, Ray clusters, notebooks and batch jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_platform.planning.clouds.storage import VolumeSidecar
from gpu_platform.planning.teams.section import NODE_START_SECONDS, WorkloadPlan

TrainingApi = Literal["job", "jobset", "trainjob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A volume of a pod and its mount path.

    The volume is a claim in the namespace, a ConfigMap or a path on the node. If none of them is set, the volume
    is empty at first and deleted with the pod.
    """

    name: str
    path: str
    claim: str | None = None
    config_map: str | None = None
    host_path: str | None = None
    read_only: bool = False
    sidecar: VolumeSidecar | None = None
    """The container in the pod that reads and writes the volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClaimPlan:
    """A PersistentVolumeClaim that one declared workload creates.

    If `storage_class` is None, the claim uses the cluster's default storage class. `shared` means that pods on
    several nodes write to the volume.
    """

    name: str
    storage_class: str | None
    size: str
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarPlan:
    """A container that runs as root next to the main container.

    Its requests `cpu` and `memory` are part of the pod's requests.
    """

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
    """Mounts, annotations and sidecar for a pod with all GPUs of a node, so that NCCL uses the node's GPU NICs.

    `library_path` contains directories that are searched before the image's directories. `profile` is the vendor's
    script on the node that sets NCCL's variables, if there is one.
    """

    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[MountPlan, ...]
    env: Mapping[str, str]
    library_path: tuple[str, ...] = ()
    profile: str | None = None
    sidecar: SidecarPlan | None = None

    @property
    def on_host(self) -> bool:
        """Whether the pod mounts paths of the node or runs a sidecar as root, which Pod Security `restricted` does
        not allow.
        """
        return self.sidecar is not None or any(mount.host_path is not None for mount in self.mounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The pods of a declared workload. `workload.replicas` is the number of pods that run at the same time. Times
    are in seconds.
    """

    workload: WorkloadPlan
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    """Secrets in the namespace whose keys become environment variables."""
    mounts: tuple[MountPlan, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    grace_seconds: int | None = None
    """Time from SIGTERM to SIGKILL, or None for Kubernetes' default of 30 s."""
    node_seconds: int | None = None
    """Required lifetime of the nodes that are provisioned for the pods, or None if no nodes are provisioned."""
    fabric: PodFabricPlan | None = None
    """Settings for the GPU NICs. None if the pods communicate only within a node, or if they need no settings in
    addition to their requests and claims.
    """

    @property
    def volume_sidecar(self) -> VolumeSidecar | None:
        """The sidecar for the pod's volumes, or None. One sidecar serves all volumes that need it."""
        return next((one.sidecar for one in self.mounts if one.sidecar is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobPlan:
    """Pods that train one model. `processes` is the number of torchrun processes in each pod.

    `stop_on` contains exit codes that end the job. `interrupted_on` contains exit codes after which the job starts
    again without using up a retry.
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
    """A KEDA ScaledObject that scales on a Prometheus query, on the lag of a Kafka topic, or on both.

    `query` and `threshold` are empty without a query. `kafka` contains the metadata of the Kafka trigger, or is
    empty without a trigger. `kafka_authentication` is the name of its TriggerAuthentication, or empty.
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
    """An HTTPRoute.

    If `hostname` is None, the route matches all hostnames of the gateway. If `timeout_seconds` is None, the
    gateway's limit applies.
    """

    gateway_namespace: str
    gateway: str
    hostname: str | None
    path: str
    timeout_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceServicePlan:
    """Pods behind a Service. `nodes` is the number of pods per replica. If it is greater than 1, the pods form a
    LeaderWorkerSet.
    """

    pod: PodPlan
    replicas: int
    nodes: int
    port: int
    health_path: str
    startup_seconds: int
    autoscaling: AutoscalingPlan | None = None
    route: RoutePlan | None = None

    @property
    def progress_seconds(self) -> int:
        """Time until a rollout without a new ready pod is reported as failed. A new pod can load its model during
        this time.
        """
        return NODE_START_SECONDS + self.startup_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookPlan:
    """A suspended CronJob from which members create Jobs.

    `idle_seconds` is the idle timeout of JupyterLab, which applies if `pod` has no command.
    """

    pod: PodPlan
    home: str
    """Directory that contains the notebook's files."""
    idle_seconds: int
    deadline_seconds: int
    claim: KeptClaimPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobPlan:
    """An indexed Job, or a CronJob if it has a `schedule`. `parts` is the number of indexes, and `retries` is the
    maximum number of retries per index.
    """

    pod: PodPlan
    parts: int
    retries: int
    stop_on: tuple[int, ...]
    deadline_seconds: int
    schedule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayWorkersPlan:
    """Ray workers of one kind. `gpus` is the number of GPUs that Ray counts for each worker. `object_store` is the
    directory of Ray's object store, or None for /dev/shm.
    """

    name: str
    pod: PodPlan
    gpus: int
    object_store: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterPlan:
    """A KubeRay RayCluster. If `recreates` is set, KubeRay replaces the pods when their template changes.

    `recreates` is set only with the operator that the program installs, because other operators may not have the
    field (v1.6.0, ray-project/kuberay#4185, read 2026-11-28).
    """

    name: str
    recreates: bool
    version: str
    head: PodPlan
    workers: tuple[RayWorkersPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamWorkloadsPlan:
    """The workloads of one team in addition to its Deployments."""

    namespace: str
    training_jobs: tuple[TrainingJobPlan, ...] = ()
    inference_services: tuple[InferenceServicePlan, ...] = ()
    ray_clusters: tuple[RayClusterPlan, ...] = ()
    notebooks: tuple[NotebookPlan, ...] = ()
    batch_jobs: tuple[BatchJobPlan, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all workloads."""
        of_pods = (*self.training_jobs, *self.inference_services, *self.notebooks, *self.batch_jobs)
        return (*(one.pod.workload.name for one in of_pods), *(one.name for one in self.ray_clusters))

    @property
    def always(self) -> Iterator[WorkloadPlan]:
        """Pods that always run on nodes of a pool."""
        for service in self.inference_services:
            yield service.pod.workload
        for cluster in self.ray_clusters:
            yield from (
                pod.workload for pod in (cluster.head, *(one.pod for one in cluster.workers)) if pod.workload.pool
            )

    @property
    def all_pods(self) -> Iterator[PodPlan]:
        """The pods of every workload."""
        for one in (*self.training_jobs, *self.inference_services, *self.notebooks, *self.batch_jobs):
            yield one.pod
        for cluster in self.ray_clusters:
            yield cluster.head
            yield from (workers.pod for workers in cluster.workers)
