"""The functions and facts that planning needs from a cloud, grouped by subject.

A provider is one value of `Cloud`. A function in `clouds/<provider>/cloud.py` creates it for the `cluster` of a
stack file, and `clouds/registry.py` lists it. The provider's other modules contain the functions that the value
refers to. The defaults apply to a provider that does not create nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.planning.clouds.controllers import ControllerPods, Room
from gpu_platform.planning.clouds.daemonsets import DaemonSet, most_of
from gpu_platform.planning.clouds.documents import Document
from gpu_platform.planning.clouds.identities import CloudIdentities, PodAccess
from gpu_platform.planning.clouds.section import (
    Access,
    AutoscalerPlan,
    CloudCluster,
    CloudPool,
    CloudPrerequisites,
    ClusterSetting,
    GrowingNodes,
    HostPolicy,
    PodEgress,
    Provisioning,
    SchedulerPlan,
)
from gpu_platform.planning.clouds.storage import ClaimSizes, MountProblem, StoragePlan, VolumeSidecar
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Cluster, Operator
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import DiskStorage, StorageClass
from gpu_platform.stack.team_identity import EXISTING, TeamIdentity

if TYPE_CHECKING:
    from gpu_platform.planning.maintenance.section import WindowPlan
    from gpu_platform.planning.nodes.section import Taint
    from gpu_platform.planning.nodes.software import NodeSoftware
    from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
    from gpu_platform.planning.requirements.section import NodeRequirements
    from gpu_platform.planning.sharing.section import SharingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Settings that the GPU Operator needs on a provider's nodes.

    `writes_object` means that the program creates the operator's custom resource itself, without a Helm chart.
    `reboots_for_mig` means that some changes to the MIG mode need a reboot, because a virtual machine cannot reset
    only its GPUs. `driver_dir` and `toolkit_dir` are the directories of the driver and the toolkit on the host, or
    None for the operator's defaults. `reads_runtime_file` means that containerd's configuration file is complete,
    so that the toolkits of all releases can read the file instead of asking containerd.
    `quota_for_system_priorities` means that the system-critical priority classes need a ResourceQuota outside
    kube-system. `driver_root` is the root directory of a driver that the operator does not install.
    """

    writes_object: bool = False
    reboots_for_mig: bool = False
    driver_dir: str | None = None
    toolkit_dir: str | None = None
    reads_runtime_file: bool = False
    quota_for_system_priorities: bool = False
    driver_root: str = "/"
    decisions: tuple[Decision, ...] = ()


def _nothing(*_: object) -> None:
    """Do nothing and return None. This is the default for optional checks and lookups."""


def _plan_nothing(*_: object) -> Decided[None]:
    return Decided(None)


def _known_daemonsets(pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
    """Return the largest set of DaemonSets that the machine type's cloud runs on a node.

    This is an estimate for nodes that the program does not create.
    """
    return most_of(catalog.machine_types[pool.machine_type])


def _keep(cluster: CloudCluster | None, *_: object) -> Decided[CloudCluster | None]:
    return Decided(cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPools:
    """How a cloud creates the nodes of pools, and which pools it refuses."""

    names: Callable[[Pool], tuple[str, ...] | None] = _nothing
    """Return the names of the pool's nodes, or None if they are not known before a deployment."""
    nodes: Callable[[Pool, tuple[str, ...] | None], NodesPlan]
    """Return the plan for the pool's nodes.

    The second argument contains the node names from the stack file, if any.
    """
    plan: Callable[[Pool, MachineType, NodeRequirements, Catalog], Decided[CloudPool]] = (
        lambda pool, machine, requirements, catalog: Decided(CloudPool())
    )
    """Return how the cloud creates the pool's nodes. The default is an empty plan."""
    plan_autoscaler: Callable[[Pool, MachineType, NodeRequirements], Decided[AutoscalerPlan | None]] = (
        _plan_nothing
    )
    """Return the autoscaler that adds nodes to the pool's initial nodes, or None if the pool has no autoscaler."""
    added_taints: Callable[[Pool, MachineType], Mapping[Taint, str]] = lambda pool, machine: {}
    """Return the taints that the cloud adds to the pool's own taints, with the reason for each."""
    gpu_labels: Callable[[MachineType, SharingPlan], Mapping[str, str]] = lambda machine, sharing: {}
    """Return the node labels that the cloud's own device plugin sets."""
    daemonsets: Callable[[PoolPlan, Catalog], tuple[DaemonSet, ...]] = _known_daemonsets
    """Return the DaemonSets on the nodes of a pool. All other fields of the pool's plan are already set."""
    topology_levels: Callable[[PoolPlan], tuple[str, ...]] = lambda pool: (names.HOSTNAME_LABEL,)
    """Return the node labels that describe a node's position in the network topology, from the widest level to the
    narrowest.

    Every level except the last contains several nodes. The last level is the node itself.
    """
    provisioning: Callable[[PoolPlan], Provisioning | None] = _nothing
    """Return the ProvisioningRequests that create the pool's nodes, or None if the pool does not use them."""
    surge_nodes: Callable[[PoolPlan, CloudCluster], int] = lambda pool, cluster: 0
    """Return how many nodes the pool may have above its maximum while its nodes are rolled."""
    properties: Callable[[PoolPlan, CloudCluster], Mapping[str, str]] = lambda pool, cluster: {}
    """Return properties of the pool, by their names in the cloud's API. A change to one of them may replace the
    pool, or replace or remove nodes.
    """
    check_nodes: Callable[[Pool, Problems], None] = _nothing
    """Record problems with the pool's `nodes` that do not depend on its machine type.

    `problems` points to the pool.
    """
    check: Callable[[Pool, MachineType, Catalog, Problems], None] = _nothing
    """Record a problem for each combination of the pool's settings that the cloud refuses.

    The machine type is from the vendor in `Cloud.vendor`.
    """
    check_together: Callable[[Sequence[tuple[int, Pool]], Operator | None, Catalog, Problems], None] = _nothing
    """Record conflicts between pools, and between a pool and the Kubernetes version of a new cluster.

    Each entry of the first argument is a pair: the pool's index in the stack file, and the pool. `problems` points
    to the root of the stack file.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudClasses:
    """How the nodes of compute classes are identified."""

    labels: Callable[[str], Mapping[str, str]] = lambda name: {names.COMPUTE_CLASS_LABEL: name}
    """Return the node labels that pods use to select the compute class with this name."""
    taints: Callable[[str], tuple[Taint, ...]] = lambda name: ()
    """Return the taints that nodes of the compute class need."""
    check: Callable[[ComputeClass, Sequence[Pool], Problems], None] = _nothing
    """Record why the cloud cannot follow the declared order of the pools. `problems` points to the compute class.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSoftware:
    """Who installs the GPU software on a pool's nodes."""

    owners: Callable[[Pool, Operator, Catalog], NodeSoftware]
    """Return who installs the driver, toolkit and device plugin on the pool's nodes."""
    explain: Callable[[Pool, NodeSoftware], str | None] = _nothing
    """Return why each component is installed by the cloud or the operator, or None if only `operator` in the stack
    file determines this.
    """
    operator_settings: Callable[[Sequence[PoolPlan]], OperatorSettings] = lambda pools: OperatorSettings()
    """Return the settings that the operator needs on the nodes of the pools."""
    release_with_driver: Callable[[Pool, Catalog], str | None] = _nothing
    """Return the first image release whose driver supports the machine type, or None if the driver does not depend
    on the release.
    """
    check: Callable[[Pool, NodeSoftware, Operator, Catalog, Problems], None] = _nothing
    """Record a problem for each GPU software component that both the cloud and the operator, or neither of them,
    would install.

    The machine type is from the vendor in `Cloud.vendor`.
    """
    check_sharing: Callable[[Pool, NodeSoftware, MachineType, Catalog, Problems], None] = _nothing
    """Record a problem for sharing that the nodes' device plugin does not support.

    `problems` points to the sharing configuration.
    """
    check_operator: Callable[[Sequence[tuple[int, Pool]], Catalog, Problems], None] = _nothing
    """Record a problem for pools that need conflicting settings of the operator. `problems` points to the root of
    the stack file.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudControlPlane:
    """How a cloud creates or looks up the cluster."""

    plan: Callable[[str, Sequence[PoolPlan], OperatorRelease, Catalog], Decided[CloudCluster | None]] = (
        _plan_nothing
    )
    """Return the cloud-specific plan for the cluster. The pools are already planned."""
    plan_controllers: Callable[
        [CloudCluster | None, Sequence[PoolPlan], Sequence[ControllerPods], Catalog, Problems],
        Decided[CloudCluster | None],
    ] = _keep
    """Return the planned cluster with enough nodes for the controllers, or record why the controllers do not fit
    on the nodes.

    The third argument contains the controllers that the program installs on every cloud. `problems` points to
    `cluster`.
    """
    system_rooms: Callable[[CloudCluster | None, Catalog], Sequence[Room] | None] = _nothing
    """Return the free CPU and memory of all system nodes, or None if the cluster has nodes that the stack file
    does not name.
    """
    documents: Callable[
        [CloudCluster | None, Sequence[PoolPlan], StoragePlan, CloudIdentities | None], Iterable[Document]
    ] = lambda cluster, pools, storage, identities: ()
    """Return the cloud documents that grow with the stack file, such as IAM policies."""
    settings: Callable[[CloudCluster], tuple[ClusterSetting, ...]] = lambda cluster: ()
    """Return the settings of the cluster itself that a preview compares with the last deployment."""
    prerequisites: Callable[[CloudCluster, Iterable[str]], CloudPrerequisites] | None = None
    """Return what the cloud account must provide before `up` can run.

    The second argument contains the Pulumi types of the resources that `up` creates.
    """
    window_note: Callable[[WindowPlan], str] = lambda window: "only `up` starts to change the nodes"
    """Return how the maintenance window in `changes` affects changes that the cloud makes without `up`."""
    check_window: Callable[[WindowPlan | None, Problems], None] = _nothing
    """Record why the cloud cannot use the maintenance window in `changes`.

    `problems` points to the root of the file.
    """
    check: Callable[[Sequence[Pool], Operator | None, Catalog, Problems], None] = _nothing
    """Record problems with the cluster that depend on its pools. `problems` points to `cluster`."""


class LoginNotes(Protocol):
    """A function that finds the members of a team who cannot log in, and the permissions that they lack."""

    def __call__(self, team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
        """Return warnings about members of the team who cannot log in. `own_stack` is true if the team has a
        separate stack.
        """
        ...


def _no_notes(team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
    del team, members, own_stack
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudLogins:
    """How the members of teams log in."""

    commands: Callable[[Sequence[str]], tuple[str, ...]] = lambda members: ()
    """Return the commands that give members a kubeconfig.

    The result is empty if the cluster's owner distributes the kubeconfig.
    """
    notes: LoginNotes = _no_notes
    check: Callable[[Sequence[str], Problems], None] = _nothing
    """Record a problem for members of a team that the cloud cannot authenticate.

    `problems` points to the team's `members`.
    """


def existing_rights(identity: TeamIdentity) -> tuple[str, ...]:
    """Return text that describes the permission to use an existing identity."""
    return tuple(f"use {one}" for name in EXISTING if (one := getattr(identity, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTeamIdentities:
    """Cloud identities for the pods of teams."""

    plan: Callable[[Mapping[str, TeamIdentity]], Decided[CloudIdentities | None]] = _plan_nothing
    """Return the cloud resources for the teams' identities, or None if no resources are needed."""
    rights: Callable[[TeamIdentity], tuple[str, ...]] = existing_rights
    """Return the resources that pods with the identity may use, as text."""
    pod_access: Callable[[TeamIdentity], PodAccess] = lambda identity: PodAccess()
    """Return the service account annotations and pod labels that give pods the identity."""
    check: Callable[[TeamIdentity, Problems], None] = _nothing
    """Record problems with settings of a team's identity that the cloud does not support.

    `problems` points to the team's `identity`.
    """


def _refuse_api_egress(provider: str, problems: Problems) -> None:
    problems.add(
        f"cloud-apis on provider {provider}",
        "cloud-apis only on GKE, where Google's APIs have dedicated addresses; "
        "other providers have no such addresses",
        "write internet, or set cidr to the network of the VPC's endpoints",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNetwork:
    """Destinations that pods and the control plane can reach."""

    isolates_bare_pods: bool = True
    """Whether the cloud also enforces network policies for pods that have no controller."""
    closed_ports: str | None = None
    """Why the control plane can reach webhooks only on ports 443 and 10250, or None if it can reach all ports."""
    host_policy: HostPolicy | None = "FQDNNetworkPolicy"
    """The kind of network policy that supports host names, or None if the cluster has no such policy."""
    pod_egress: tuple[PodEgress, ...] = ()
    """Addresses that pods need for identity and DNS if their team has no cloud identity."""
    identity_egress: tuple[PodEgress, ...] = ()
    """Addresses that pods need for identity and DNS if their team has a cloud identity."""
    api_egress: PodEgress | None = None
    """Addresses of the cloud's APIs, or None if the APIs have no dedicated addresses."""
    api_egress_note: str = ""
    """Requirement that must be met before pods can use the addresses in `api_egress`."""
    check_hosts: Callable[[Problems], None] = _nothing
    """Record why egress rules cannot contain host names. `problems` points to the host name."""
    check_apis: Callable[[str, Problems], None] = _refuse_api_egress
    """Record why egress rules cannot allow only the cloud's APIs.

    The first argument is the provider, and `problems` points to the egress entry.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudStorage:
    """Storage classes of a cloud, and the checks for them."""

    bucket_sidecar: VolumeSidecar | None = None
    """Sidecar that mounts buckets in the pods that use them, or None if the nodes mount buckets."""
    own_classes: Callable[[Mapping[str, StorageClass], Sequence[PoolPlan], Catalog], Mapping[str, DiskStorage]] = (
        lambda storage, pools, catalog: {}
    )
    """Return the storage classes that the cloud or the program creates without a declaration in the stack file."""
    claim_sizes: Callable[[StorageClass], ClaimSizes] = lambda storage: ClaimSizes()
    """Return the sizes of the volumes that the cloud creates for a storage class."""
    key_classes: tuple[str, ...] = ()
    """Storage classes whose driver writes a key to volumes of all teams into the namespace of a claim. Teams may
    not create such claims.
    """
    mount_problem: Callable[[StorageClass, PoolPlan, Sequence[PoolPlan], Catalog], MountProblem | None] = _nothing
    """Return why the nodes of a pool cannot mount volumes of a storage class, or None if no reason is known."""
    check: Callable[[Mapping[str, StorageClass], Sequence[Pool], Catalog, Problems], None] = _nothing
    """Record problems with storage classes that the cloud or the pools' machine types do not support.

    `problems` points to `storage`.
    """
    plan: Callable[
        [Mapping[str, StorageClass], str, Sequence[PoolPlan], str | None, Catalog], Decided[StoragePlan]
    ] = lambda storage, stack, pools, kubernetes, catalog: Decided(StoragePlan())
    """Return the plan for a stack's storage classes, with the cloud resources that they need. The fourth argument
    is the Kubernetes version, if known.
    """


LONGEST_POOL_NAME: Final = (40, "nodes are named after it")
"""Default for the maximum length of a pool's name, and the reason for this maximum.

The node name <pool>-<number> is also the hostname label, which has at most 63 characters.
"""
ASSUMED_SCHEDULER: Final = SchedulerPlan(
    scores="default", why="assumed, because the owner of the cluster configures its scheduler"
)
"""The assumed scheduler of an existing cluster. The program does not read the actual configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A provider, configured for the `cluster` section of a stack file."""

    cluster: Cluster
    access: Access
    kubernetes: str | None
    """The Kubernetes minor version, or None if it is not known before a deployment."""
    region: str | None = None
    """The cluster's region, which determines the prices, or None if the stack file names no region."""
    vendor: str | None = None
    """Vendor of the pools' machine types, by its name in the catalogue. None means that any vendor is allowed."""
    pools: CloudPools
    classes: CloudClasses = field(default_factory=CloudClasses)
    software: CloudSoftware
    control_plane: CloudControlPlane = field(default_factory=CloudControlPlane)
    logins: CloudLogins = field(default_factory=CloudLogins)
    identities: CloudTeamIdentities = field(default_factory=CloudTeamIdentities)
    network: CloudNetwork = field(default_factory=CloudNetwork)
    storage: CloudStorage = field(default_factory=CloudStorage)
    creates_nodes: bool = False
    """Whether the program creates nodes from the cloud's images."""
    creates_cluster: bool = False
    """Whether the program creates the cluster."""
    chooses_kubernetes: bool = False
    """Whether planning chooses a Kubernetes version if the stack file does not name a version."""
    sets_kubelet: bool = True
    """Whether the program configures the kubelets."""
    owner_prepares_nodes: bool = False
    """Whether the owner of the nodes installs the driver and toolkit and configures the container runtime."""
    managed_control_plane: bool = False
    """Whether the provider runs the control plane, so that Prometheus cannot scrape its components."""
    core_dns: bool = True
    """Whether the cluster's DNS server has CoreDNS' port for metrics."""
    managed_prometheus: bool = False
    """Whether the program creates the cluster with Google's managed Prometheus (PodMonitoring objects)."""
    installs_charts: bool = True
    """Whether the program installs Helm charts on the provider's clusters."""
    has_identities: bool = True
    """Whether the pods of a team can have a cloud identity."""
    runs_kueue: bool = False
    """Whether Kueue runs as a process outside the cluster, instead of being installed from its Helm chart."""
    autoscaler_flags: Literal["program", "owner", "nobody"] = "owner"
    """Who sets the flags of the Cluster Autoscaler for the cluster's nodes."""
    growing_nodes: GrowingNodes | None = None
    """Nodes that belong to no pool and that an autoscaler adds, or None if an autoscaler adds no such nodes."""
    scheduler: SchedulerPlan = ASSUMED_SCHEDULER
    """The settings of the cluster's kube-scheduler."""
    added_resources: tuple[str, ...] = ()
    """Prefixes of the resources that the cloud's webhooks add to pods with network interfaces.

    Quotas do not cover these resources.
    """
    longest_pool_name: tuple[int, str] = LONGEST_POOL_NAME
    """Maximum number of characters in a pool's name, and the reason."""
    reservation_identity: tuple[Literal["zone", "machine_type"], ...] = ()
    """Fields of a pool that identify a reservation together with its name and project."""
    no_gpu_cluster: str | None = None
    """Why the operator's GPUCluster, and therefore DRA, is not available, or None if it is available."""
