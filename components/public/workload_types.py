"""What a team runs, as typed dictionaries: see `types`.

No `from __future__ import annotations`: the SDK makes the package's schema of the annotations as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict


class RequestedResources(TypedDict, total=False):
    """What each pod requests of the nodes of one pool."""

    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    """A Kubernetes quantity. Unset: its GPUs' part of the node."""
    memory: Any
    """A Kubernetes quantity. Unset: its GPUs' part of the node."""
    shared_memory: Any
    """Size of /dev/shm, a part of `memory`. Not on a pool with MPS."""


class ContainerSettings(TypedDict, total=False):
    """The container of each pod."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    """Secrets of the namespace: each key becomes an environment variable."""
    volumes: Mapping[str, str]
    """Directory by volume."""
    run_as_user: float


class KeptDirectory(TypedDict, total=False):
    """A directory that outlives the pods."""

    directory: Required[str]
    volume: str
    storage_class: str
    size: Any
    """A Kubernetes quantity."""


class TrainingJob(RequestedResources, ContainerSettings, total=False):
    """Pods that train one model together and end."""

    name: Required[str]
    image: Required[str]
    command: Required[Sequence[str]]
    replicas: float
    processes: float
    checkpoints: KeptDirectory
    retries: float
    stop_on: Sequence[float]
    interrupted_on: Sequence[float]
    deadline: str
    grace: str
    topology: str
    """required or preferred."""
    api: str
    """job, jobset or trainjob."""


class KafkaLag(TypedDict, total=False):
    """Messages of a Kafka topic that a consumer group has not read yet."""

    servers: Required[Sequence[str]]
    topic: Required[str]
    consumer_group: Required[str]
    lag: float
    authentication: str


class Autoscaling(TypedDict, total=False):
    """Replicas by a metric of Prometheus, by the lag of a Kafka topic, or both."""

    max_replicas: Required[float]
    query: str
    threshold: float
    kafka: KafkaLag
    server: str
    cool_down: str


class Route(TypedDict, total=False):
    """An HTTPRoute of Gateway API."""

    gateway: Required[str]
    """namespace/name"""
    hostname: str
    path: str
    timeout: str


class InferenceService(RequestedResources, ContainerSettings, total=False):
    """Pods that answer requests, and a Service."""

    name: Required[str]
    image: Required[str]
    command: Sequence[str]
    replicas: float
    nodes: float
    """Pods of each replica, each on a node of its own."""
    port: float
    health_path: str
    startup: str
    grace: str
    autoscaling: Autoscaling
    route: Route


class Notebook(RequestedResources, ContainerSettings, total=False):
    """A notebook that members start and that ends when nobody uses it."""

    name: Required[str]
    image: str
    command: Sequence[str]
    idle: str
    deadline: str
    home: KeptDirectory


class BatchJob(RequestedResources, ContainerSettings, total=False):
    """Independent parts of some work."""

    name: Required[str]
    image: Required[str]
    command: Required[Sequence[str]]
    replicas: float
    parts: float
    retries: float
    stop_on: Sequence[float]
    deadline: str
    schedule: str
    """Minute, hour, day, month and weekday, in UTC."""


class RayHead(TypedDict, total=False):
    """The head of a Ray cluster."""

    pool: str
    cpu: Any
    """A Kubernetes quantity."""
    memory: Any
    """A Kubernetes quantity."""


class RayWorkers(RequestedResources, total=False):
    """Workers of one kind."""

    name: Required[str]
    replicas: float


class RayCluster(ContainerSettings, total=False):
    """A Ray cluster with a fixed number of workers."""

    name: Required[str]
    image: Required[str]
    version: Required[str]
    head: Required[RayHead]
    workers: Required[Sequence[RayWorkers]]
