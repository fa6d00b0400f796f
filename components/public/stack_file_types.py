"""Mappings of the stack file as typed dictionaries.

`python -m tools.docs` generates the dictionaries from the models of the stack file. Each key has the same meaning
and the same checks as in the stack file; see its page in docs/reference. A value that the models accept in two
forms (a number, or a mapping of numbers) is `Any`. Numbers are `float` even if only integers are allowed, because
packaged components receive every number as a float.

The module does not import `annotations` from `__future__`, because the SDK needs the evaluated annotations to
build the package's schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

import pulumi


class KeptDirectory(TypedDict, total=False):
    """A directory that outlives the pods."""

    directory: Required[str]
    volume: str
    storage_class: str
    size: Any


class TrainingJob(TypedDict, total=False):
    """Pods that train one model together."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    volumes: Mapping[str, str]
    run_as_user: float
    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    memory: Any
    shared_memory: Any
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
    api: str


class KafkaLag(TypedDict, total=False):
    """Messages that a consumer group has not yet read from a Kafka topic."""

    servers: Required[Sequence[str]]
    topic: Required[str]
    consumer_group: Required[str]
    lag: float
    authentication: str


class Autoscaling(TypedDict, total=False):
    """Autoscaling with KEDA, which sets the number of replicas from a Prometheus metric or from the lag of a Kafka
    topic."""

    max_replicas: Required[float]
    query: str
    threshold: float
    kafka: KafkaLag
    server: str
    cool_down: str


class Route(TypedDict, total=False):
    """A Gateway API HTTPRoute to the service."""

    gateway: Required[str]
    hostname: str
    path: str
    timeout: str


class InferenceService(TypedDict, total=False):
    """Pods that answer requests, and a Service with the name of the entry."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    volumes: Mapping[str, str]
    run_as_user: float
    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    memory: Any
    shared_memory: Any
    name: Required[str]
    image: Required[str]
    command: Sequence[str]
    replicas: float
    nodes: float
    port: float
    health_path: str
    startup: str
    grace: str
    autoscaling: Autoscaling
    route: Route


class Notebook(TypedDict, total=False):
    """A notebook that members start, and that stops when it is idle."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    volumes: Mapping[str, str]
    run_as_user: float
    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    memory: Any
    shared_memory: Any
    name: Required[str]
    image: str
    command: Sequence[str]
    idle: str
    deadline: str
    home: KeptDirectory


class BatchJob(TypedDict, total=False):
    """A batch job of independent parts."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    volumes: Mapping[str, str]
    run_as_user: float
    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    memory: Any
    shared_memory: Any
    name: Required[str]
    image: Required[str]
    command: Required[Sequence[str]]
    replicas: float
    parts: float
    retries: float
    stop_on: Sequence[float]
    deadline: str
    schedule: str


class RayHead(TypedDict, total=False):
    """The head of a Ray cluster."""

    pool: str
    cpu: Any
    memory: Any


class RayWorkers(TypedDict, total=False):
    """A group of identical workers."""

    pool: Required[str]
    gpus: float
    profile: str
    claim: str
    gpu_memory: str
    cpu: Any
    memory: Any
    shared_memory: Any
    name: Required[str]
    replicas: float


class RayCluster(TypedDict, total=False):
    """A KubeRay cluster with a fixed number of workers."""

    env: Mapping[str, str]
    secrets: Sequence[str]
    volumes: Mapping[str, str]
    run_as_user: float
    name: Required[str]
    image: Required[str]
    version: Required[str]
    head: Required[RayHead]
    workers: Required[Sequence[RayWorkers]]


class MaintenanceExclusion(TypedDict, total=False):
    """A period in which GKE does not perform upgrades of the type that `scope` names."""

    name: Required[str]
    start: Required[str]
    end: Required[str]
    scope: str


class Maintenance(TypedDict, total=False):
    """Maintenance windows in which GKE may upgrade the cluster."""

    start: str
    hours: float
    recurrence: str
    exclusions: Sequence[MaintenanceExclusion]


class ExistingVpc(TypedDict, total=False):
    """An existing network for a new cluster, with the fields for EKS, for GKE or for AKS."""

    project: str
    name: str
    subnetwork: str
    pods_range: str
    services_range: str
    vpc: str
    subnets: Mapping[str, str]
    control_plane_subnets: Sequence[str]
    pod_subnets: Mapping[str, str]
    subnet: str
    outbound: str


class Iam(TypedDict, total=False):
    """How the program creates IAM roles, and which roles exist already."""

    path: str
    permissions_boundary: str
    node_role: str


class ComputeClass(TypedDict, total=False):
    """Pools with the same GPU resource."""

    name: Required[str]
    pools: Required[Sequence[str]]


class StorageClass(TypedDict, total=False):
    """A storage class for volume claims. Only `type` and `retain` apply to all types."""

    type: Required[str]
    disk: str
    iops: float
    default: bool
    retain: bool
    kms_key: str
    file_system: str
    tier: str
    throughput: float
    zone: str
    bucket: str
    prefix: str
    teams: Sequence[str]
    team_stacks: Sequence[str]
    purpose: str
    read_only: bool
    cache_gb: float
    system: str
    mount_name: str
    address: str
    share: str
    directory: str


class SystemNodes(TypedDict, total=False):
    """The nodes without GPUs of a new cluster, with the fields for EKS, for GKE or for AKS."""

    machine_types: Sequence[str]
    min: float
    desired: float
    max: float
    disk_gb: float
    kms_key: str
    release: str
    machine_type: str
    zones: Sequence[str]


class CreateCluster(TypedDict, total=False):
    """A new cluster, with the fields for EKS, for GKE or for AKS."""

    network: ExistingVpc
    cidr: str
    pods_cidr: str
    services_cidr: str
    zones: Sequence[str]
    nat: str
    api_access: Sequence[str]
    api_from_anywhere: bool
    admins: Sequence[str]
    system: SystemNodes
    scheduling: str
    support: str
    logs_retention_days: float
    kms_key: str
    nodes_cidr: str
    control_plane_cidr: str
    dns_access: bool
    private_apis: bool
    authenticator_groups: str
    release_channel: str
    maintenance: Maintenance
    resource_group: str
    private: bool
    disk_encryption_set: str


class ClusterParts(TypedDict, total=False):
    """Which controllers are installed, and which the cluster already has, for EKS or for AKS."""

    gpu_operator: str
    device_plugin: str
    node_feature_discovery: str
    dcgm_exporter: str
    karpenter: str
    karpenter_node_role: str
    cluster_autoscaler: str
    efa_plugin: str
    dranet: str
    network_operator: str


class Login(TypedDict, total=False):
    """An IAM role or user that can log in to an EKS cluster, through an access entry without an access policy."""

    principal: Required[str]
    groups: Required[Sequence[str]]
    username: str


class Oidc(TypedDict, total=False):
    """An OpenID Connect provider."""

    issuer: Required[str]
    client_id: Required[str]
    username_claim: str
    username_prefix: str
    groups_claim: str
    groups_prefix: str


class PlatformCluster(TypedDict, total=False):
    """The cluster of a whole platform, either an existing cluster or a new one with `create`."""

    provider: Required[str]
    name: str
    region: str
    account: str
    kubernetes: str
    create: CreateCluster
    production: bool
    protect: bool
    subnets: Mapping[str, pulumi.Input[str]]
    security_groups: Sequence[str]
    logins: Sequence[Login]
    parts: ClusterParts
    oidc: Oidc
    assume_role: str
    iam: Iam
    tags: Mapping[str, str]
    project: str
    location: str
    node_service_account: str
    impersonate: str
    labels: Mapping[str, str]
    fqdn_policies: bool
    gpu_networks_cidr: str
    subscription: str
    resource_group: str
    kubeconfig: pulumi.Input[str]
    context: str
    network_policies: str


class Driver(TypedDict, total=False):
    """NVIDIA driver in the stack file: its version, and what installs it."""

    owner: str
    version: str


class Operator(TypedDict, total=False):
    """NVIDIA GPU Operator in the stack file: its release, and what installs the driver and container toolkit."""

    release: str
    driver: Driver
    toolkit: str
    compute_domains: bool


class Count(TypedDict, total=False):
    """Number of nodes in a pool: minimum, desired and maximum."""

    min: float
    desired: Required[float]
    max: float


class CapacityBlock(TypedDict, total=False):
    """One of several EC2 Capacity Blocks for ML that a pool uses one after the other."""

    reservation: Required[str]
    zone: Required[str]
    starts: Required[str]
    ends: Required[str]


class Capacity(TypedDict, total=False):
    """How nodes are paid for: on-demand, spot, reservation, capacity-block (EKS) or flex-start (GKE)."""

    type: Required[str]
    alternatives: Sequence[str]
    reservation: str
    zone: str
    placement_group: str
    project: str
    block: str
    sub_block: str
    starts: str
    ends: str
    needed_until: str
    blocks: Sequence[CapacityBlock]
    max_run_duration: str
    queued: bool


class Placement(TypedDict, total=False):
    """Physical placement of the pool's nodes relative to each other."""

    type: str
    group: str


class Topology(TypedDict, total=False):
    """Topology Manager and Memory Manager policies of the kubelet."""

    policy: Required[str]
    scope: str
    memory: str


class Tuning(TypedDict, total=False):
    """Kernel settings of a pool's nodes from their first boot."""

    intent: str
    sysctls: Mapping[str, Any]
    huge_pages: float


class NodeScript(TypedDict, total=False):
    """Script that GKE runs on new nodes."""

    gcs: str
    generation: float
    secret: str


class KubeletLimits(TypedDict, total=False):
    """Kubelet settings that do not affect the plan."""

    pod_pids_limit: float
    container_log_max_size: Any
    container_log_max_files: float
    image_gc_high_percent: float
    image_gc_low_percent: float
    cpu_cfs_quota: bool


class Bootstrap(TypedDict, total=False):
    """Commands, settings and kubelet limits for new nodes of a pool, in addition to the settings that the program
    chooses."""

    commands: Sequence[str]
    settings: Mapping[str, Any]
    script: NodeScript
    kubelet: KubeletLimits


class Taint(TypedDict, total=False):
    """Node taint of a pool in the stack file."""

    key: Required[str]
    value: str
    effect: Required[str]


class ExistingNodes(TypedDict, total=False):
    """Nodes of an existing cluster that form the pool, selected by name or by label."""

    names: Sequence[str]
    selector: Mapping[str, str]


class MigDevices(TypedDict, total=False):
    """MIG layout in the stack file for some GPUs of a node, selected by index, by model, or both."""

    devices: Sequence[float]
    gpu: str
    layout: Required[Any]


class Sharing(TypedDict, total=False):
    """How the GPUs are shared: none, time-slicing, mps, mig or dra, each with its own fields."""

    mode: Required[str]
    rename: bool
    fail_requests_greater_than_one: bool
    replicas: Any
    max_unavailable: float
    drain_timeout: str
    layout: Any
    layouts: Sequence[MigDevices]
    strategy: str
    change: str
    partitions: bool


class PoolSchedule(TypedDict, total=False):
    """Times at which a pool has nodes: on `days` from `start` to `stop`."""

    days: Sequence[str]
    start: Required[str]
    stop: Required[str]
    time_zone: str
    stops_work: bool


class Karpenter(TypedDict, total=False):
    """Settings of an EKS pool in which Karpenter creates nodes for pending pods and removes unused nodes."""

    alternatives: Sequence[str]
    consolidate_after: str
    expire_after: str
    limits: Mapping[str, Any]


class Image(TypedDict, total=False):
    """Node image of a pool in the stack file."""

    family: str
    ami: str
    release: str
    fast_pull: bool
    cache: str
    driver: str


class Network(TypedDict, total=False):
    """Network interfaces for GPU traffic between the nodes of a pool, in addition to the pod network."""

    rdma: bool
    layout: str
    via: str


class Disk(TypedDict, total=False):
    """Boot disk of a node."""

    size_gb: float
    type: str
    kms_key: str


class Upgrade(TypedDict, total=False):
    """Strategy for replacing the nodes of a pool during an upgrade."""

    strategy: str
    max_surge: float
    max_unavailable: float


class PoolSettings(TypedDict, total=False):
    """Pool without its name, and without the fields that apply only to whole platforms."""

    machine_type: Required[str]
    count: Required[Count]
    capacity: Capacity
    headroom: float
    schedule: PoolSchedule
    placement: Placement
    zones: Sequence[str]
    workload: Required[str]
    sharing: Sharing
    topology: Topology
    tuning: Tuning
    bootstrap: Bootstrap
    labels: Mapping[str, str]
    tags: Mapping[str, str]
    taints: Sequence[Taint]
    gate_nodes: str
    nodes: ExistingNodes
    provisioner: str
    karpenter: Karpenter
    device_plugin: str
    image: Image
    network: Network
    disk: Disk
    local_nvme: bool
    upgrade: Upgrade
    repair: bool
    protect: bool
    usd_per_hour: float
    utilisation: float


class Pool(PoolSettings, total=False):
    """Node pool in the stack file: a GPU pool, or a CPU pool if its machine type has no GPUs."""

    name: Required[str]


class ObjectLimits(TypedDict, total=False):
    """Maximum number of objects of each kind in a team's namespace."""

    pods: float
    jobs: float
    services: float
    load_balancers: float
    node_ports: float
    config_maps: float
    secrets: float
    claims: float
    other_kinds: float
    storage: Any


class TeamIngress(TypedDict, total=False):
    """Source that may open TCP connections to pods of the team: the pods in a namespace, or addresses."""

    namespace: str
    cidr: str
    ports: Required[Sequence[float]]


class TeamScaling(TypedDict, total=False):
    """Servers and trigger types that a team's ScaledObjects and ScaledJobs may use."""

    servers: Sequence[str]
    triggers: Sequence[str]


class TeamRoutes(TypedDict, total=False):
    """Hosts and annotations for a team's Ingresses, HTTPRoutes and GRPCRoutes, and annotations for its
    Services."""

    hosts: Sequence[str]
    annotations: Sequence[str]


class Quota(TypedDict, total=False):
    """Resource quota of a team."""

    gpus: Any
    shared: Any
    mig: Mapping[str, Any]
    mig_shared: Mapping[str, Any]
    devices: Mapping[str, Any]
    cpu: Any
    memory: Any
    objects: ObjectLimits


class Claim(TypedDict, total=False):
    """Devices that a pod requests, through a ResourceClaimTemplate in the team's namespace."""

    memory: Any
    product: str
    profile: str
    selector: str
    name: Required[str]
    device_class: str
    count: float


class DeviceClass(TypedDict, total=False):
    """DeviceClass for Dynamic Resource Allocation."""

    memory: Any
    product: str
    profile: str
    selector: str
    type: str


class Workload(TypedDict, total=False):
    """Deployment of a team in the stack file."""

    name: Required[str]
    pool: Required[str]
    replicas: float
    gpus: float
    profile: str
    claim: str
    compute_domain: bool
    gpu_memory: str
    cpu: Any
    memory: Any
    image: pulumi.Input[str]
    command: Sequence[str]
    run_as_user: float


class GpuUnits(TypedDict, total=False):
    """Amounts of GPUs, shares, instances or devices."""

    gpus: Any
    shared: Any
    mig: Mapping[str, Any]
    mig_shared: Mapping[str, Any]
    devices: Mapping[str, Any]


class TeamQueue(TypedDict, total=False):
    """Queue for a team's workloads, with `queueing`."""

    cohort: str
    borrow: GpuUnits
    lend: GpuUnits
    weight: float


class TeamBucket(TypedDict, total=False):
    """An existing S3 bucket, Cloud Storage bucket or container of Azure Blob Storage that pods of a team use
    through the cloud's SDKs."""

    name: Required[str]
    storage_account: str
    access: str
    prefix: str
    kms_key: str


class TeamIdentity(TypedDict, total=False):
    """Cloud identity of a team."""

    buckets: Sequence[TeamBucket]
    role_arn: str
    google_service_account: str
    managed_identity: str


class TeamSettings(TypedDict, total=False):
    """Team without its name, and without the fields that apply only to whole platforms."""

    quota: Required[Quota]
    priority: Required[str]
    members: Required[Sequence[str]]
    admins: Sequence[str]
    viewers: Sequence[str]
    image_pull_secrets: Sequence[str]
    egress: Sequence[Any]
    ingress: Sequence[TeamIngress]
    scaling: TeamScaling
    routes: TeamRoutes
    inline_csi_drivers: Sequence[str]
    allow_bare_pods: bool
    pod_security: str
    claims: Sequence[Claim]
    workloads: Sequence[Workload]
    training_jobs: Sequence[TrainingJob]
    inference_services: Sequence[InferenceService]
    ray_clusters: Sequence[RayCluster]
    notebooks: Sequence[Notebook]
    batch_jobs: Sequence[BatchJob]


class Team(TeamSettings, total=False):
    """Team in the stack file: its namespace, quota, priority, members and workloads."""

    name: Required[str]
    queue: TeamQueue
    identity: TeamIdentity


class Preemption(TypedDict, total=False):
    """Which running workloads are preempted in favour of waiting workloads."""

    within_team: str
    reclaim: str


class Queueing(TypedDict, total=False):
    """Queues for the teams' workloads."""

    kueue: str
    without_queue: str
    fair_sharing: bool
    reserve: GpuUnits
    preemption: Preemption
    topology: bool
    pods_ready_timeout: str


class Addons(TypedDict, total=False):
    """Controllers for the workloads of team members."""

    jobset: str
    trainer: str
    kuberay: str
    leaderworkerset: str
    keda: str
    gateway: str
    prometheus: str


class ChartSettings(TypedDict, total=False):
    """Settings of one Helm chart that the program installs."""

    repository: str
    values: Mapping[str, Any]


class Images(TypedDict, total=False):
    """Registry of the images for the program's own pods, and the Secrets that nodes use to pull them."""

    mirror: str
    registries: Mapping[str, str]
    pull_secrets: Sequence[str]


class Objects(TypedDict, total=False):
    """The company's labels and annotations for every Kubernetes object that the program creates, and for its
    pods."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Monitoring(TypedDict, total=False):
    """Monitoring in the stack file: DCGM metrics and alerts."""

    enabled: bool
    prometheus_operator: bool
    interval: str
    temperature_celsius: float
    exporter_version: str
    dashboards: str
    runbooks: str
    labels: Mapping[str, str]


class Budget(TypedDict, total=False):
    """Maximum cost of an environment's nodes."""

    usd_per_month: Required[float]


class Window(TypedDict, total=False):
    """Maintenance window, during which nodes may be rolled, replaced or removed."""

    days: Required[Sequence[str]]
    start: Required[str]
    duration: Required[str]
    time_zone: str


class Changes(TypedDict, total=False):
    """When `up` may change nodes, and how many at a time."""

    window: Window
    max_unavailable: float


class Cleanup(TypedDict, total=False):
    """A CronJob that finds unneeded objects in the namespaces of the stack's teams, and reports them."""

    delete: bool
    schedule: str
    finished_after: str | None
    idle_after: str
    prometheus: str


class BurnIn(TypedDict, total=False):
    """Active checks of idle GPU nodes."""

    image: str
    matrix: str
    timeout: str
    least: Mapping[str, float]


class ValidationSettings(TypedDict, total=False):
    """Validation of every GPU node against the stack file."""

    gate: bool
    timeout: str
    gate_nodes: str
    node_readiness: bool
    metrics: bool
    host_processes: bool
    max_held_percent: float
    on_failure: str
    failing_for: str
    burn_in: BurnIn
