"""Every question that planning asks of a cloud, in parts by subject.

A provider is one value of `Cloud`, made by a function in `clouds/<provider>/cloud.py` for the `cluster` of a stack
file, and listed in `clouds/registry.py`. The functions of its parts are those of the provider's modules. The
defaults are for a provider that does not create nodes.
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
from gpu_platform.planning.clouds.identities import CloudIdentities
from gpu_platform.planning.clouds.section import (
    Access,
    AutoscalerPlan,
    CloudCluster,
    CloudPool,
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
from gpu_platform.stack.team_identity import TeamIdentity

if TYPE_CHECKING:
    from gpu_platform.planning.maintenance.section import WindowPlan
    from gpu_platform.planning.nodes.section import Taint
    from gpu_platform.planning.nodes.software import NodeSoftware
    from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
    from gpu_platform.planning.requirements.section import NodeRequirements
    from gpu_platform.planning.sharing.section import SharingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What the GPU Operator's values need on a provider's nodes.

    `writes_object`: the program creates the custom resource of the operator itself, without a Helm chart;
    `reboots_for_mig`: a virtual machine cannot reset its GPUs alone, which some changes of MIG mode need;
    `driver_dir`: directory of the driver on the host, None: the operator's default; `toolkit_dir`: of the toolkit;
    `toolkit_env`: environment of the toolkit's containers; `quota_for_system_priorities`: whether system-critical
    priority classes need a ResourceQuota outside kube-system; `driver_root`: root directory of a driver that the
    operator does not install.
    """

    writes_object: bool = False
    reboots_for_mig: bool = False
    driver_dir: str | None = None
    toolkit_dir: str | None = None
    toolkit_env: Mapping[str, str] | None = None
    quota_for_system_priorities: bool = False
    driver_root: str = "/"
    decisions: tuple[Decision, ...] = ()


def _nothing(*_: object) -> None:
    """Record no problem, or return that there is nothing."""


def _plan_nothing(*_: object) -> Decided[None]:
    """Return that the cloud creates nothing."""
    return Decided(None)


def _known_daemonsets(pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
    """Return the most that the machine type's own cloud has: those on nodes of others are not known."""
    return most_of(catalog.machine_types[pool.machine_type])


def _keep(cluster: CloudCluster | None, *_: object) -> Decided[CloudCluster | None]:
    """Return the cluster unchanged."""
    return Decided(cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPools:
    """How a cloud creates the nodes of pools, and what it refuses."""

    names: Callable[[Pool], tuple[str, ...] | None] = _nothing
    """Return the names of the pool's nodes where they are known before a deploy."""
    nodes: Callable[[Pool, tuple[str, ...] | None], NodesPlan]
    """Return which nodes the pool has; the names are those that the stack file has for this part of the pool."""
    plan: Callable[[Pool, MachineType, NodeRequirements, Catalog], Decided[CloudPool]] = (
        lambda pool, machine, requirements, catalog: Decided(CloudPool())
    )
    """Return how the cloud creates the pool's nodes, if it does."""
    plan_autoscaler: Callable[[Pool, MachineType, NodeRequirements], Decided[AutoscalerPlan | None]] = (
        _plan_nothing
    )
    """Return what adds nodes to those that the program creates for the pool; None: nothing does."""
    added_taints: Callable[[Pool, MachineType], Mapping[Taint, str]] = lambda pool, machine: {}
    """Return the taints that the cloud adds to those of the pool, each with the reason."""
    gpu_labels: Callable[[MachineType, SharingPlan], Mapping[str, str]] = lambda machine, sharing: {}
    """Return the node labels of the cloud's own device plugin."""
    daemonsets: Callable[[PoolPlan, Catalog], tuple[DaemonSet, ...]] = _known_daemonsets
    """Return the DaemonSets on the nodes of a pool that is planned but for them."""
    topology_levels: Callable[[PoolPlan], tuple[str, ...]] = lambda pool: (names.HOSTNAME_LABEL,)
    """Return the labels of nodes with their position in the network topology, the widest level first.

    Each but the last holds several nodes; the last is the node.
    """
    provisioning: Callable[[PoolPlan], Provisioning | None] = _nothing
    """Return the ProvisioningRequests by which the pool gets its nodes; None: it gets them otherwise."""
    surge_nodes: Callable[[PoolPlan, CloudCluster], int] = lambda pool, cluster: 0
    """Return how many nodes the pool may have beyond its maximum while its nodes are rolled."""
    properties: Callable[[PoolPlan, CloudCluster], Mapping[str, str]] = lambda pool, cluster: {}
    """Return the properties whose change replaces the pool or its nodes, by the API's names."""
    check_nodes: Callable[[Pool, Problems], None] = _nothing
    """Record what is wrong with the pool's `nodes`, whatever its machine type; `problems` is at the pool."""
    check: Callable[[Pool, MachineType, Catalog, Problems], None] = _nothing
    """Record every combination that the cloud refuses; the machine type is one of `vendor`."""
    check_together: Callable[[Sequence[tuple[int, Pool]], Operator | None, Catalog, Problems], None] = _nothing
    """Record what pools cannot have beside each other, or on the Kubernetes version of a new cluster.

    The pools come with their index in the file. The problems are at the file's root.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudClasses:
    """How nodes of compute classes are recognised."""

    labels: Callable[[str], Mapping[str, str]] = lambda name: {names.COMPUTE_CLASS_LABEL: name}
    """Return the node labels by which pods select the compute class of that name."""
    taints: Callable[[str], tuple[Taint, ...]] = lambda name: ()
    """Return the taints that nodes of the compute class need."""
    check: Callable[[ComputeClass, Sequence[Pool], Problems], None] = _nothing
    """Record why the cloud cannot keep the order of these pools; `problems` is at the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSoftware:
    """Who installs the GPU software of a pool's nodes."""

    owners: Callable[[Pool, Operator, Catalog], NodeSoftware]
    """Return who installs driver, toolkit and device plugin on the pool's nodes."""
    explain: Callable[[Pool, NodeSoftware], str | None] = _nothing
    """Return the reason for these owners; None where `operator` in the stack file decides alone."""
    operator_settings: Callable[[Sequence[PoolPlan]], OperatorSettings] = lambda pools: OperatorSettings()
    """Return what the operator's values need on these nodes."""
    release_with_driver: Callable[[Pool, Catalog], str | None] = _nothing
    """Return the first image release with a driver for the machine type, as text, or None."""
    check: Callable[[Pool, NodeSoftware, Operator, Catalog, Problems], None] = _nothing
    """Record software with two owners, or none; the machine type is one of `vendor`."""
    check_sharing: Callable[[Pool, NodeSoftware, MachineType, Catalog, Problems], None] = _nothing
    """Record sharing that the nodes' device plugin cannot do; `problems` is at the sharing."""
    check_operator: Callable[[Sequence[tuple[int, Pool]], Catalog, Problems], None] = _nothing
    """Record pools that one operator cannot serve together; `problems` is at the file's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudControlPlane:
    """How a cloud creates the cluster itself, or looks it up."""

    plan: Callable[[str, Sequence[PoolPlan], OperatorRelease, Catalog], Decided[CloudCluster | None]] = (
        _plan_nothing
    )
    """Return the cloud's part of the cluster of a stack, for pools that are planned."""
    plan_controllers: Callable[
        [CloudCluster | None, Sequence[PoolPlan], Sequence[ControllerPods], Catalog, Problems],
        Decided[CloudCluster | None],
    ] = _keep
    """Return a planned cluster with nodes that hold the controllers, or record why they do not.

    The controllers are the pods of what the program installs on every cloud; `problems` is at `cluster`.
    """
    system_rooms: Callable[[CloudCluster | None, Catalog], Sequence[Room] | None] = _nothing
    """Return the room of all system nodes; None: the cluster has nodes that the stack file does not name."""
    documents: Callable[
        [CloudCluster | None, Sequence[PoolPlan], StoragePlan, CloudIdentities | None], Iterable[Document]
    ] = lambda cluster, pools, storage, identities: ()
    """Return the cloud's documents that grow with the stack file."""
    window_note: Callable[[WindowPlan], str] = lambda window: "nothing but `up` begins a change of the nodes"
    """Return what the window of `changes` means for changes that the cloud makes by itself."""
    check_window: Callable[[WindowPlan | None, Problems], None] = _nothing
    """Record why the cloud cannot have the window of `changes`; `problems` is at the file's root."""
    check: Callable[[Sequence[Pool], Operator | None, Catalog, Problems], None] = _nothing
    """Record what is wrong with the cluster for its pools; `problems` is at `cluster`."""


class LoginNotes(Protocol):
    """Find members of a team who cannot log in, and what they need."""

    def __call__(self, team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
        """Return warnings about these members; `own_stack`: the team has a stack of its own."""
        ...


def _no_notes(team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
    del team, members, own_stack
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudLogins:
    """How members of teams log in."""

    commands: Callable[[Sequence[str]], tuple[str, ...]] = lambda members: ()
    """Return the commands by which members get a kubeconfig; empty: the cluster's owner gives it to them."""
    notes: LoginNotes = _no_notes
    check: Callable[[Sequence[str], Problems], None] = _nothing
    """Record members of a team that the cloud cannot authenticate; `problems` is at the team's `members`."""


def existing_rights(identity: TeamIdentity) -> tuple[str, ...]:
    """Return the right to use an identity that exists, as text."""
    return tuple(f"use {one}" for one in (identity.role_arn, identity.google_service_account) if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTeamIdentities:
    """Identities of the cloud for pods of teams."""

    plan: Callable[[Mapping[str, TeamIdentity]], Decided[CloudIdentities | None]] = _plan_nothing
    """Return the resources of the cloud for the identities of teams, by team; None: it needs none."""
    rights: Callable[[TeamIdentity], tuple[str, ...]] = existing_rights
    """Return what pods with the identity may use, as text."""
    annotations: Callable[[TeamIdentity], Mapping[str, str]] = lambda identity: {}
    """Return the annotations of the service account that pods get the identity by."""
    check: Callable[[TeamIdentity, Problems], None] = _nothing
    """Record what of a team's identity the cloud cannot have; `problems` is at the team's `identity`."""


def _refuse_api_egress(provider: str, problems: Problems) -> None:
    problems.add(
        f"cloud-apis on provider {provider}",
        "cloud-apis only on GKE: Google's APIs have addresses of their own, elsewhere they have none",
        "write internet, or as cidr the network of the VPC's endpoints",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNetwork:
    """What pods and the control plane reach."""

    isolates_bare_pods: bool = True
    """Whether network policies hold for pods without a controller, too, as far as the cloud decides it."""
    closed_ports: str | None = None
    """Why the control plane reaches webhooks at the ports 443 and 10250 only; None: it reaches all ports."""
    host_policy: HostPolicy | None = "FQDNNetworkPolicy"
    """The kind of network policies that name hosts, where there are any; None: there are none."""
    pod_egress: tuple[PodEgress, ...] = ()
    """The addresses that identity and DNS of pods need in a team without an identity of its own."""
    identity_egress: tuple[PodEgress, ...] = ()
    """The same in a team with an identity."""
    api_egress: PodEgress | None = None
    """The addresses of the cloud's APIs; None: they have none of their own."""
    api_egress_note: str = ""
    """What the addresses of `api_egress` need to be used."""
    check_hosts: Callable[[Problems], None] = _nothing
    """Record why pods cannot be let reach hosts by name; `problems` is at the name."""
    check_apis: Callable[[str, Problems], None] = _refuse_api_egress
    """Record why pods on a provider cannot be let reach only the cloud's APIs; `problems` is at the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudStorage:
    """Storage classes of a cloud."""

    bucket_sidecar: VolumeSidecar | None = None
    """What reads buckets in the pods that mount them; None: their nodes do."""
    own_classes: Callable[[Mapping[str, StorageClass], Sequence[PoolPlan], Catalog], Mapping[str, DiskStorage]] = (
        lambda storage, pools, catalog: {}
    )
    """Return the classes that a cluster has undeclared: the cloud's, and those that the program adds."""
    claim_sizes: Callable[[StorageClass], ClaimSizes] = lambda storage: ClaimSizes()
    """Return the sizes of the volumes that the cloud makes for a class."""
    mount_problem: Callable[[StorageClass, PoolPlan, Sequence[PoolPlan], Catalog], MountProblem | None] = _nothing
    """Return why nodes of a pool cannot mount volumes of an entry, as far as is known, or None."""
    check: Callable[[Mapping[str, StorageClass], Sequence[Pool], Catalog, Problems], None] = _nothing
    """Record storage classes that the cloud or the pools' machines cannot have; `problems` is at `storage`."""
    plan: Callable[
        [Mapping[str, StorageClass], str, Sequence[PoolPlan], str | None, Catalog], Decided[StoragePlan]
    ] = lambda storage, stack, pools, kubernetes, catalog: Decided(StoragePlan())
    """Return the storage classes of a stack on a Kubernetes version, with the cloud's resources for them."""


LONGEST_POOL_NAME: Final = (40, "nodes are named after it")
"""On any cloud: <pool>-<number> is also the hostname label, of at most 63 characters."""
ASSUMED_SCHEDULER: Final = SchedulerPlan(
    scores="default", why="assumed: the owner of the cluster sets up its scheduler"
)
"""The scheduler of an existing cluster, which the program does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A provider of clusters, for the `cluster` of a stack file."""

    cluster: Cluster
    access: Access
    kubernetes: str | None
    """The Kubernetes minor version where it is known before a deploy."""
    region: str | None = None
    """The cluster's region, whose prices apply; None: the stack file names none."""
    vendor: str | None = None
    """Vendor of the machine types of its pools, by the name in the catalogue; None: any."""
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
    """Whether planning chooses a Kubernetes version where the stack file names none."""
    sets_kubelet: bool = True
    """Whether the program decides how kubelets are configured."""
    owner_prepares_nodes: bool = False
    """Whether the owner of the nodes installs driver, toolkit and runtime settings."""
    managed_control_plane: bool = False
    """Whether the provider runs the control plane, and Prometheus cannot read its components."""
    managed_prometheus: bool = False
    """Whether the program creates the cluster with Google's managed Prometheus (PodMonitoring objects)."""
    installs_charts: bool = True
    """Whether the program installs Helm charts on its clusters."""
    has_identities: bool = True
    """Whether pods of a team can have an identity of the cloud."""
    runs_kueue: bool = False
    """Whether Kueue's program runs beside the cluster instead of by its chart."""
    autoscaler_flags: Literal["program", "owner", "nobody"] = "owner"
    """Who sets the flags of the Cluster Autoscaler that changes the number of nodes."""
    growing_nodes: GrowingNodes | None = None
    """Nodes that an autoscaler adds beside those of pools, or None."""
    scheduler: SchedulerPlan = ASSUMED_SCHEDULER
    """The kube-scheduler of the cluster."""
    added_resources: tuple[str, ...] = ()
    """Prefixes of the resources that webhooks of the cloud add to pods that join networks; no quota has them."""
    longest_pool_name: tuple[int, str] = LONGEST_POOL_NAME
    """The most characters of a pool's name, and why."""
    reservations_by_zone: bool = False
    """Whether reservations of two zones may have one name."""
    no_gpu_cluster: str | None = None
    """Why the operator's GPUCluster, and so DRA, is not available; None: it is."""
