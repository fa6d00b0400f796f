"""Types of the plan of a cluster, and of the cloud's part of the plans of cluster and pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.endings import PodEnding
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.windows import CapacityWindow, SizedGroup
from gpu_platform.planning.json_form import NOT_IN_JSON

NOT_SET = ""
"""A pool property that is not set."""
ALL_ZONES = "all of the cluster's"
"""A pool property: the pool names no zones."""

SettingEffect = Literal["in-place", "rolls-nodes", "removes-capacity", "cuts-access"]
Access = Literal["sandbox", "kubeconfig", "outputs"]
HostPolicy = Literal["FQDNNetworkPolicy", "CiliumNetworkPolicy"]
"""Kinds of network policies that name hosts: GKE's and Cilium's."""
"""How clients reach a cluster: a sandbox on this machine, a kubeconfig of the user, or outputs of its stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A value of a shipped stack file that the user must replace."""

    field: str
    value: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingNodes:
    """Nodes beside those of pools whose number an autoscaler changes, and the setting that fixes their number."""

    what: str
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudQuota:
    """A quota beside those of GPUs. `name` None: the cloud's name for it is not known here.

    `what`: what the amount suffices for, for example `boot disks of all nodes`.
    """

    name: str | None
    unit: str
    region: str
    amount: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """The ProvisioningRequests by which a pool gets nodes for one workload at a time, whose pods are of one kind.

    `node_seconds`: how long its nodes live at most; `own_nodes`: labels of the nodes of one request, each with the
    detail of the request that has its value.
    """

    provisioning_class: str
    node_seconds: int
    own_nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNeed:
    """Something that an account must have before a pool can have nodes, which the program does not create.

    `fix`: the commands that show and create it.
    """

    name: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPrerequisites:
    """Prerequisites of an `up` in the cloud, beside the stack itself.

    `command`: credential command of the kubeconfig; `credentials`: name of their kind in
    `gpu_platform.live.credentials`; `owner`: the account or project; `quota_console`: page of quotas;
    `all_regions_quota`: a quota of GPUs over all regions, if any; `permissions`: of the user;
    `apis`: command that enables the cloud's APIs, None: not needed; `quotas`: those beside GPUs.
    """

    cloud: str
    command: str
    install: str
    credentials: str
    owner: str
    login: str
    quota_console: str
    all_regions_quota: str | None
    permissions: str
    permissions_fix: str
    apis: str | None
    examples: tuple[Example, ...] = ()
    quotas: tuple[CloudQuota, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSetting:
    """A setting of a cluster whose change affects what runs, or who has access.

    `name`: its key in the stack output `cluster`; `what`: its name for a reader; `field`: the places in the stack
    file that set it; `values`: how many, or what it consists of: fewer, or a value that is gone, are a loss.
    `loss`, `gain`: the effects of that and of any other change (`planning.changes.Effect`); `on_loss`, `on_gain`:
    what they mean, `{lost}` stands for the values that go.
    """

    name: str
    what: str
    field: str
    values: int | tuple[str, ...]
    loss: SettingEffect
    on_loss: str
    gain: SettingEffect = "in-place"
    on_gain: str = ""
    fixed: bool = False
    """Whether the cloud cannot change it, so that `up` refuses another value."""
    kept: bool = False
    """Whether `up` refuses to lose one of the values, and only that."""
    resizes: bool = False
    """Whether a change of it makes `up` set the number of nodes, which it else leaves to an autoscaler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEgress:
    """An address outside every namespace that pods of a team may reach, with its ports (number, protocol).

    `name`: what it is, such as identity; `but`: networks within `cidr` that stay out of reach.
    """

    name: str
    cidr: str
    ports: tuple[tuple[int, str], ...]
    but: tuple[str, ...] = ()


class CreatedCluster(Protocol):
    """The settings of a new cluster that all clouds share."""

    @property
    def api_access(self) -> tuple[str, ...]:
        """Networks (CIDR) that may reach the API server from outside."""
        ...

    @property
    def extended_support(self) -> bool:
        """Whether the cluster keeps its version after standard support."""
        ...

    @property
    def system_leaves_zones(self) -> bool:
        """Whether the successor of a system node may be in another zone than the disks of its pods."""
        ...

    @property
    def upgrade_order(self) -> str | None:
        """What happens at another minor version, in which order; None: what the platform's clusters do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Most seconds that an engine waits for the creation, update and deletion of a resource; None: its default."""

    create: int | None = None
    update: int | None = None
    delete: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollLimits:
    """How the nodes of a pool are rolled.

    `at_a_time`: how many nodes together; None: all of them. `unlimited`: why nothing limits the duration; empty
    where the engine waits for it. `needs_empty`: why the pool must have no nodes meanwhile; empty: it may have.
    `only_while`: what a successor needs, where it may be lacking. `image`: what image the new nodes get unless the
    roll names another release; empty: the one that they have. `new_nodes_only`: an upgrade leaves the nodes that
    exist as they are.
    """

    at_a_time: int | None = None
    unlimited: str = ""
    needs_empty: str = ""
    only_while: str = ""
    image: str = ""
    new_nodes_only: bool = False


class CloudCluster(Protocol):
    """The cloud's part of a cluster's plan."""

    @property
    def kind(self) -> str:
        """The provider, as the stack file names it; `components.<kind>` transcribes the plan."""
        ...

    @property
    def name(self) -> str:
        """The cluster's name."""
        ...

    @property
    def region(self) -> str:
        """The cloud's region."""
        ...

    @property
    def kubernetes(self) -> str | None:
        """Minor version where known."""
        ...

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones of pools that name none, where the stack file decides all of them; else empty."""
        ...

    @property
    def protect(self) -> bool:
        """Whether the engine refuses to delete the cluster."""
        ...

    @property
    def retained(self) -> tuple[str, ...]:
        """Resources that `destroy` does not delete, as text."""
        ...

    @property
    def settings(self) -> tuple[ClusterSetting, ...]:
        """Settings of the cluster itself that a preview compares with the last deployment."""
        ...

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """The program's own Helm values of the controllers that the cloud's pools need, by chart."""
        ...

    def kubernetes_problem(self, running: str) -> Problem | None:
        """Return why `up` cannot change the control plane from minor version `running` to the planned one."""
        ...

    @property
    def parts(self) -> tuple[PartPlan, ...]:
        """Controllers that the pools need, which the program installs or the cluster's owner has installed."""
        ...

    @property
    def first_up_problem(self) -> Problem | None:
        """Why an `up` that creates the cluster could not end; None: it can."""
        ...

    @property
    def create(self) -> CreatedCluster | None:
        """None for an existing cluster."""
        ...

    @property
    def platforms(self) -> tuple[str, ...]:
        """Platforms that create the nodes of its pools: `CloudNodes.platform` of each."""
        ...

    @property
    def timeouts(self) -> Timeouts:
        """How long an engine waits for the cluster itself."""
        ...

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long an engine waits for a pool, by platform."""
        ...

    def prerequisites(self, resource_types: Iterable[str]) -> CloudPrerequisites:
        """Return what an `up` needs from the cloud; `resource_types`: Pulumi's types of what it creates."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerPlan:
    """Specs of the NodePool and node class by which Karpenter adds nodes to those that the program creates.

    `node_class` has `apiVersion`, `kind` and, where it has one, `spec`; `nodes`: the most that it adds.
    """

    nodes: int
    node_class: Mapping[str, Any]
    node_pool: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricNics:
    """NICs for traffic between GPUs of several nodes: at least `count` of a kind that the node agent knows.

    `mtu`: of their network interfaces; None: not known, or without such interfaces, as EFA, whose MTU nobody sets.
    """

    kind: Literal["efa", "mlx5", "gvnic"]
    count: int
    mtu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NicDevices:
    """NICs of a node for traffic between nodes, as devices that pods claim.

    `driver`: name of the driver that publishes them in ResourceSlices; None: not known.
    """

    device_class: str
    per_node: int
    driver: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFabric:
    """The fabric of a pool's NICs, where its pods need more of the node than Pod Security allows.

    `name`: in `fabric_pods` of the catalogue; `labels`: those by which pods select such nodes, set by the cloud;
    `networks`: Kubernetes networks that a pod with all NICs joins; empty: it claims the NICs.
    """

    name: Literal["tcpx", "tcpxo", "rdma"]
    labels: Mapping[str, str]
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNodes:
    """The nodes of a pool as its cloud creates, rolls, replaces and ends them.

    The defaults hold for nodes that no cloud creates.
    """

    platform: str | None = None
    """What creates the nodes: `platform` of the properties in catalog/facts/pool_changes.yaml."""
    protect: bool = False
    """Whether the engine refuses to delete the pool."""
    zones: tuple[str, ...] = ()
    """Zones of the nodes; empty: all of the cluster's."""
    leaves_zones: bool = False
    """Whether new nodes may be in other zones than the disks of the pods that wait for them."""
    placement: str | None = None
    """How the nodes are placed: `none`, or the cloud's name of close placement. None: their owner places them."""
    replaced_delete_first: bool = False
    """Whether a replaced pool is deleted before its successor is created."""
    rolled_delete_first: bool = False
    """Whether a rolled node is deleted before its successor is created."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long an engine waits for the pool."""
    roll_limits: RollLimits = field(default_factory=RollLimits)
    """How its nodes are rolled, and what limits that."""
    alternatives: tuple[str, ...] = ()
    """Other machine types that its nodes may have."""
    account_needs: tuple[AccountNeed, ...] = ()
    """What the account must have before the pool can have nodes."""
    created_on_demand: str | None = None
    """Why the pool may have fewer nodes than `desired` at first; None: it has as many."""
    huge_pages_mib: int = 0
    """Memory of a node that only pods with huge pages can use, MiB."""
    autoscaled: bool = False
    """Whether an autoscaler changes the number of nodes by pending pods."""
    keeps_version: bool = False
    """Whether the cloud upgrades no node of the pool before the end of support of its version."""
    relabels_in_place: bool = True
    """Whether live nodes get changed labels; else the cloud creates new nodes for them."""
    nodes_by_request: bool = False
    """Whether nodes are only created for a ProvisioningRequest, not for pods that wait."""
    nic_resources: Mapping[str, int] = field(default_factory=dict[str, int])
    """Extended resources of a node's NICs, which pods request as devices, and their counts."""
    nic_devices: NicDevices | None = None
    """Devices of a node's NICs that pods claim; None: there are none."""
    network_requests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Requests of a pod with all GPUs of a node, besides them, to use the network between nodes."""
    fabric_nics: FabricNics | None = None
    """NICs that a node shows on its PCI bus for traffic between GPUs; None: it is created with none."""
    node_fabric: NodeFabric | None = None
    """The fabric whose pods need host paths or capabilities; None: pods use the NICs without either."""
    replacement: str = ""
    """How a node is replaced: the resource that creates its nodes, and what to do with the broken one."""
    replaced_by_claim: bool = False
    """Whether a node is replaced when the NodeClaim that owns its Node object is deleted."""
    local_nvme: bool = False
    """Whether images and the own volumes of pods are on local NVMe disks of the node."""
    disk_gib: int = 0
    """Size of the volume of a node that has images and data of pods, unless local disks have them."""
    sized_groups: tuple[SizedGroup, ...] = ()
    """Groups of nodes whose size `up` may set only when `count` is edited."""
    windows: tuple[CapacityWindow, ...] = ()
    """The pool's reserved capacity, in the order of its times; empty: it has none, or none with times."""
    node_class_reservations: tuple[CapacityWindow, ...] = ()
    """The capacity reservations that the pool's EC2NodeClass selects."""
    pod_endings: tuple[PodEnding, ...] = ()
    """What ends pods on its nodes, besides the schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """The cloud's part of a pool's plan.

    Its components transcribe `plan`, which is None for nodes that no cloud creates. The rest of the plan depends
    only on `nodes`.
    """

    plan: object | None = None
    nodes: CloudNodes = field(default_factory=CloudNodes)


Scores = Literal["default", "most-allocated"]
"""By which scores the cluster's kube-scheduler compares nodes: planning/scheduling/profiles.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPlan:
    """The kube-scheduler that the cluster has, as far as is known, and how that is known."""

    scores: Scores
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """How clients reach the cluster. `kubernetes`: minor version, where known."""

    provider: str
    name: str
    kubeconfig: str | None
    context: str | None
    kubernetes: str | None
    access: Access
    scheduler: SchedulerPlan
    cloud: CloudCluster | None = None
    """The cloud's part; None where the program neither creates nor looks up the cluster by a cloud's API."""
    surge_nodes: Mapping[str, int] = field(default_factory=dict[str, int], metadata=NOT_IN_JSON)
    """Nodes of each pool beyond its maximum while its nodes are rolled."""
    pool_properties: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]], metadata=NOT_IN_JSON
    )
    """Properties of each pool of the cloud whose change replaces the pool or its nodes, by the API's names."""


def listed(parts: Iterable[str]) -> str:
    """Return the parts that are set, separated by commas."""
    return ", ".join(part for part in parts if part)
