"""Types for a cluster's plan, and for the cloud-specific plans of clusters and pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from gpu_platform.base.errors import Problem
from gpu_platform.planning.clouds.endings import PodEnding
from gpu_platform.planning.clouds.parts import PartPlan
from gpu_platform.planning.clouds.windows import CapacityWindow, SizedGroup
from gpu_platform.planning.json_form import NOT_IN_JSON

NOT_SET = ""
"""Value of a pool property that is not set."""
ALL_ZONES = "all of the cluster's"
"""Value of a pool's zones property if the pool names no zones."""

SettingEffect = Literal["in-place", "rolls-nodes", "removes-capacity", "cuts-access"]
SetsSize = Literal["always", "on-edit", "on-creation"]
"""When `up` sets the number of nodes. `always` means in each `up`, even after a person has resized the pool.
`on-edit` means only after an edit to `count`. `on-creation` means only when the pool is created.
"""
Access = Literal["sandbox", "kubeconfig", "outputs"]
"""How clients reach a cluster: through a local sandbox, the user's kubeconfig, or the outputs of its stack."""
HostPolicy = Literal["FQDNNetworkPolicy", "CiliumNetworkPolicy"]
"""Kinds of network policies that support host names. FQDNNetworkPolicy is for GKE, and CiliumNetworkPolicy is for
Cilium.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A value in a shipped stack file that the user must replace."""

    field: str
    value: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingNodes:
    """Nodes that belong to no pool and that an autoscaler adds and removes.

    `setting` is the stack file setting that fixes the number of these nodes.
    """

    what: str
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudQuota:
    """A cloud quota for resources other than GPUs. `name` is None if the quota's name is not known to the program.

    `what` describes the resources that the amount covers, such as `boot disks of all nodes`.
    """

    name: str | None
    unit: str
    region: str
    amount: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """The ProvisioningRequests that create a pool's nodes for one workload at a time.

    All pods of the workload are identical.

    `node_seconds` is the maximum lifetime of the nodes. All nodes of a request have a label with the same value,
    which no other nodes have. `own_nodes` maps the label's key to the name of the detail, in the request's status,
    that contains the label's value.
    """

    provisioning_class: str
    node_seconds: int
    own_nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountNeed:
    """A resource that an account must have before a pool can have nodes, and that the program does not create.

    `fix` contains the commands that show and create the resource.
    """

    name: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPrerequisites:
    """Requirements that the cloud account must meet before `up` can run.

    `command` is the kubeconfig's credential command. `owner` is the account or project. `quota_console` is the
    address of the quotas page. `all_regions_quota` is a GPU quota across all regions, or None. `permissions` are
    the user's permissions. `apis` is the command that enables the cloud's APIs, or None if it is not needed.
    `quotas` are the quotas for resources other than GPUs.
    """

    cloud: str
    command: str
    install: str
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
    """A setting of a cluster. A change to the setting affects running workloads or access.

    `name` is the key in the stack output `cluster`, and `what` is the name that users read. `field` contains the
    paths of the stack file fields that determine the setting. `values` is a number or a list of values. A lower
    number or a removed value is a loss. `loss` is the effect of a loss, and `gain` is the effect of any other
    change (`planning.changes.Effect`). `on_loss` and `on_gain` explain the effects, and `{lost}` stands for the
    removed values.
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
    """Whether the setting is immutable in the cloud. If so, `up` refuses a different value."""
    kept: bool = False
    """Whether `up` refuses to remove values of the setting. Other changes are allowed."""
    resizes: bool = False
    """Whether a change to the setting makes `up` set the number of nodes, which otherwise only an autoscaler
    changes.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEgress:
    """A destination, outside all namespaces, that a team's pods may reach. Each of its ports is a pair of number
    and protocol.

    `name` is the purpose, such as identity. `but` contains the networks within `cidr` that remain blocked.
    """

    name: str
    cidr: str
    ports: tuple[tuple[int, str], ...]
    but: tuple[str, ...] = ()


class CreatedCluster(Protocol):
    """The settings of a new cluster that are common to all clouds."""

    @property
    def api_access(self) -> tuple[str, ...]:
        """Networks (CIDR) outside the VPC that may reach the API server."""
        ...

    @property
    def extended_support(self) -> bool:
        """Whether the cluster keeps its Kubernetes version after the end of standard support."""
        ...

    @property
    def system_leaves_zones(self) -> bool:
        """Whether a new system node may be in a different zone than the disks of the old node's pods."""
        ...

    @property
    def upgrade_order(self) -> str | None:
        """The steps to upgrade the cluster to a new minor version, in order, or None for the program's default
        order.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Maximum time in seconds that the deployment engine waits for the creation, update or deletion of a
    resource.

    None means the engine's default.
    """

    create: int | None = None
    update: int | None = None
    delete: int | None = None

    def for_rounds(self, nodes: int, at_a_time: int, seconds: int) -> Timeouts:
        """Return these timeouts, with enough time to update `nodes` nodes. A round of `at_a_time` nodes takes
        `seconds`.
        """
        rounds = -(-nodes // max(1, at_a_time))
        return replace(self, update=max(self.update or 0, rounds * seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollLimits:
    """How the nodes of a pool are rolled.

    `at_a_time` is the number of nodes that are rolled at the same time, or None for all nodes. `unlimited` is the
    reason why the rolling update has no time limit, or empty if the deployment engine waits for it. `needs_empty`
    is the reason why the pool must have no nodes during the rolling update, or empty if it may have nodes.
    `only_while` states the condition under which a new node can be created, such as `while the reservation has a
    free instance`, or is empty. `image` describes the image of the new nodes if the rolling update names no other
    release. If `image` is empty, the new nodes keep the current image. `new_nodes_only` means that an upgrade does
    not change existing nodes.
    """

    at_a_time: int | None = None
    unlimited: str = ""
    needs_empty: str = ""
    only_while: str = ""
    image: str = ""
    new_nodes_only: bool = False


class CloudCluster(Protocol):
    """The cloud-specific plan for a cluster."""

    @property
    def kind(self) -> str:
        """Name of the provider in the stack file. `components.<kind>` creates the resources of the plan."""
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
        """Kubernetes minor version, or None if it is not known."""
        ...

    @property
    def known_zones(self) -> tuple[str, ...]:
        """Zones of pools that name no zone, or an empty tuple if the stack file does not determine all of these
        zones.
        """
        ...

    @property
    def protect(self) -> bool:
        """Whether the deployment engine refuses to delete the cluster."""
        ...

    @property
    def retained(self) -> tuple[str, ...]:
        """Resources that `destroy` does not delete, as text."""
        ...

    @property
    def releases(self) -> Mapping[str, Mapping[str, Any]]:
        """The program's Helm values for the controllers that the cloud's pools need, by chart."""
        ...

    def kubernetes_problem(self, running: str) -> Problem | None:
        """Return why `up` cannot upgrade the control plane from minor version `running`, or None if it can."""
        ...

    @property
    def parts(self) -> tuple[PartPlan, ...]:
        """Controllers that the pools need.

        Either the program installs them or the cluster's owner has installed them.
        """
        ...

    @property
    def first_up_problem(self) -> Problem | None:
        """Why an `up` that creates the cluster cannot finish, or None if it can."""
        ...

    @property
    def create(self) -> CreatedCluster | None:
        """Settings of a new cluster, or None for an existing cluster."""
        ...

    @property
    def platforms(self) -> tuple[str, ...]:
        """The `CloudNodes.platform` values of the cluster's pools, which are the kinds of resources that create
        nodes.
        """
        ...

    @property
    def timeouts(self) -> Timeouts:
        """How long the deployment engine waits for the cluster."""
        ...

    @property
    def pool_timeouts(self) -> Mapping[str, Timeouts]:
        """How long the deployment engine waits for a pool, by platform."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerPlan:
    """Specs of the NodePool and node class that Karpenter uses to add nodes to the pool's initial nodes.

    `node_class` contains `apiVersion`, `kind` and optionally `spec`. `nodes` is the maximum number of added nodes.
    """

    nodes: int
    node_class: Mapping[str, Any]
    node_pool: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmChartPlan:
    """A pinned Helm release."""

    name: str
    chart: str
    repository: str
    version: str
    namespace: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetPlan:
    """The name, namespace and Kubernetes pod spec of a platform DaemonSet with pinned images."""

    name: str
    namespace: str
    pod_spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricNics:
    """NICs for traffic between GPUs of different nodes. A node has at least `count` NICs of a kind that the node
    agent recognises.

    `mtu` is the MTU of their network interfaces. It is None if it is not known, or if the NICs have no network
    interfaces, as with EFA. `neighbours` contains the PCI addresses of the NICs next to each GPU, by the GPU's
    address. It is empty for machines that show their PCIe switches, or whose addresses are not known.
    """

    kind: Literal["efa", "mlx5", "infiniband", "gvnic"]
    count: int
    mtu: int | None = None
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class NicDevices:
    """NICs for traffic between nodes, exposed as devices that pods claim.

    `driver` is the driver that publishes the devices in ResourceSlices, or None if its name is not known.
    """

    device_class: str
    per_node: int
    driver: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFile:
    """A ConfigMap that pods mount to use the network between nodes.

    The program creates it in the namespaces of the pods. `config_map` is its name, and `directory` is the mount
    path.
    """

    config_map: str
    directory: str
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFabric:
    """The fabric of a pool's NICs if its pods need more access to the node than Pod Security allows.

    `name` is the key in the catalogue's `fabric_pods`. `labels` are the node labels that the cloud sets and that
    pods use to select these nodes. `networks` are the Kubernetes networks that a pod with all NICs joins. If
    `networks` is empty, the pod claims the NICs instead.
    """

    name: Literal["tcpx", "tcpxo", "rdma"]
    labels: Mapping[str, str]
    networks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNodes:
    """How a pool's cloud creates, rolls, replaces and deletes the nodes of the pool.

    The defaults apply to nodes that no cloud creates.
    """

    platform: str | None = None
    """Kind of resource that creates the nodes, as in the `platform` fields of catalog/facts/pool_changes.yaml."""
    protect: bool = False
    """Whether the deployment engine refuses to delete the pool."""
    zones: tuple[str, ...] = ()
    """Zones of the nodes. An empty tuple means all zones of the cluster."""
    several_zones: bool = False
    """Whether the nodes may be in more than one zone."""
    leaves_zones: bool = False
    """Whether new nodes may be in a different zone than the disks of the pods that wait for the nodes."""
    placement: str | None = None
    """How the cloud places the nodes: `none`, or the cloud's name for close placement.

    None means that the owner places the nodes.
    """
    replaced_delete_first: bool = False
    """Whether a pool is deleted before its replacement is created."""
    rolled_delete_first: bool = False
    """Whether a rolling update deletes a node before it creates the replacement node."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long the deployment engine waits for the pool."""
    roll_limits: RollLimits = field(default_factory=RollLimits)
    """How the pool's nodes are rolled, including the limits of the rolling update."""
    alternatives: tuple[str, ...] = ()
    """Other machine types that the pool's nodes may have."""
    os_release: tuple[str, str | None] | None = None
    """ID and VERSION_ID of the nodes' operating system, as in /etc/os-release, or None if it is not known. The
    version is None if the node image is available in several versions.
    """
    account_needs: tuple[AccountNeed, ...] = ()
    """Resources that the account must have before the pool can have nodes."""
    created_on_demand: str | None = None
    """Why the pool may initially have fewer than `desired` nodes, or None if it starts with `desired` nodes."""
    huge_pages_mib: int = 0
    """Memory in MiB that a node reserves as huge pages. Only pods that request huge pages can use it."""
    autoscaled: bool = False
    """Whether an autoscaler changes the number of nodes depending on the pending pods."""
    sets_size: SetsSize = "always"
    """When `up` sets the number of nodes to `desired`."""
    equal_zones: bool = False
    """Whether the pool has the same number of nodes in each zone when `up` sets the number."""
    keeps_version: bool = False
    """Whether the cloud keeps the pool's nodes at their Kubernetes version until support for this version ends."""
    relabels_in_place: bool = True
    """Whether changed labels are applied to existing nodes. If not, the cloud creates new nodes with the changed
    labels.
    """
    nodes_by_request: bool = False
    """Whether nodes are created only for a ProvisioningRequest, not for pending pods."""
    nic_resources: Mapping[str, int] = field(default_factory=dict[str, int])
    """Extended resources for the NICs of a node, with the amount of each on the node."""
    nic_devices: NicDevices | None = None
    """Devices of a node's NICs that pods can claim, or None if the node has no such devices."""
    network_requests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Resources that a pod with all GPUs of a node must also request to use the network between nodes."""
    network_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables that make NCCL use the NICs that a pod requests or claims."""
    network_file: PodFile | None = None
    """The file that NCCL reads to use these NICs, or None if it needs no file."""
    fabric_nics: FabricNics | None = None
    """NICs on the node's PCI bus for traffic between GPUs, or None if nodes have no such NICs."""
    node_fabric: NodeFabric | None = None
    """The fabric of the NICs if pods need host paths or capabilities to use the NICs, or else None."""
    replacement: str = ""
    """How to replace a broken node, as text. The text names the resource that creates the pool's nodes, and the
    steps.
    """
    replaced_by_claim: bool = False
    """Whether deleting the NodeClaim that owns a Node object replaces the node."""
    local_nvme: bool = False
    """Whether container images and the pods' local volumes are on the node's local NVMe disks."""
    disk_gib: int = 0
    """Size in GiB of the node's volume for images and pod data, unless these are on local disks."""
    volumes: int | None = None
    """Maximum number of disks for claims that a node can attach, or None if it is not known."""
    sized_groups: tuple[SizedGroup, ...] = ()
    """Node groups whose size `up` sets only if `count` was edited."""
    windows: tuple[CapacityWindow, ...] = ()
    """The pool's reserved capacity, sorted by time.

    It is empty if the pool has no reserved capacity with start and end times.
    """
    node_class_reservations: tuple[CapacityWindow, ...] = ()
    """The capacity reservations that the pool's EC2NodeClass selects."""
    pod_endings: tuple[PodEnding, ...] = ()
    """Reasons why pods on the pool's nodes are terminated, other than the schedule."""
    moves_pods: str = ""
    """Conditions under which an autoscaler removes nodes while pods run on them, as text. The controllers of these
    pods are expected to replace them. The text is empty if the autoscaler removes only empty nodes, or spares the
    pods of controllers such as KubeRay.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """The cloud-specific plan for a pool.

    `plan` contains the resources of the pool, or is None if no cloud creates the nodes. Cloud-independent planning
    uses only `nodes`.
    """

    plan: object | None = None
    nodes: CloudNodes = field(default_factory=CloudNodes)


Scores = Literal["default", "most-allocated"]
"""How the cluster's kube-scheduler scores nodes. See planning/scheduling/profiles.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPlan:
    """The known settings of the cluster's kube-scheduler, and the source of this information."""

    scores: Scores
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """How clients reach the cluster. `kubernetes` is the minor version, or None if it is not known."""

    provider: str
    name: str
    kubeconfig: str | None
    context: str | None
    kubernetes: str | None
    access: Access
    scheduler: SchedulerPlan
    cloud: CloudCluster | None = None
    """The cloud-specific plan, or None if the program uses no cloud API to create or look up the cluster."""
    surge_nodes: Mapping[str, int] = field(default_factory=dict[str, int], metadata=NOT_IN_JSON)
    """Number of nodes that each pool may have above its maximum while its nodes are rolled."""
    pool_properties: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]], metadata=NOT_IN_JSON
    )
    """For each cloud pool, the properties by their names in the cloud's API. A change to one of them may replace
    the pool, or replace or remove nodes.
    """
    settings: tuple[ClusterSetting, ...] = field(default=(), metadata=NOT_IN_JSON)
    """Settings of the cloud cluster that a preview compares with the last deployment."""
    prerequisites: Callable[[Iterable[str]], CloudPrerequisites] | None = field(
        default=None, compare=False, metadata=NOT_IN_JSON
    )
    """What the cloud account must provide before `up` can create resources of these Pulumi types, or None if the
    program uses no cloud API.
    """


def listed(parts: Iterable[str]) -> str:
    """Return the non-empty strings, separated by commas."""
    return ", ".join(part for part in parts if part)


def per_zone_text(nodes: int | None) -> str:
    """Return the number of nodes in each zone in the form of a pool property, such as `2 per zone`."""
    return NOT_SET if nodes is None else f"{nodes} per zone"


def per_zone(text: str) -> int | None:
    """Return the number of nodes in each zone from a pool property, or None if an autoscaler sets the number."""
    return None if text == NOT_SET else int(text.split()[0])
