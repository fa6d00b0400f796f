"""The nested arguments of the public components: the stack file's mappings, as typed dictionaries.

Each key is one of the stack file's, with the same meaning, and is checked by the same models. Plain dictionaries
are accepted as well. Values that the models take in two forms (a number, or a mapping of numbers) are typed `Any`.
Numbers are `float` also where only a whole number is allowed: packaged components receive every number as one.

No `from __future__ import annotations`: the SDK makes the package's schema of the annotations as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

import pulumi

from components.public.workload_types import BatchJob, InferenceService, Notebook, RayCluster, TrainingJob

# -- clusters ---------------------------------------------------------------------------------------------


class GpuNetwork(TypedDict):
    """GKE: the VPC and the subnetwork of one GPU NIC."""

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]


class EksParts(TypedDict, total=False):
    """What the program installs (`install`), and what the cluster has already (`present`); the last three: EKS."""

    gpu_operator: str
    device_plugin: str
    node_feature_discovery: str
    dcgm_exporter: str
    karpenter: str
    karpenter_node_role: str
    cluster_autoscaler: str
    """`none`, too: a person changes the number of nodes."""
    efa_plugin: str
    dranet: str


class GpuCluster(TypedDict, total=False):
    """A cluster that exists, or that the same program creates. Give all components of a cluster the same one.

    It is not the object `GPUCluster` of the GPU Operator.

    Existing clusters of any kind: `provider`, `name`, and what the provider needs of the fields below.
    """

    provider: Required[str]
    """eks, gke, existing or sandbox."""
    name: str
    """Name of the cluster. Placement groups and tags carry it, so it cannot be an Output."""
    kubernetes: str
    """Minor version, such as "1.36". It is checked with the operator's support matrix."""
    production: bool
    """EKS and GKE: the default of `protect`. Unset: true."""
    protect: bool
    """EKS and GKE: protect the pools from deletion. Unset: as `production`."""
    region: str
    """EKS: AWS region."""
    account: str
    """EKS: AWS account. Credentials of any other account are refused."""
    project: str
    """GKE: project of the cluster."""
    location: str
    """GKE: region, or zone of a zonal cluster."""
    kubeconfig: pulumi.Input[str]
    """Path of a kubeconfig, or an Output with its content. Unset: the Kubernetes provider of the resource options,
    else the default one."""
    context: str
    """Context of the kubeconfig. Unset: its current one."""
    subnets: Mapping[str, pulumi.Input[str]]
    """EKS node pools: id of the private subnet by zone."""
    security_groups: Sequence[pulumi.Input[str]]
    """EKS node pools: ids of security groups that nodes have beside the cluster's own, at most 3."""
    cluster_security_group_id: pulumi.Input[str]
    """EKS node pools: id of the security group that EKS made for the cluster."""
    parts: EksParts
    """EKS: with `efa_plugin: present` the operator's component installs no EFA device plugin."""
    efa_security_group_id: pulumi.Input[str]
    """EKS node pools with EFA: id of a security group that admits all traffic from and to itself."""
    node_role_arn: pulumi.Input[str]
    """EKS node pools: ARN of the IAM role of the nodes."""
    endpoint: pulumi.Input[str]
    """EKS node pools with an image of your own: URL of the API server."""
    certificate_authority: pulumi.Input[str]
    """EKS node pools with an image of your own: certificate authority of the API server, base64 of the PEM."""
    service_cidr: pulumi.Input[str]
    """EKS node pools with an image of your own: IPv4 CIDR block of the cluster's Services."""
    id: pulumi.Input[str]
    """GKE node pools: full name of the cluster, projects/P/locations/L/clusters/C. Unset: made of the fields."""
    node_service_account: pulumi.Input[str]
    """GKE node pools: e-mail of the service account of the nodes."""
    gpu_networks: Sequence[GpuNetwork]
    """GKE node pools that join networks by their GPU NICs: network and subnetwork of each NIC, in order."""


class MaintenanceExclusion(TypedDict, total=False):
    """GKE: a time without upgrades of a scope."""

    name: Required[str]
    start: Required[str]
    end: Required[str]
    scope: str


class Maintenance(TypedDict, total=False):
    """GKE: when nodes and control plane may be upgraded."""

    start: str
    hours: float
    recurrence: str
    exclusions: Sequence[MaintenanceExclusion]


class SystemNodes(TypedDict, total=False):
    """The nodes without GPUs of a new cluster: the fields of EKS or those of GKE."""

    machine_types: Sequence[str]
    machine_type: str
    min: float
    desired: float
    max: float
    disk_gb: float
    kms_key: str
    release: str


class ExistingVpc(TypedDict, total=False):
    """An existing VPC for a new cluster: the fields of EKS or those of GKE."""

    vpc: str
    """EKS: its id."""
    subnets: Mapping[str, str]
    """EKS: private subnet of the nodes by zone."""
    control_plane_subnets: Sequence[str]
    pod_subnets: Mapping[str, str]
    """EKS: subnet of the pods by zone."""
    project: str
    """GKE: the host project of a Shared VPC."""
    name: str
    subnetwork: str
    pods_range: str
    services_range: str


class Iam(TypedDict, total=False):
    """EKS: how IAM roles are created, and an existing role of the nodes."""

    path: str
    permissions_boundary: str
    node_role: str


class CreateCluster(TypedDict, total=False):
    """A new cluster: the fields of EKS or those of GKE."""

    cidr: str
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
    network: ExistingVpc
    nodes_cidr: str
    pods_cidr: str
    services_cidr: str
    control_plane_cidr: str
    dns_access: bool
    private_apis: bool
    authenticator_groups: str
    release_channel: str
    maintenance: Maintenance


class Login(TypedDict, total=False):
    """EKS: an IAM role or user that can log in, with its Kubernetes groups."""

    principal: Required[str]
    groups: Required[Sequence[str]]
    username: str


class Oidc(TypedDict, total=False):
    """EKS: an OpenID Connect provider of users and groups."""

    issuer: Required[str]
    client_id: Required[str]
    username_claim: str
    username_prefix: str
    groups_claim: str
    groups_prefix: str


class PlatformCluster(TypedDict, total=False):
    """The cluster of a whole platform: existing, or with `create` a new one."""

    provider: Required[str]
    """eks, gke, existing or sandbox."""
    name: str
    kubernetes: str
    production: bool
    protect: bool
    region: str
    account: str
    project: str
    location: str
    node_service_account: str
    fqdn_policies: bool
    network_policies: str
    gpu_networks_cidr: str
    create: CreateCluster
    kubeconfig: pulumi.Input[str]
    """Existing clusters: path of a kubeconfig, or an Output with its content."""
    context: str
    subnets: Mapping[str, pulumi.Input[str]]
    """Existing EKS clusters: id of the private subnet by zone. Unset: looked up."""
    security_groups: Sequence[str]
    parts: EksParts
    logins: Sequence[Login]
    oidc: Oidc
    assume_role: str
    iam: Iam
    tags: Mapping[str, str]
    impersonate: str
    labels: Mapping[str, str]


class Driver(TypedDict, total=False):
    """The NVIDIA driver: who installs it, and which version."""

    owner: str
    version: str


class Operator(TypedDict, total=False):
    """The NVIDIA GPU Operator. Give all components of a cluster the same one."""

    release: str
    driver: Driver
    toolkit: str
    compute_domains: bool


# -- pools ------------------------------------------------------------------------------------------------


class Count(TypedDict, total=False):
    """Number of nodes."""

    min: float
    desired: Required[float]
    max: float


class CapacityBlock(TypedDict):
    """One of several EC2 Capacity Blocks that a pool uses one after the other."""

    reservation: str
    zone: str
    starts: str
    ends: str


class Capacity(TypedDict, total=False):
    """How the nodes are paid for: on-demand, spot, reservation, capacity-block (EKS) or flex-start (GKE)."""

    type: Required[str]
    alternatives: Sequence[str]
    """EKS, on-demand and spot: other machine types that nodes may have."""
    reservation: str
    zone: str
    placement_group: str
    project: str
    block: str
    sub_block: str
    starts: str
    ends: str
    blocks: Sequence[CapacityBlock]
    needed_until: str
    max_run_duration: str
    queued: bool


class Placement(TypedDict, total=False):
    """How near to each other the nodes are placed."""

    type: str
    group: str


class Topology(TypedDict, total=False):
    """Topology Manager and Memory Manager of the kubelet."""

    policy: Required[str]
    scope: str
    memory: str


class Tuning(TypedDict, total=False):
    """Kernel settings of the nodes from their first boot on."""

    intent: str
    sysctls: Mapping[str, str]
    huge_pages: float


class NodeScript(TypedDict, total=False):
    """GKE: a script that runs on new nodes."""

    gcs: str
    generation: float
    secret: str


class KubeletLimits(TypedDict, total=False):
    """Settings of the kubelet that change no decision of the plan."""

    pod_pids_limit: float
    container_log_max_size: str
    container_log_max_files: float
    image_gc_high_percent: float
    image_gc_low_percent: float
    cpu_cfs_quota: bool


class Bootstrap(TypedDict, total=False):
    """What a company adds to new nodes before they join the cluster."""

    commands: Sequence[str]
    """EKS with AL2023: lines of a bash script. No secrets."""
    settings: Mapping[str, Any]
    """EKS with Bottlerocket: its settings. No secrets."""
    script: NodeScript
    kubelet: KubeletLimits


class Taint(TypedDict, total=False):
    """A node taint."""

    key: Required[str]
    value: str
    effect: Required[str]


class NodeTaint(TypedDict):
    """A taint that a pool's nodes have."""

    key: str
    value: str
    effect: str


class ExistingNodes(TypedDict, total=False):
    """Which nodes of an existing cluster are the pool: by name, or by their labels."""

    names: Sequence[str]
    selector: Mapping[str, str]


class MigDevices(TypedDict, total=False):
    """A MIG layout for some GPUs of a node."""

    devices: Sequence[float]
    gpu: str
    layout: Required[Any]


class Sharing(TypedDict, total=False):
    """How the GPUs are shared: none, time-slicing, mps, mig or dra, each with its own fields."""

    mode: Required[str]
    replicas: Any
    """time-slicing, mps, mig: a number, or one by GPU model."""
    rename: bool
    fail_requests_greater_than_one: bool
    layout: Any
    """mig: instances by profile, or all-balanced, or all-<profile>."""
    layouts: Sequence[MigDevices]
    strategy: str
    change: str
    max_unavailable: float
    drain_timeout: str
    partitions: bool


class PoolSchedule(TypedDict, total=False):
    """When a pool has its nodes: on `days` from `start` to `stop`, times of day in `time_zone`."""

    days: Sequence[str]
    start: Required[str]
    stop: Required[str]
    time_zone: str
    stops_work: bool


class Karpenter(TypedDict, total=False):
    """EKS: settings of a pool whose nodes Karpenter creates."""

    alternatives: Sequence[str]
    consolidate_after: str
    expire_after: str
    limits: Mapping[str, Any]


class Image(TypedDict, total=False):
    """The node image."""

    family: str
    ami: str
    release: str
    """Release of the node image (EKS), or version of the nodes (GKE). Unset: the newest at the creation."""
    fast_pull: bool
    """Start pods of large container images sooner: SOCI (EKS) or image streaming (GKE)."""
    cache: str
    """Snapshot (EKS) or disk image (GKE) with container images."""
    driver: str


class Network(TypedDict, total=False):
    """The network between the nodes of a pool."""

    rdma: bool
    layout: str
    via: str


class Disk(TypedDict, total=False):
    """The boot disk."""

    size_gb: float
    type: str
    kms_key: str


class Upgrade(TypedDict, total=False):
    """How nodes are replaced by newer ones."""

    strategy: str
    max_surge: float
    max_unavailable: float


class PoolSettings(TypedDict, total=False):
    """What a GPU node pool is, apart from its name and its cluster."""

    machine_type: Required[str]
    count: Required[Count]
    workload: Required[str]
    capacity: Capacity
    placement: Placement
    zones: Sequence[str]
    sharing: Sharing
    topology: Topology
    tuning: Tuning
    bootstrap: Bootstrap
    tags: Mapping[str, str]
    """EKS and GKE: tags of instances and their disks; on GKE labels of resources."""
    labels: Mapping[str, str]
    taints: Sequence[Taint]
    gate_nodes: str
    headroom: int
    """GPUs that are kept free for the next pods; GpuPlatform alone creates the pods that hold them."""
    schedule: PoolSchedule
    """When the pool has nodes: EKS node groups of a fixed size."""
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
    """EKS and GKE: protect this pool from deletion."""
    usd_per_hour: float
    utilisation: float


class Pool(PoolSettings):
    """A GPU node pool of a cluster."""

    name: Required[str]


# -- teams ------------------------------------------------------------------------------------------------


class ObjectLimits(TypedDict, total=False):
    """Most objects of each kind in a team's namespace."""

    pods: float
    """Pods that have not ended. Unset: 2000."""
    jobs: float
    """Jobs. Unset: 2000."""
    services: float
    """Services. Unset: 200."""
    load_balancers: float
    """Services of type LoadBalancer. Unset: 0."""
    node_ports: float
    """Node ports of Services. Unset: 0."""
    config_maps: float
    """ConfigMaps. Unset: 500."""
    secrets: float
    """Secrets. Unset: 500."""
    claims: float
    """PersistentVolumeClaims. Unset: 500."""
    other_kinds: float
    """Objects of each other kind that members may create. Unset: 200."""
    storage: Any
    """Storage that all claims request together: "100Ti"."""


class Quota(TypedDict, total=False):
    """The most that a team may use at a time."""

    gpus: Any
    shared: Any
    mig: Mapping[str, Any]
    mig_shared: Mapping[str, Any]
    devices: Mapping[str, Any]
    cpu: Any
    """A Kubernetes quantity: 200 or "500m"."""
    memory: Any
    """A Kubernetes quantity: "2Ti"."""
    objects: ObjectLimits
    """Numbers of objects, and storage."""


class Claim(TypedDict, total=False):
    """With DRA: a ResourceClaimTemplate of a team."""

    name: Required[str]
    device_class: str
    count: float
    memory: Any
    product: str
    profile: str
    selector: str


class DeviceClass(TypedDict, total=False):
    """With DRA: a DeviceClass."""

    type: str
    memory: Any
    product: str
    profile: str
    selector: str


class ComputeClass(TypedDict):
    """Pools with the same GPU resource; pods that select the class run on nodes of any of them."""

    name: str
    pools: Sequence[str]
    """Names of the pools, the preferred one first."""


class StorageClass(TypedDict, total=False):
    """A class for claims of volumes. The keys beside `type` and `retain` belong to some types alone."""

    type: Required[str]
    """disk, nfs, lustre; bucket and existing (a file system): volumes of teams."""
    disk: str
    """disk: gp3, io2, pd-balanced, pd-ssd or hyperdisk-balanced."""
    iops: float
    """disk: IOPS of each volume."""
    default: bool
    """disk: the class of claims that name none."""
    file_system: str
    """nfs on EKS: id of an existing EFS file system. existing: id, or location and name, of the file system."""
    system: str
    """existing: efs, fsx-lustre, filestore or managed-lustre."""
    mount_name: str
    """existing, fsx-lustre: its mount name."""
    address: str
    """existing on GKE: IP address of the instance."""
    share: str
    """existing on GKE: name of the file share or file system."""
    directory: str
    """existing: directory that pods see; {team} is the name of each team."""
    tier: str
    """nfs on GKE: basic-hdd, basic-ssd, zonal or enterprise."""
    throughput: float
    """lustre: MB/s for each TiB: 125, 250, 500 or 1000."""
    zone: str
    """lustre: zone of the file system."""
    retain: bool
    """Keep what was written when the claim is deleted."""
    kms_key: str
    """Customer-managed key."""
    bucket: str
    """bucket: its name."""
    prefix: str
    """bucket: directory of it that pods see."""
    teams: Sequence[str]
    """bucket, existing: teams that get a claim; unset: all."""
    team_stacks: Sequence[str]
    """bucket, existing: teams with a stack file of their own that get a claim."""
    purpose: str
    """bucket: datasets or checkpoints."""
    read_only: bool
    """bucket, existing: whether pods only read."""
    cache_gb: float
    """bucket: GiB of cache for files that were read."""


class Workload(TypedDict, total=False):
    """A Deployment of a team."""

    name: Required[str]
    pool: Required[str]
    replicas: float
    gpus: float
    profile: str
    claim: str
    compute_domain: bool
    gpu_memory: str
    cpu: Any
    """A Kubernetes quantity: 200 or "500m"."""
    memory: Any
    """A Kubernetes quantity: "2Ti"."""
    image: pulumi.Input[str]
    """Container image. Unset: the pause image."""
    command: Sequence[str]
    run_as_user: float
    """User id of the processes. Unset: the image's own user."""


class TeamIngress(TypedDict, total=False):
    """Who may open TCP connections to pods of a team: a namespace, or addresses."""

    namespace: str
    cidr: str
    ports: Required[Sequence[float]]


class TeamScaling(TypedDict, total=False):
    """What triggers of a team's ScaledObjects and ScaledJobs may ask, beside the platform's Prometheus."""

    servers: Sequence[str]
    """Addresses that triggers of types prometheus and metrics-api may ask, with all paths below them."""
    triggers: Sequence[str]
    """Types of triggers that may ask any server."""


class TeamRoutes(TypedDict, total=False):
    """What Ingresses, Gateway routes and Services of a team may ask of controllers."""

    hosts: Sequence[str]
    """Hosts that routes may name: a name, `*.` and a domain, or `*`."""
    annotations: Sequence[str]
    """Annotations of controllers that the team may set, with any value."""


class TeamSettings(TypedDict, total=False):
    """A team's share of a cluster, apart from its name."""

    quota: Required[Quota]
    priority: Required[str]
    members: Required[Sequence[str]]
    admins: Sequence[str]
    viewers: Sequence[str]
    image_pull_secrets: Sequence[str]
    egress: Sequence[Any]
    """`internet`, or networks with `cidr` and `ports`."""
    ingress: Sequence[TeamIngress]
    scaling: TeamScaling
    """What triggers of KEDA may ask."""
    routes: TeamRoutes
    """Hosts of Ingresses and Gateway routes; unset: none."""
    inline_csi_drivers: Sequence[str]
    """CSI drivers whose volumes pods may write inline."""
    allow_bare_pods: bool
    """On EKS: admit pods without a controller."""
    pod_security: str
    """restricted, the default, or baseline."""
    claims: Sequence[Claim]
    workloads: Sequence[Workload]
    training_jobs: Sequence[TrainingJob]
    """Jobs of several pods that train one model."""
    inference_services: Sequence[InferenceService]
    """Models that answer requests."""
    ray_clusters: Sequence[RayCluster]
    """With KubeRay."""
    notebooks: Sequence[Notebook]
    """Notebooks that members start."""
    batch_jobs: Sequence[BatchJob]
    """Work in independent parts, at once or by a schedule."""


class GpuUnits(TypedDict, total=False):
    """Numbers of GPUs, shares, instances or devices, each on all pools or by pool."""

    gpus: Any
    shared: Any
    mig: Mapping[str, Any]
    mig_shared: Mapping[str, Any]
    devices: Mapping[str, Any]


class TeamQueue(TypedDict, total=False):
    """What a team borrows from other teams and lends them."""

    cohort: str
    borrow: GpuUnits
    lend: GpuUnits
    weight: float


class TeamBucket(TypedDict, total=False):
    """An existing bucket that pods of a team use by the cloud's SDKs."""

    name: Required[str]
    access: str
    prefix: str
    kms_key: str


class TeamIdentity(TypedDict, total=False):
    """Cloud identity of a team: buckets, or an existing role or service account."""

    buckets: Sequence[TeamBucket]
    role_arn: str
    google_service_account: str


class Team(TeamSettings, total=False):
    """A team of a platform."""

    name: Required[str]
    queue: TeamQueue
    identity: TeamIdentity


class Preemption(TypedDict, total=False):
    """Which running workloads are stopped for waiting ones."""

    within_team: str
    reclaim: str


class Addons(TypedDict, total=False):
    """Controllers of what members run: `install`, or `present` where the cluster's owner has installed them."""

    jobset: str
    trainer: str
    kuberay: str
    leaderworkerset: str
    keda: str
    gateway: str
    prometheus: str


class ChartSettings(TypedDict, total=False):
    """Settings of a Helm chart."""

    repository: str
    values: Mapping[str, Any]


class Images(TypedDict, total=False):
    """From which registry the images of the program's own pods come."""

    mirror: str
    """Registry that has every image below the name of its own registry. Unset: each image's own."""
    registries: Mapping[str, str]
    """Where images of one registry are instead, under their own repositories."""
    pull_secrets: Sequence[str]
    """Names of Secrets with which nodes pull them."""


class Objects(TypedDict, total=False):
    """Labels and annotations of the company on every Kubernetes object."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Queueing(TypedDict, total=False):
    """Queues of the workloads of teams."""

    kueue: str
    without_queue: str
    fair_sharing: bool
    reserve: GpuUnits
    preemption: Preemption
    topology: bool
    pods_ready_timeout: str


# -- operations -------------------------------------------------------------------------------------------


class Monitoring(TypedDict, total=False):
    """GPU metrics and alerts."""

    enabled: bool
    prometheus_operator: bool
    interval: str
    temperature_celsius: float
    exporter_version: str
    dashboards: str
    runbooks: str
    labels: Mapping[str, str]


class Budget(TypedDict, total=False):
    """What the nodes may cost."""

    usd_per_month: Required[float]


class Window(TypedDict, total=False):
    """A maintenance window: when nodes may be changed."""

    days: Required[Sequence[str]]
    start: Required[str]
    duration: Required[str]
    time_zone: str


class Changes(TypedDict, total=False):
    """When nodes may be changed, and how many at a time."""

    window: Window
    max_unavailable: float


class Cleanup(TypedDict, total=False):
    """Finds what nobody needs any more in the namespaces of teams."""

    delete: bool
    schedule: str
    finished_after: str | None
    idle_after: str
    prometheus: str


class BurnIn(TypedDict, total=False):
    """Active checks of idle nodes, by `gpu-platform burn-in`."""

    image: str
    matrix: str
    timeout: str


class ValidationSettings(TypedDict, total=False):
    """How nodes are validated before teams get them."""

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
