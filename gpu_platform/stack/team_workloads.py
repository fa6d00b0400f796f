"""Stack file fields of `teams[]` for workloads: training jobs, inference services, Ray clusters, notebooks and
batch jobs.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gpu_platform.stack._types import (
    CRON,
    Cpu,
    DnsLabel,
    Duration,
    GpuMemory,
    Memory,
    MigProfileName,
    OptionalCommand,
    SecretName,
    SpecModel,
    separate_words,
    wrong,
)
from gpu_platform.stack.patterns import URL_PATH, worded
from gpu_platform.stack.secret_names import names_secret

# A volume at one of these paths would hide directories of the image, or the driver that is injected from the node.
# /dev/shm is already used for shared memory.
_TAKEN = {
    "/",
    "/bin",
    "/dev",
    "/dev/shm",  # noqa: S108 - a mount of the container
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
}


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise wrong("the name of an environment variable: letters, digits and _", "for example 'NCCL_DEBUG'")
    if value == "NVIDIA_VISIBLE_DEVICES":
        raise wrong(
            "a variable that does not assign devices",
            "remove it, because a pod is assigned the GPUs that it requests",
        )
    if names_secret(value):
        raise wrong(
            "no secret, because the stack file is plain text",
            "put it into a Secret of the namespace and write the name of the Secret in `secrets`",
        )
    return value


def _directory(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or any(part in {"", ".", ".."} for part in parts[1:]) or value in _TAKEN:
        raise wrong("an absolute path that is not a system directory such as /usr", "for example '/data'")
    return value


EnvironmentVariable = Annotated[str, AfterValidator(_variable)]
Directory = Annotated[str, AfterValidator(_directory)]


class RequestedResources(SpecModel):
    """Resources that each pod requests on the nodes of a pool."""

    pool: DnsLabel
    gpus: int = Field(default=1, ge=0, le=16)
    """Number of whole GPUs per pod. On a shared or MIG pool, a pod has exactly one share or instance. The number
    must be 0 on a CPU pool, and cannot be 0 on other pools.
    """
    profile: MigProfileName | None = None
    """MIG profile, required if the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA, the name of the claim in `claims` for each pod."""
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances. It is compared with the memory of the
    GPU, share or instance.
    """
    cpu: Cpu | None = None
    """CPUs of each pod. If unset, the pod receives CPUs in proportion to its share of the node's GPUs, after the
    requests of the node's agents are subtracted. On a CPU pool, the default is 1.
    """
    memory: Memory | None = None
    """Memory of each pod. If unset, the pod receives memory in proportion to its share of the node's GPUs, after
    the memory that the node itself needs is subtracted. On a CPU pool, the default is 4Gi.
    """
    shared_memory: Memory | None = None
    """Size of /dev/shm. It counts towards `memory`. The default is a quarter of `memory` for pods with GPUs, all
    of `memory` for Ray workers, else 64Mi. Not available on a pool with MPS, whose pods use the /dev/shm of the
    MPS daemon.
    """


class ContainerSettings(SpecModel):
    """Settings of the container in each pod."""

    env: Annotated[dict[EnvironmentVariable, str], Field(max_length=100)] = {}
    """Environment variables. They must not contain secrets."""
    secrets: Annotated[tuple[SecretName, ...], Field(max_length=20)] = ()
    """Names of Secrets in the namespace. The team creates them. Each key becomes an environment variable."""
    volumes: Annotated[dict[DnsLabel, Directory], Field(max_length=20)] = {}
    """Mount path of each volume that `storage` provides for the team, by the volume's name."""
    run_as_user: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """User ID of the processes. The user need not exist in the image, because the program sets USER to `member`
    and HOME to `/tmp`, unless `env` sets them. The default is the image's user, which must be a number other
    than 0 with `pod_security: restricted`.
    """


Command = Annotated[tuple[str, ...], Field(min_length=1, max_length=200), AfterValidator(separate_words)]


class KeptDirectory(SpecModel):
    """A directory that outlives the pods. It is on a volume of the team, or on a separate claim."""

    directory: Directory
    volume: DnsLabel | None = None
    """A volume that `storage` provides for the team and that pods may write to."""
    storage_class: DnsLabel | None = None
    """Storage class of the claim, only without `volume`. The default is the cluster's default storage class."""
    size: Memory | None = None
    """Size of the claim, only without `volume`. The claim is kept when the entry is removed from the file."""


class TrainingJob(RequestedResources, ContainerSettings):
    """Pods that train one model together. Either all of these pods start, or none does.

    A pod that is lost with its node is started again. This does not count as a retry. A program that fails is
    started again up to `retries` times, unless its exit code shows that it would fail again.
    """

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: Command
    """Command that is started in each pod. torchrun finds the other pods through the variables PET_*, so it needs
    no options for this.
    """
    replicas: int = Field(default=1, ge=1, le=1000)
    """Number of pods that train together."""
    processes: int | None = Field(default=None, ge=1, le=64)
    """Number of processes that torchrun starts in each pod. The default is one process per GPU."""
    checkpoints: KeptDirectory | None = None
    """Directory where the job keeps its state. The variable CHECKPOINTS contains the path of this directory.
    Required on spot capacity.
    """
    retries: int = Field(default=3, ge=0, le=100)
    """How many times the job is restarted after its own failures. Failures caused by a lost node or by preemption
    do not count.
    """
    stop_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (
        2,
        70,
        126,
        127,
    )
    """Exit codes of failures that a retry cannot solve. The defaults are the codes for wrong usage, a bug
    (EX_SOFTWARE of sysexits.h), a command that cannot be run, and a command that is not found.
    """
    interrupted_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (75,)
    """Exit codes of a program that was stopped from outside and has saved its work. The program is started again.
    This does not count as a retry. The default is EX_TEMPFAIL of sysexits.h.
    """
    deadline: Duration = "24h"
    """Maximum duration of the job, excluding the time that it waits in the queue. A job that takes longer is
    terminated. With `api: jobset` it is the maximum duration of each attempt.
    """
    grace: Duration = "2m"
    """Time from SIGTERM to SIGKILL, which must be long enough to write a checkpoint."""
    topology: Literal["required", "preferred"] | None = None
    """Whether all nodes of the pods must be close to each other (`required`), or may be apart if no such nodes are
    free (`preferred`). The field applies to jobs with several pods in topology-aware queues. `required` needs a
    pool in a cloud that labels nodes by their proximity. The default is `preferred`.
    """
    api: Literal["job", "jobset", "trainjob"] | None = None
    """Kubernetes API of the job. The default is `trainjob` if `addons` contains `trainer`, `jobset` if it contains
    only `jobset`, and otherwise `job` (an indexed Job).
    """


class KafkaLag(SpecModel):
    """Messages that a consumer group has not yet read from a Kafka topic. KEDA queries Kafka directly."""

    servers: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    pattern=worded(r"^[A-Za-z0-9.-]+:\d{1,5}$", "host:port"), examples=["kafka.streams.svc:9092"]
                ),
            ],
            ...,
        ],
        Field(min_length=1, max_length=20),
    ] = Field(examples=[["kafka.streams.svc:9092"]])
    """Bootstrap servers as host:port. `scaling.triggers` of the team must contain `kafka`."""
    topic: str = Field(
        pattern=worded(r"^[A-Za-z0-9._-]{1,249}$", "the name of a topic: up to 249 letters, digits, . _ and -"),
        examples=["prompts"],
    )
    consumer_group: str = Field(min_length=1, max_length=249)
    lag: int = Field(default=10, ge=1, le=1_000_000_000)
    """Number of messages per replica. There are never more replicas than partitions."""
    authentication: DnsLabel | None = None
    """TriggerAuthentication of the team with the parameters for SASL or TLS. Leave it unset if the servers require
    neither.
    """


class Autoscaling(SpecModel):
    """Autoscaling with KEDA, which sets the number of replicas from a Prometheus metric or from the lag of a Kafka
    topic. If both are set, the larger number applies.
    """

    max_replicas: int = Field(ge=2, le=1000)
    query: str | None = Field(
        default=None, min_length=1, examples=['sum(vllm:num_requests_waiting{namespace="search"})']
    )
    """PromQL query that returns a single value."""
    threshold: float | None = Field(default=None, gt=0)
    """Value per replica, only with `query`. For example, a value of three times the threshold results in three
    replicas.
    """
    kafka: KafkaLag | None = None
    server: str | None = Field(
        default=None, pattern=r"^https?://\S+$", examples=["http://prometheus.obs.svc:9090"]
    )
    """Address of Prometheus. The default is the Prometheus of `addons.prometheus`."""
    cool_down: Duration = "5m"
    """How long the load must stay low before a replica is removed, at most 1 h. At most one replica is removed per
    minute.
    """

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Autoscaling:
        if (self.query is None) != (self.threshold is None):
            raise wrong("query and threshold together", "set both, or remove both")
        if self.query is None and self.kafka is None:
            raise wrong("query with threshold, or kafka, or both", "write query: ... and threshold: ...")
        return self


class Route(SpecModel):
    """A Gateway API HTTPRoute to the service."""

    gateway: str = Field(
        pattern=worded(
            r"^[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}$",
            "namespace/name of a Gateway, with up to 63 and 253 characters of a-z, 0-9 and - (the name may "
            "contain dots)",
        ),
        examples=["edge/public"],
    )
    """Gateway as namespace/name. It must already exist and allow routes from the team's namespace."""
    hostname: str | None = Field(
        default=None,
        pattern=worded(
            r"^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)+$", "a host name in lower case with a dot, or `*.` and a domain"
        ),
        examples=["chat.example.com"],
    )
    """Host name of the route. The default is all host names of the gateway."""
    path: str = Field(default="/", pattern=URL_PATH)
    """Path prefix of the requests that the route matches."""
    timeout: Duration | None = None
    """Maximum duration of a response, including streaming. The default is 1h with `addons: {gateway: install}`,
    because Envoy would otherwise end responses after 15 s. With `gateway: present`, the gateway's own limit
    applies by default, because some gateways (GKE) accept no other limit.
    """


class InferenceService(RequestedResources, ContainerSettings):
    """Pods that answer requests, and a Service with the name of the entry."""

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: OptionalCommand = ()
    """Command of the container. The default is the command of the image."""
    replicas: int = Field(default=1, ge=1, le=1000)
    """Number of copies of the model, or the minimum number with `autoscaling`."""
    nodes: int = Field(default=1, ge=1, le=64)
    """Number of pods in each copy, each on a separate node, for a model that does not fit on one node. Above 1,
    the copies use LeaderWorkerSet, and pods have the variables LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and
    LWS_WORKER_INDEX.
    """
    port: int = Field(default=8080, ge=1, le=65535)
    health_path: str = Field(default="/healthz", pattern=URL_PATH)
    """Path of the health check. It must return status 200 once the model is loaded."""
    startup: Duration = "10m"
    """How long a model may take to load."""
    grace: Duration = "1m"
    """Termination grace period of a pod. The pod first waits 10 s (at most half of this period), so that clients
    stop sending requests to it. Then it receives SIGTERM and has the remaining time to finish its requests.
    """
    autoscaling: Autoscaling | None = None
    route: Route | None = None


class Notebook(RequestedResources, ContainerSettings):
    """A notebook that members start, and that stops when it is idle. In the cluster, it is a suspended CronJob
    with the name of the entry.

    `kubectl create job ana --from=cronjob/<name>` starts a notebook.
    """

    name: DnsLabel
    image: str | None = None
    """Container image with JupyterLab, pinned by tag or digest. The default is NVIDIA's PyTorch image in the
    catalogue.
    """
    command: OptionalCommand = ()
    """Command of the container. The default starts JupyterLab on localhost port 8888 of the pod. Members reach it
    with `kubectl port-forward`.
    """
    idle: Duration = "1h"
    """Time without a connection or a running cell after which the notebook stops. Only the default command
    supports this field.
    """
    deadline: Duration = "12h"
    """Time after which the notebook stops even if it is in use."""
    home: KeptDirectory | None = None
    """Directory whose files are kept when the pod terminates. If unset, all files are lost when the pod
    terminates.
    """


class BatchJob(RequestedResources, ContainerSettings):
    """A batch job of independent parts. Each part is retried separately. JOB_COMPLETION_INDEX contains the number
    of the part, starting at 0.
    """

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: Command
    replicas: int = Field(default=1, ge=1, le=1000)
    """Number of parts that run at the same time."""
    parts: int | None = Field(default=None, ge=1, le=100_000)
    """Total number of parts. The default is `replicas`."""
    retries: int = Field(default=2, ge=0, le=100)
    """How many times each part is retried."""
    stop_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (126, 127)
    """Exit codes that make the whole job fail immediately. The defaults are the codes for a command that cannot be
    run and a command that is not found.
    """
    deadline: Duration = "24h"
    schedule: str | None = Field(default=None, pattern=CRON, examples=["0 2 * * *"])
    """Schedule in UTC: minute, hour, day, month and weekday. A run does not start while the previous one is
    running. If unset, the job runs once, when it is deployed.
    """

    @property
    def at_once(self) -> int:
        """Number of parts that run at the same time. It is at most the total number of parts."""
        return min(self.replicas, self.parts or self.replicas)


class RayHead(SpecModel):
    """The head of a Ray cluster. It schedules tasks but runs none."""

    pool: DnsLabel | None = None
    """A CPU pool for the head. By default, the head can run on any node without GPUs."""
    cpu: Cpu = "2"
    memory: Memory = "8Gi"


class RayWorkers(RequestedResources):
    """A group of identical workers."""

    name: DnsLabel
    replicas: int = Field(default=1, ge=1, le=1000)


class RayCluster(ContainerSettings):
    """A KubeRay cluster with a fixed number of workers."""

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$", examples=["2.49.0"])
    """Version of Ray in the image."""
    head: RayHead
    workers: Annotated[tuple[RayWorkers, ...], Field(min_length=1, max_length=17)]
