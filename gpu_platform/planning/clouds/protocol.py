"""Protocol of a provider: every question that planning asks of a cloud.

A provider is one class in `clouds/<provider>/`, listed in `clouds/registry.py`. It is bound to the `cluster` of a
stack file. The default methods of the protocol are for a provider that does not create nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, largest, requests_text
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


class Cloud(Protocol):
    """A provider of clusters, bound to the `cluster` of a stack file."""

    access: Access
    vendor: str | None = None
    """Vendor of the machine types of its pools, by the name in the catalogue; None: any."""
    creates_nodes: bool = False
    """Whether the program creates nodes from the cloud's images."""
    bucket_sidecar: VolumeSidecar | None = None
    """What reads buckets in the pods that mount them; None: their nodes do."""
    sets_kubelet: bool = True
    """Whether the program decides how kubelets are configured."""
    owner_prepares_nodes: bool = False
    """Whether the owner of the nodes installs driver, toolkit and runtime settings."""
    managed_control_plane: bool = False
    """Whether the provider runs the control plane, and Prometheus cannot read its components."""
    installs_charts: bool = True
    """Whether the program installs Helm charts on its clusters."""
    has_identities: bool = True
    """Whether pods of a team can have an identity of the cloud."""
    runs_kueue: bool = False
    """Whether Kueue's program runs beside the cluster instead of by its chart."""
    added_resources: tuple[str, ...] = ()
    """Prefixes of the resources that webhooks of the cloud add to pods that join networks; no quota has them."""
    longest_pool_name: tuple[int, str] = (40, "nodes are named after it")
    """The most characters of a pool's name, and why: <pool>-<number> is also the hostname label, of at most 63."""
    reservations_by_zone: bool = False
    """Whether reservations of two zones may have one name."""
    no_gpu_cluster: str | None = None
    """Why the operator's GPUCluster, and so DRA, is not available; None: it is."""

    @property
    def scheduler(self) -> SchedulerPlan:
        """The kube-scheduler of the cluster: its owner's, which the program does not read."""
        return SchedulerPlan(scores="default", why="assumed: the owner of the cluster sets up its scheduler")

    @property
    def cluster(self) -> Cluster:
        """The cluster of the stack file."""
        ...

    @property
    def kubernetes(self) -> str | None:
        """The Kubernetes minor version where it is known before a deploy."""
        ...

    @property
    def region(self) -> str | None:
        """The cluster's region, whose prices apply; None: the stack file names none."""
        return None

    @property
    def creates_cluster(self) -> bool:
        """Whether the program creates the cluster."""
        return False

    @property
    def isolates_bare_pods(self) -> bool:
        """Whether network policies hold for pods without a controller, too, as far as the cloud decides it."""
        return True

    @property
    def managed_prometheus(self) -> bool:
        """Whether the program creates the cluster with Google's managed Prometheus (PodMonitoring objects)."""
        return False

    @property
    def autoscaler_flags(self) -> Literal["program", "owner", "nobody"]:
        """Who sets the flags of the Cluster Autoscaler that changes the number of nodes."""
        return "owner"

    @property
    def closed_ports(self) -> str | None:
        """Why the control plane reaches webhooks at the ports 443 and 10250 only; None: it reaches all ports."""
        return None

    @property
    def growing_nodes(self) -> GrowingNodes | None:
        """Nodes that an autoscaler adds beside those of pools, or None."""
        return None

    @property
    def chooses_kubernetes(self) -> bool:
        """Whether planning chooses a Kubernetes version where the stack file names none."""
        return False

    # -- nodes --

    def node_names(self, pool: Pool) -> tuple[str, ...] | None:
        """Return the names of the pool's nodes where they are known before a deploy."""
        ...

    def nodes(self, pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
        """Return which nodes the pool has; `named`: nodes that the stack file names for this part of the pool."""
        ...

    def software(self, pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
        """Return who installs driver, toolkit and device plugin on the pool's nodes."""
        ...

    def explain_software(self, pool: Pool, software: NodeSoftware, catalog: Catalog) -> str | None:
        """Return the reason for these owners; None where `operator` in the stack file decides alone."""
        return None

    def added_taints(self, pool: Pool, machine: MachineType) -> Mapping[Taint, str]:
        """Return the taints that the cloud adds to those of the pool, each with the reason."""
        return {}

    def daemonsets(self, pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
        """Return the DaemonSets on the nodes of a pool that is planned but for them.

        Those of nodes that others set up are not known: the most that the machine type's own cloud has.
        """
        return most_of(catalog.machine_types[pool.machine_type])

    def class_labels(self, name: str) -> Mapping[str, str]:
        """Return the node labels by which pods select compute class `name`."""
        return {names.COMPUTE_CLASS_LABEL: name}

    def class_taints(self, name: str) -> tuple[Taint, ...]:
        """Return the taints that nodes of compute class `name` need."""
        return ()

    def gpu_labels(self, machine: MachineType, sharing: SharingPlan) -> Mapping[str, str]:
        """Return the node labels of the cloud's own device plugin."""
        return {}

    def window_note(self, window: WindowPlan) -> str:
        """Return what the window of `changes` means for changes that the cloud makes by itself."""
        return "nothing but `up` begins a change of the nodes"

    def topology_levels(self, pool: PoolPlan) -> tuple[str, ...]:
        """Return the labels of nodes with their position in the network topology, the widest level first.

        Each but the last holds several nodes; the last is the node.
        """
        return (names.HOSTNAME_LABEL,)

    def provisioning(self, pool: PoolPlan) -> Provisioning | None:
        """Return the ProvisioningRequests by which the pool gets its nodes; None: it gets them otherwise."""
        return None

    # -- checks: each records problems --

    def check_window(self, window: WindowPlan | None, problems: Problems) -> None:
        """Record why the cloud cannot have the window of `changes`; `problems` is at the file's root."""

    def check_cluster(
        self, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record what is wrong with the cluster for its pools; `problems` is at `cluster`."""

    def check_nodes(self, pool: Pool, problems: Problems) -> None:
        """Record what is wrong with the pool's `nodes`, whatever its machine type; `problems` is at the pool."""

    def check_software(self, pool: Pool, operator: Operator, catalog: Catalog, problems: Problems) -> None:
        """Record software with two owners, or none; the machine type is one of `vendor`."""

    def check_sharing(
        self, pool: Pool, software: NodeSoftware, machine: MachineType, catalog: Catalog, problems: Problems
    ) -> None:
        """Record sharing that the nodes' device plugin cannot do; `problems` is at the sharing."""

    def check_pool(self, pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
        """Record every combination that the cloud refuses; the machine type is one of `vendor`."""

    def check_together(
        self, pools: Sequence[tuple[int, Pool]], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record what pools cannot have beside each other, or on the Kubernetes version of a new cluster.

        `pools`: index in the file, pool; `problems` is at the file's root.
        """

    def release_with_driver(self, pool: Pool, catalog: Catalog) -> str | None:
        """Return the first image release with a driver for the machine type, as text, or None."""
        return None

    def check_compute_class(self, compute_class: ComputeClass, pools: Sequence[Pool], problems: Problems) -> None:
        """Record why the cloud cannot keep the order of these pools; `problems` is at the class."""

    def check_members(self, members: Sequence[str], problems: Problems) -> None:
        """Record members of a team that the cloud cannot authenticate; `problems` is at the team's `members`."""

    def check_operator(
        self, pools: Sequence[tuple[int, Pool]], operator: Operator, catalog: Catalog, problems: Problems
    ) -> None:
        """Record pools that one operator cannot serve together; `problems` is at the file's root."""

    def own_classes(
        self, storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog
    ) -> Mapping[str, DiskStorage]:
        """Return the classes that a cluster has undeclared: the cloud's, and those that the program adds."""
        return {}

    def claim_sizes(self, one: StorageClass) -> ClaimSizes:
        """Return the sizes of the volumes that the cloud makes for a class."""
        return ClaimSizes()

    def mount_problem(
        self, one: StorageClass, pool: PoolPlan, pools: Sequence[PoolPlan], catalog: Catalog
    ) -> MountProblem | None:
        """Return why nodes of a pool cannot mount volumes of an entry, as far as is known, or None."""
        return None

    def check_storage(
        self, storage: Mapping[str, StorageClass], pools: Sequence[Pool], catalog: Catalog, problems: Problems
    ) -> None:
        """Record storage classes that the cloud or the pools' machines cannot have; `problems` is at `storage`."""

    @property
    def host_policy(self) -> HostPolicy | None:
        """The kind of network policies that name hosts, where there are any; None: there are none."""
        return "FQDNNetworkPolicy"

    def check_host_egress(self, problems: Problems) -> None:
        """Record why pods cannot be let reach hosts by name; `problems` is at the name."""

    def check_api_egress(self, problems: Problems) -> None:
        """Record why pods cannot be let reach the cloud's APIs alone; `problems` is at the entry of `egress`."""
        problems.add(
            f"cloud-apis on provider {self.cluster.provider}",
            "cloud-apis only on GKE: Google's APIs have addresses of their own, elsewhere they have none",
            "write internet, or as cidr the network of the VPC's endpoints",
        )

    def check_identity(self, identity: TeamIdentity, problems: Problems) -> None:
        """Record what of a team's identity the cloud cannot have; `problems` is at the team's `identity`."""

    # -- plans --

    def login_commands(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the commands by which members get a kubeconfig; empty: the cluster's owner gives it to them."""
        return ()

    def login_notes(self, team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
        """Return warnings about members of a team who cannot log in, and what they need.

        `own_stack`: the team has a stack of its own.
        """
        return ()

    def plan_pool(
        self, pool: Pool, machine: MachineType, requirements: NodeRequirements, catalog: Catalog
    ) -> Decided[CloudPool]:
        """Return how the cloud creates the pool's nodes, if it does."""
        return Decided(CloudPool())

    def plan_autoscaler(
        self, pool: Pool, machine: MachineType, requirements: NodeRequirements
    ) -> Decided[AutoscalerPlan | None]:
        """Return what adds nodes to those that the program creates for the pool; None: nothing does."""
        return Decided(None)

    def plan_cluster(
        self, stack: str, pools: Sequence[PoolPlan], release: OperatorRelease, catalog: Catalog
    ) -> Decided[CloudCluster | None]:
        """Return the cloud's part of the cluster, for pools that are planned."""
        return Decided(None)

    def plan_controllers(
        self,
        cluster: CloudCluster | None,
        pools: Sequence[PoolPlan],
        controllers: Sequence[ControllerPods],
        catalog: Catalog,
        problems: Problems,
    ) -> Decided[CloudCluster | None]:
        """Return a planned cluster with nodes that hold the controllers, or record why they do not.

        `controllers`: pods of what the program installs on every cloud; `problems` is at `cluster`.
        """
        if not controllers or not self.installs_charts or self.creates_cluster:
            return Decided(cluster)
        decision = Decision(
            subject=f"cluster {self.cluster.name}",
            what="room for controllers",
            chosen=f"{requests_text(controllers)} on nodes without GPUs",
            why=f"the most {largest(controllers)}: the program adds no nodes for them to an existing cluster",
        )
        return Decided(cluster, (decision,))

    def system_rooms(self, cluster: CloudCluster | None, catalog: Catalog) -> Sequence[Room] | None:
        """Return the room of all system nodes; None: the cluster has nodes that the stack file does not name."""
        del cluster, catalog
        return None

    def documents(
        self,
        cluster: CloudCluster | None,
        pools: Sequence[PoolPlan],
        storage: StoragePlan,
        identities: CloudIdentities | None,
    ) -> Iterable[Document]:
        """Return the cloud's documents that grow with the stack file."""
        return ()

    def plan_storage(
        self,
        storage: Mapping[str, StorageClass],
        stack: str,
        pools: Sequence[PoolPlan],
        kubernetes: str | None,
        catalog: Catalog,
    ) -> Decided[StoragePlan]:
        """Return the storage classes, with the resources of the cloud that they need; `kubernetes`: as planned."""
        return Decided(StoragePlan())

    def plan_identities(self, identities: Mapping[str, TeamIdentity]) -> Decided[CloudIdentities | None]:
        """Return the resources of the cloud for the identities of teams, by team; None: it needs none."""
        return Decided(None)

    def identity_rights(self, identity: TeamIdentity) -> tuple[str, ...]:
        """Return what pods with the identity may use, as text."""
        return tuple(f"use {one}" for one in (identity.role_arn, identity.google_service_account) if one)

    def account_annotations(self, identity: TeamIdentity) -> Mapping[str, str]:
        """Return the annotations of the service account that pods get the identity by."""
        return {}

    def pod_egress(self, *, identity: bool) -> tuple[PodEgress, ...]:
        """Return the addresses that identity and DNS of pods need; `identity`: whether the team has one."""
        return ()

    def api_egress(self) -> PodEgress | None:
        """Return the addresses of the cloud's APIs; None: they have none of their own."""
        return None

    def api_egress_note(self) -> str:
        """Return what the addresses of `api_egress` need to be used."""
        return ""

    def operator_settings(self, pools: Sequence[PoolPlan]) -> OperatorSettings:
        """Return what the operator's values need on these nodes."""
        return OperatorSettings()
