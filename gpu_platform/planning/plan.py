"""The Plan: every decision resolved, immutable, the one truth that components, validators and reports read.

Made by `gpu_platform.planning`; nothing here decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, cast

from gpu_platform.planning.eks.plan import EksClusterPlan, EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.software import NodeSoftware
from validators.expectations import Expectations, NodeExpectation

Labels = Mapping[str, str]

# What a container that says nothing gets; a quota on cpu and memory refuses a pod without requests.
DEFAULT_REQUEST: Mapping[str, str] = {"cpu": "500m", "memory": "1Gi"}
DEFAULT_LIMIT: Mapping[str, str] = {"cpu": "4", "memory": "16Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing that was chosen, for whom, and why: printed by `check`, so that no default is silent."""

    subject: str
    what: str
    chosen: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapPlan:
    """A ConfigMap whose name carries the hash of its content, so that a change rolls out by itself."""

    name: str
    namespace: str
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer:
    """One extended resource that each node of a pool offers: units on a node, and the GPUs they are cut of."""

    name: str
    per_node: int
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOffer:
    """One kind of device that the DRA driver publishes for each node of a pool. Memory in MiB.

    `per_node`: the most of them that can be held at once; a GPU that is cut is no whole one at that time.
    """

    type: Literal["gpu", "mig"]
    product: str
    profile: str | None
    memory_mib: int
    per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassPlan:
    """A DeviceClass: every selector must hold."""

    name: str
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlan:
    """A ResourceClaimTemplate with one request: every selector must hold, beside those of the class."""

    name: str
    device_class: str
    count: int
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """Kubelet settings that a pool's nodes are made with."""

    topology_policy: str
    topology_scope: str
    cpu_manager_policy: str
    memory_manager_policy: Literal["None", "Static"] = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesPlan:
    """Which nodes a pool has. `created`: by this program; `labelled`: named ones; `selected`: by labels."""

    ownership: Literal["created", "labelled", "selected", "cloud"]
    min: int
    desired: int
    max: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevicesPlan:
    """The instances on some GPUs of a node. `devices` None: on all."""

    devices: tuple[int, ...] | None
    layout: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsShare:
    """What a replica of a GPU shared by MPS may use: memory in MiB, threads in percent of the GPU's."""

    memory_mib: int
    threads_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRollPlan:
    """How live nodes get another MIG layout. `drains`: `up` has their pods leave; else nodes with pods wait."""

    drains: bool
    max_unavailable: int
    drain_timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPlan:
    """How a pool's GPUs are offered.

    `name`: of the environment's sharing that the pool takes; `source`: where the stack file says it.
    `replicas`: of each GPU, or of each MIG instance.
    """

    mode: str
    name: str | None
    source: str
    replicas: int
    renamed: bool
    mps: MpsShare | None
    mig_strategy: Literal["none", "single", "mixed"]
    mig_layouts: tuple[MigDevicesPlan, ...]
    mig_change: str | None
    mig_roll: MigRollPlan | None
    """None where the operator cuts no GPU of the pool."""
    device_plugin_key: str | None
    device_plugin_config: Mapping[str, Any] | None
    """None, and with it key and mig_config, where the node image or GKE runs the device plugin."""
    mig_config: str | None
    partitions: bool = False
    """With DRA: the driver cuts MIG instances for claims that ask for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One node pool. Memory in MiB, price in USD/h of one node (None: unknown, never zero).

    `utilisation`: share of its GPUs' time that is expected to be put to work; None: not said.
    """

    name: str
    path: str
    workload: str
    machine_type: str
    architecture: str
    gpu_model: str
    gpu_product: str
    gpu_memory_mib: int
    gpus_per_node: int
    nodes: NodesPlan
    capacity: Mapping[str, Any]
    placement: str
    sharing: SharingPlan
    resources: tuple[ResourceOffer, ...]
    """With DRA: device classes, which have no slash in their names."""
    cpu_millicores: int
    memory_mib: int
    labels: Labels
    taints: tuple[Taint, ...]
    added_taints: tuple[Taint, ...]
    """What the cloud adds by itself: not set by the program, but tolerated by whatever belongs on the nodes."""
    node_selector: Labels
    kubelet: Kubelet | None
    driver_version: str | None
    software: NodeSoftware
    cloud: EksPoolPlan | KarpenterPoolPlan | GkePoolPlan | None
    """How the cloud makes the nodes; None where the program or somebody else does."""
    price_usd_per_hour: float | None
    utilisation: float | None
    expectations: Expectations
    node_expectation: NodeExpectation
    devices: tuple[DeviceOffer, ...] = ()
    """With DRA: what claims can ask for."""

    @property
    def all_taints(self) -> tuple[Taint, ...]:
        """What a pod must tolerate to run on the nodes."""
        return (*self.taints, *self.added_taints)

    @property
    def units_desired(self) -> Mapping[str, int]:
        """Units of each extended resource over the desired nodes."""
        return {offer.name: offer.per_node * self.nodes.desired for offer in self.resources}

    @property
    def units_most(self) -> Mapping[str, int]:
        """Units of each extended resource over the most nodes that the pool may have."""
        return {offer.name: offer.per_node * self.nodes.max for offer in self.resources}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """How the cluster is reached. `kubernetes` is its minor version where known."""

    provider: str
    name: str
    kubeconfig: str | None
    context: str | None
    kubernetes: str | None
    cloud: EksClusterPlan | GkeClusterPlan | None = None
    """The cloud's part of a cluster of provider eks or gke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityQuotaPlan:
    """A ResourceQuota that admits pods of these priority classes to the operator's namespace."""

    name: str
    pods: int
    priority_classes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPlan:
    """The GPU Operator: how it is installed and every value it gets."""

    release: str
    namespace: str
    install: Literal["helm", "cluster-policy", "gpu-cluster"]
    """`helm`: the chart makes the operator's object; else the object itself, for the simulated operator."""
    cluster_policy: Mapping[str, Any]
    """Empty with DRA, where there is a GPUCluster instead."""
    gpu_cluster: Mapping[str, Any]
    helm_values: Mapping[str, Any]
    device_plugin_config: ConfigMapPlan | None
    mig_config: ConfigMapPlan | None
    metrics_config: ConfigMapPlan | None
    quota: PriorityQuotaPlan | None
    """Where the cluster keeps system-critical priority classes for kube-system (GKE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClassPlan:
    """A PriorityClass; never the cluster's default."""

    name: str
    value: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """A Deployment of a team, placed as its pool demands."""

    name: str
    pool: str
    replicas: int
    image: str
    command: tuple[str, ...]
    resource: str
    units: int
    cpu: str
    memory: str
    priority_class: str
    node_selector: Labels
    tolerations: tuple[Taint, ...]
    network: Mapping[str, str] = field(default_factory=dict[str, str])
    """What a pod asks for to reach the pool's network between nodes: EFA interfaces, huge pages."""
    claim: str | None = None
    """The ResourceClaimTemplate of its pods; `resource` is then a class of the driver's, `units` what it takes."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims of each pod, one or none."""
        return () if self.claim is None else (self.claim,)

    @property
    def requests(self) -> Mapping[str, str]:
        """What its container requests, and is limited to."""
        held = {} if self.claim is not None else {self.resource: str(self.units)}
        return {"cpu": self.cpu, "memory": self.memory, **held, **self.network}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A member of a team as RBAC names it."""

    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPlan:
    """One team's namespace and everything in it.

    `quota` holds every GPU resource of the environment, 0 where nothing is granted, so that no MIG profile
    escapes. `priorities` are the classes that it may use, beside none at all.
    """

    namespace: str
    quota: Mapping[str, str]
    members: tuple[Subject, ...]
    labels: Labels = field(default_factory=dict[str, str])
    priorities: tuple[str, ...] = ()
    default_request: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_REQUEST))
    default_limit: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_LIMIT))
    claims: tuple[ClaimPlan, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """One Prometheus alert."""

    alert: str
    expr: str
    for_: str
    severity: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    """DCGM metrics and alerts."""

    service_monitor: bool
    exporter: str
    """The label `app` of the exporter's service."""
    interval: str
    labels: Labels
    alerts: tuple[AlertRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationPlan:
    """The gate: the agent's image, its deadline and what every pool's nodes are held against."""

    gate: bool
    timeout_seconds: int
    image: str
    namespace: str
    pod_security: Literal["baseline", "privileged"]
    """Pod security level of the namespace: what the agent needs on some pool."""
    claims_devices: bool
    """Whether the agent sees its GPUs by a resource claim with admin access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """What a pool costs at its desired size, USD/h, and how much of it is granted to no team."""

    pool: str
    usd_per_hour: float | None
    granted_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Cost at the desired size, USD/h: the known part, pools of unknown price, and what no quota covers."""

    usd_per_hour: float
    ungranted_usd_per_hour: float
    unknown: tuple[str, ...]
    pools: tuple[PoolCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlan:
    """How the policy pack judges the stack: its configuration as CrossGuard takes it."""

    level: str
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """A whole platform."""

    kind: Literal["environment"]
    stack: str
    cluster: ClusterPlan
    operator: OperatorPlan
    pools: tuple[PoolPlan, ...]
    priority_classes: tuple[PriorityClassPlan, ...]
    device_classes: tuple[DeviceClassPlan, ...]
    tenants: tuple[TenantPlan, ...]
    monitoring: MonitoringPlan | None
    validation: ValidationPlan
    policy: PolicyPlan
    cost: CostPlan
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPlan:
    """One team's share, on top of the environment deployed by `environment_stack`."""

    kind: Literal["team"]
    stack: str
    environment_stack: str
    cluster: ClusterPlan
    tenants: tuple[TenantPlan, ...]
    policy: PolicyPlan
    decisions: tuple[Decision, ...]


Plan = EnvironmentPlan | TeamPlan


def plan_as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a Plan, or any part of it, as plain JSON values in a stable order."""
    if isinstance(value, Expectations):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name.rstrip("_"): plan_as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plan_as_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plan_as_json(item) for item in cast("tuple[object, ...]", value)]
    return value
