"""Stack file fields of `teams[]` for what teams run: training jobs, inference services, Ray clusters, notebooks,
batch jobs."""

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

# Directories of the image and of the node's injected driver, which a volume would hide; at /dev/shm is memory.
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
        raise wrong("a variable that gives no devices", "remove it: a pod gets the GPUs that it requests")
    if names_secret(value):
        raise wrong(
            "no secret: the stack file is plain text",
            "put it into a Secret of the namespace and write the name of the Secret in `secrets`",
        )
    return value


def _directory(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or any(part in {"", ".", ".."} for part in parts[1:]) or value in _TAKEN:
        raise wrong("an absolute path below a directory of its own", "for example '/data'")
    return value


EnvironmentVariable = Annotated[str, AfterValidator(_variable)]
Directory = Annotated[str, AfterValidator(_directory)]


class RequestedResources(SpecModel):
    """What each pod requests of the nodes of one pool."""

    pool: DnsLabel
    gpus: int = Field(default=1, ge=0, le=16)
    """Whole GPUs per pod; on a shared or MIG pool a pod gets exactly one share or instance. 0 on a CPU pool, and
    only there."""
    profile: MigProfileName | None = None
    """MIG profile, if the pool offers several."""
    claim: DnsLabel | None = None
    """On a pool with DRA: name of the claim in `claims` that each pod gets."""
    gpu_memory: GpuMemory | None = None
    """GPU memory that a pod needs on each of its GPUs, shares or instances; checked against their memory."""
    cpu: Cpu | None = None
    """Unset: its GPUs' part of the node's CPUs, less what the node's agents request; 1 on a CPU pool."""
    memory: Memory | None = None
    """Unset: its GPUs' part of the node's memory, less what the node needs itself; 4Gi on a CPU pool."""
    shared_memory: Memory | None = None
    """Size of /dev/shm, a part of `memory`. Unset: a quarter of it for pods with GPUs, else 64Mi. Not on a pool
    with MPS: its pods have the /dev/shm of the MPS daemon."""


class ContainerSettings(SpecModel):
    """The container of each pod."""

    env: Annotated[dict[EnvironmentVariable, str], Field(max_length=100)] = {}
    """Environment variables; never a secret."""
    secrets: Annotated[tuple[SecretName, ...], Field(max_length=20)] = ()
    """Secrets of the namespace, which the team creates: each key becomes an environment variable."""
    volumes: Annotated[dict[DnsLabel, Directory], Field(max_length=20)] = {}
    """Volumes that `storage` gives the team, by name, and the directory where each is mounted."""
    run_as_user: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """User id of the processes, whom the image need not know: USER is then `member` and HOME `/tmp`, unless `env`
    has them. Unset: the image's own, which with `pod_security: restricted` has to be a number other than 0."""


Command = Annotated[tuple[str, ...], Field(min_length=1, max_length=200), AfterValidator(separate_words)]


class KeptDirectory(SpecModel):
    """A directory that outlives the pods: a volume of the team, or a claim of its own."""

    directory: Directory
    volume: DnsLabel | None = None
    """A volume that `storage` gives the team, and that pods may write."""
    storage_class: DnsLabel | None = None
    """Without `volume`: storage class of the claim. Unset: the cluster's default class."""
    size: Memory | None = None
    """Without `volume`: size of the claim, which is kept when the entry leaves the file."""


class TrainingJob(RequestedResources, ContainerSettings):
    """Pods that train one model together and end: all start, or none.

    A pod that its node loses is started again without counting it; a program that fails is tried again `retries`
    times, unless its exit code says that it would fail again.
    """

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: Command
    """Started in each pod. torchrun finds the other pods by the variables PET_*: it needs no option for it."""
    replicas: int = Field(default=1, ge=1, le=1000)
    """Pods that train together."""
    processes: int | None = Field(default=None, ge=1, le=64)
    """Processes that torchrun starts in each pod. Unset: one for each GPU."""
    checkpoints: KeptDirectory | None = None
    """Where the job keeps its state; the variable CHECKPOINTS has the directory. Required on spot capacity."""
    retries: int = Field(default=3, ge=0, le=100)
    """How often the job is started again after a failure of its own."""
    stop_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (
        2,
        70,
        126,
        127,
    )
    """Exit codes of mistakes that no other attempt mends. Default: wrong usage, a bug (EX_SOFTWARE of
    sysexits.h), a command that cannot be run, and one that is not found."""
    interrupted_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (75,)
    """Exit codes of a program that was stopped from outside and has saved its work: it starts again, which costs
    none of the retries. Default: EX_TEMPFAIL of sysexits.h."""
    deadline: Duration = "24h"
    """The job is ended after this time, waiting in the queue not counted."""
    grace: Duration = "2m"
    """Time from SIGTERM to SIGKILL: as long as a checkpoint takes to write."""
    topology: Literal["required", "preferred"] | None = None
    """With topology-aware queues and several pods: whether all nodes must be close to each other, or may be apart
    where no such nodes are free. `required` needs a pool whose cloud labels which nodes are close to each other.
    Unset: preferred."""
    api: Literal["job", "jobset", "trainjob"] | None = None
    """Kubernetes API that runs it. Unset: trainjob where `addons` has trainer, jobset where it has that alone,
    else an indexed Job."""


class KafkaLag(SpecModel):
    """Messages of a Kafka topic that a consumer group has not read yet, asked by KEDA itself."""

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
    """Bootstrap servers as host:port; `scaling.triggers` of the team has kafka."""
    topic: str = Field(
        pattern=worded(r"^[A-Za-z0-9._-]{1,249}$", "the name of a topic: up to 249 letters, digits, . _ and -"),
        examples=["prompts"],
    )
    consumer_group: str = Field(min_length=1, max_length=249)
    lag: int = Field(default=10, ge=1, le=1_000_000_000)
    """Messages for each replica. There are never more replicas than partitions."""
    authentication: DnsLabel | None = None
    """TriggerAuthentication of the team with what SASL or TLS needs; unset: the servers ask for nothing."""


class Autoscaling(SpecModel):
    """Replicas by a metric of Prometheus, by the lag of a Kafka topic, or by what asks for more, with KEDA."""

    max_replicas: int = Field(ge=2, le=1000)
    query: str | None = Field(
        default=None, min_length=1, examples=['sum(vllm:num_requests_waiting{namespace="search"})']
    )
    """PromQL with one value."""
    threshold: float | None = Field(default=None, gt=0)
    """Only with `query`: value for each replica; at three times the threshold there are three."""
    kafka: KafkaLag | None = None
    server: str | None = Field(
        default=None, pattern=r"^https?://\S+$", examples=["http://prometheus.obs.svc:9090"]
    )
    """Address of Prometheus. Unset: that of `addons.prometheus`."""
    cool_down: Duration = "5m"
    """How long fewer replicas must have been enough before one goes, at most 1 h; one goes a minute."""

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Autoscaling:
        if (self.query is None) != (self.threshold is None):
            raise wrong("query and threshold together", "write both, or remove both")
        if self.query is None and self.kafka is None:
            raise wrong("query with threshold, or kafka, or both", "write query: ... and threshold: ...")
        return self


class Route(SpecModel):
    """An HTTPRoute of Gateway API to the service."""

    gateway: str = Field(
        pattern=worded(
            r"^[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}$",
            "namespace/name of a Gateway, up to 63 and 253 of a-z, 0-9 and -",
        ),
        examples=["edge/public"],
    )
    """Gateway as namespace/name; it exists, and admits routes of the team's namespace."""
    hostname: str | None = Field(
        default=None,
        pattern=worded(
            r"^(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)+$", "a host name in lower case with a dot, or `*.` and a domain"
        ),
        examples=["chat.example.com"],
    )
    """Unset: all host names of the gateway."""
    path: str = Field(default="/", pattern=URL_PATH)
    """Prefix of the path."""
    timeout: Duration | None = None
    """How long an answer may take, with all that it streams. Unset: 1h with `addons: {gateway: install}`, whose
    Envoy cuts answers after 15 s else; with `present` the gateway's own limit, for some take no other (GKE's)."""


class InferenceService(RequestedResources, ContainerSettings):
    """Pods that answer requests, and a Service with its name."""

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: OptionalCommand = ()
    """Unset: the image's own."""
    replicas: int = Field(default=1, ge=1, le=1000)
    """Copies of the model; with `autoscaling` the least."""
    nodes: int = Field(default=1, ge=1, le=64)
    """Pods of each copy, each on a node of its own, for a model that one node does not hold. Above 1 with
    LeaderWorkerSet: variables LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and LWS_WORKER_INDEX."""
    port: int = Field(default=8080, ge=1, le=65535)
    health_path: str = Field(default="/healthz", pattern=URL_PATH)
    """Answers 200 once the model is loaded."""
    startup: Duration = "10m"
    """How long a model may take to load."""
    grace: Duration = "1m"
    """Time before a pod ends: the first 10 s, at most half of it, until nobody sends requests to the pod any more,
    then SIGTERM and the rest for requests that are being answered."""
    autoscaling: Autoscaling | None = None
    route: Route | None = None


class Notebook(RequestedResources, ContainerSettings):
    """A notebook that members start and that ends when nobody uses it: a suspended CronJob named as the entry.

    `kubectl create job ana --from=cronjob/<name>` starts one.
    """

    name: DnsLabel
    image: str | None = None
    """Container image with JupyterLab, pinned. Unset: the one of the guide, with PyTorch."""
    command: OptionalCommand = ()
    """Unset: JupyterLab on port 8888 of the pod itself, which `kubectl port-forward` reaches."""
    idle: Duration = "1h"
    """Ends after this time without a connection or a running cell; the default command alone knows it."""
    deadline: Duration = "12h"
    """Ends after this time in any case."""
    home: KeptDirectory | None = None
    """Where files are kept. Unset: they end with the pod."""


class BatchJob(RequestedResources, ContainerSettings):
    """Independent parts of some work, each tried again by itself; JOB_COMPLETION_INDEX numbers them from 0."""

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    command: Command
    replicas: int = Field(default=1, ge=1, le=1000)
    """Parts that run at the same time."""
    parts: int | None = Field(default=None, ge=1, le=100_000)
    """All parts. Unset: `replicas`."""
    retries: int = Field(default=2, ge=0, le=100)
    """How often each part is tried again."""
    stop_on: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=50)] = (126, 127)
    """Exit codes with which the whole job fails at once. Default: a command that cannot be run or is not found."""
    deadline: Duration = "24h"
    schedule: str | None = Field(default=None, pattern=CRON, examples=["0 2 * * *"])
    """Minute, hour, day, month and weekday, in UTC, when it starts; never beside its last run. Unset: it runs
    once, when it is deployed."""

    @property
    def at_once(self) -> int:
        """Parts that run at the same time, no more than there are."""
        return min(self.replicas, self.parts or self.replicas)


class RayHead(SpecModel):
    """The head of a Ray cluster: it schedules and runs no tasks."""

    pool: DnsLabel | None = None
    """A CPU pool. Unset: any node that has no GPUs."""
    cpu: Cpu = "2"
    memory: Memory = "8Gi"


class RayWorkers(RequestedResources):
    """Workers of one kind."""

    name: DnsLabel
    replicas: int = Field(default=1, ge=1, le=1000)


class RayCluster(ContainerSettings):
    """A Ray cluster of KubeRay with a fixed number of workers."""

    name: DnsLabel
    image: str
    """Container image, pinned by tag or digest."""
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$", examples=["2.49.0"])
    """Version of Ray in the image."""
    head: RayHead
    workers: Annotated[tuple[RayWorkers, ...], Field(min_length=1, max_length=17)]
