"""Google Kubernetes Engine as a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.catalog.zones import google_region
from gpu_platform.planning.clouds import daemonsets
from gpu_platform.planning.clouds.controllers import ControllerPods, Room
from gpu_platform.planning.clouds.daemonsets import DaemonSet, on_nodes
from gpu_platform.planning.clouds.gke.buckets import SIDECAR
from gpu_platform.planning.clouds.gke.cluster import StackDemands, check_gke_cluster, plan_gke_cluster
from gpu_platform.planning.clouds.gke.compute_class import CLASS_KEY, check_compute_class, class_taint
from gpu_platform.planning.clouds.gke.create import AUTOSCALING_PROFILE
from gpu_platform.planning.clouds.gke.egress import (
    API_EGRESS,
    api_egress_note,
    check_api_egress,
    check_host_egress,
    pod_egress,
)
from gpu_platform.planning.clouds.gke.identities import GkeIdentities, check_identity, plan_identities
from gpu_platform.planning.clouds.gke.installers import plan_installers
from gpu_platform.planning.clouds.gke.logins import check_members, login_commands, login_notes
from gpu_platform.planning.clouds.gke.node import added_taints
from gpu_platform.planning.clouds.gke.plan import GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.clouds.gke.pools import check_gke_pool, plan_gke_pool
from gpu_platform.planning.clouds.gke.queues import ADDED_RESOURCES, provisioning, topology_levels
from gpu_platform.planning.clouds.gke.software import (
    NVIDIA_DIR,
    check_driver_dir,
    check_software,
    explain_software,
    gke_software,
)
from gpu_platform.planning.clouds.gke.storage import (
    check_gke_storage,
    claim_sizes,
    mount_problem,
    own_classes,
    plan_gke_storage,
)
from gpu_platform.planning.clouds.gke.system_pool import ZONES, nodes_in_zone, size_system_nodes, system_room
from gpu_platform.planning.clouds.gke.window import check_window, recurring_window
from gpu_platform.planning.clouds.identities import bucket_rights, google_account
from gpu_platform.planning.clouds.nodes import nodes_plan, rooms_of_cpu_pools
from gpu_platform.planning.clouds.protocol import Cloud, OperatorSettings
from gpu_platform.planning.clouds.provider_sharing import check_provider_sharing
from gpu_platform.planning.clouds.section import (
    CloudCluster,
    CloudPool,
    GrowingNodes,
    PodEgress,
    Provisioning,
    SchedulerPlan,
)
from gpu_platform.planning.clouds.storage import ClaimSizes, MountProblem, StoragePlan
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.planning.sharing.section import SharingPlan
from gpu_platform.stack.cluster import GkeCluster, Operator
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import DiskStorage, StorageClass
from gpu_platform.stack.team_identity import TeamIdentity


class Gke(Cloud):
    """A GKE cluster: an existing one, or one that the program creates."""

    access = "outputs"
    vendor = "gcp"
    creates_nodes = True
    bucket_sidecar = SIDECAR
    managed_control_plane = True
    reservations_by_zone = True
    added_resources = ADDED_RESOURCES
    longest_pool_name = (
        32,
        "a node pool of GKE has 40, and Pulumi appends 8 so that two can exist at once",
    )
    no_gpu_cluster = "eks, existing or sandbox: the operator has no procedure for its GPUCluster on GKE"

    def __init__(
        self,
        cluster: GkeCluster,
        window: WindowPlan | None = None,
        *,
        storage: Mapping[str, StorageClass] | None = None,
        members: Sequence[str] = (),
        identities: Sequence[str] = (),
        teams: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self._window = window
        self._storage = storage or {}
        self._members = members
        self._identities = identities
        self._teams = teams

    @property
    def cluster(self) -> GkeCluster:
        """The cluster of the stack file."""
        return self._cluster

    @property
    def kubernetes(self) -> str | None:
        """The minor version that the stack file declares."""
        return self._cluster.kubernetes

    @property
    def region(self) -> str:
        """The cluster's region; of a zonal cluster, that of its zone."""
        return google_region(self._cluster.location)

    @property
    def scheduler(self) -> SchedulerPlan:
        """The kube-scheduler of the control plane, whose scores follow from the autoscaling profile."""
        if self._cluster.create is None:
            return super().scheduler
        return SchedulerPlan(scores="most-allocated", why=f"autoscaling profile {AUTOSCALING_PROFILE}")

    @property
    def creates_cluster(self) -> bool:
        """Whether the stack file has `create`."""
        return self._cluster.create is not None

    @property
    def closed_ports(self) -> str | None:
        """Return why the owner of the network must open ports; in a VPC of its own the program does."""
        create = self._cluster.create
        if create is not None and create.network is None:
            return None
        return "the control plane reaches private nodes only at 443 and 10250"

    @property
    def growing_nodes(self) -> GrowingNodes | None:
        """The system nodes of a new cluster, unless their number is fixed."""
        system = self._cluster.create.system if self._cluster.create is not None else None
        if system is None or nodes_in_zone(system.min, system.max) is not None:
            return None
        fixed = -(-system.max // ZONES) * ZONES
        return GrowingNodes(
            what="GKE adds system nodes", setting=f"cluster.create.system: {{min: {fixed}, max: {fixed}}}"
        )

    @property
    def autoscaler_flags(self) -> Literal["program", "owner", "nobody"]:
        """Google runs the autoscaler."""
        return "nobody"

    @property
    def managed_prometheus(self) -> bool:
        """Whether the program creates the cluster, and so switches it on."""
        return self._cluster.create is not None

    def daemonsets(self, pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
        """Return GKE's own, and the installers of driver and GPUDirect that the program adds."""
        assert isinstance(pool.cloud, GkePoolPlan)  # noqa: S101 - its pools are of this cloud
        added = [
            daemonsets.of_pod(one.name, one.pod_spec) for one in plan_installers([(pool, pool.cloud)], catalog)
        ]
        return on_nodes((daemonsets.GKE, *added), operands=pool.software.operands)

    def node_names(self, pool: Pool) -> None:
        """Return None: GKE names the nodes."""

    def nodes(self, pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
        """Return the nodes of a node pool."""
        return nodes_plan(pool, "cloud")

    def software(self, pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
        """Return who installs what on the nodes."""
        return gke_software(pool, operator, catalog)

    def explain_software(self, pool: Pool, software: NodeSoftware, catalog: Catalog) -> str:
        """Return the reason for the owners."""
        return explain_software(pool, software)

    def topology_levels(self, pool: PoolPlan) -> tuple[str, ...]:
        """Return block and sub-block of Compute Engine, where nodes are placed compactly or reserved."""
        return topology_levels(pool)

    def provisioning(self, pool: PoolPlan) -> Provisioning | None:
        """Return how queued provisioning gets the pool its nodes."""
        return provisioning(pool)

    def added_taints(self, pool: Pool, machine: MachineType) -> Mapping[Taint, str]:
        """Return the taints that GKE adds, each with the reason."""
        return added_taints(pool, machine)

    def gpu_labels(self, machine: MachineType, sharing: SharingPlan) -> Mapping[str, str]:
        """Return the labels of GKE on nodes where it runs the device plugin."""
        labels = {names.GKE_ACCELERATOR_LABEL: machine.accelerator_label} if machine.accelerator_label else {}
        if sharing.replicas > 1:
            labels[names.GKE_SHARING_STRATEGY_LABEL] = "time-sharing"
            labels[names.GKE_SHARED_CLIENTS_LABEL] = str(sharing.replicas)
        if sharing.mig_layouts:
            labels[names.GKE_PARTITION_SIZE_LABEL] = next(iter(sharing.mig_layouts[0].layout))
        return labels

    def check_window(self, window: WindowPlan | None, problems: Problems) -> None:
        """Record why GKE cannot have the window as that of the cluster."""
        check_window(window, self._cluster.create, problems)

    def window_note(self, window: WindowPlan) -> str:
        """Return the cluster's recurring window; an existing cluster keeps its own."""
        if self._cluster.create is None:
            return "GKE upgrades an existing cluster in the cluster's own window, which `up` does not set"
        start, end, recurrence = recurring_window(window)
        return f"GKE upgrades in the same window, by UTC: {recurrence} {start:%H:%M} to {end:%H:%M}"

    def check_cluster(
        self, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record what is wrong with the cluster for its pools."""
        check_gke_cluster(self._cluster, pools, catalog, problems)

    def check_software(self, pool: Pool, operator: Operator, catalog: Catalog, problems: Problems) -> None:
        """Record software with two owners, or none."""
        check_software(pool, operator, catalog, problems)

    def check_sharing(
        self, pool: Pool, software: NodeSoftware, machine: MachineType, catalog: Catalog, problems: Problems
    ) -> None:
        """Record sharing that GKE's device plugin cannot do."""
        check_provider_sharing(pool, software.device_plugin, machine, catalog.gpu_of(machine), problems)

    def check_pool(self, pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
        """Record every combination that GKE refuses."""
        check_gke_pool(pool, machine, self._cluster, catalog, problems)

    def check_members(self, members: Sequence[str], problems: Problems) -> None:
        """Record members whose name is no identity of Google Cloud."""
        check_members(members, problems)

    def check_operator(
        self, pools: Sequence[tuple[int, Pool]], operator: Operator, catalog: Catalog, problems: Problems
    ) -> None:
        """Record pools whose drivers are in different directories."""
        check_driver_dir(pools, catalog, problems)

    def own_classes(
        self, storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog
    ) -> Mapping[str, DiskStorage]:
        """Return GKE's classes, and the one for nodes that attach only Hyperdisk."""
        return own_classes(self._cluster, storage, pools, catalog)

    def claim_sizes(self, one: StorageClass) -> ClaimSizes:
        """Return the sizes of instances of Filestore and Managed Lustre."""
        return claim_sizes(one, self._cluster)

    def mount_problem(
        self, one: StorageClass, pool: PoolPlan, pools: Sequence[PoolPlan], catalog: Catalog
    ) -> MountProblem | None:
        """Return why nodes of a pool attach no disks of a class, or run no driver of it."""
        return mount_problem(one, self._cluster, pool, pools, catalog)

    def check_storage(
        self, storage: Mapping[str, StorageClass], pools: Sequence[Pool], catalog: Catalog, problems: Problems
    ) -> None:
        """Record storage classes that GKE or the pools' machines cannot have."""
        check_gke_storage(self._cluster, storage, pools, catalog, problems)

    def check_identity(self, identity: TeamIdentity, problems: Problems) -> None:
        """Record service accounts that pods of a team must not have."""
        check_identity(identity, self._cluster, problems)

    def plan_identities(self, identities: Mapping[str, TeamIdentity]) -> Decided[GkeIdentities | None]:
        """Return the roles of each team's service account, by Workload Identity Federation."""
        rights = {team: self.identity_rights(one) for team, one in identities.items()}
        return plan_identities(identities, self._cluster, rights)

    def identity_rights(self, identity: TeamIdentity) -> tuple[str, ...]:
        """Return rights on buckets, or the existing service account."""
        return (*bucket_rights(identity.buckets, "gs"), *super().identity_rights(identity))

    def account_annotations(self, identity: TeamIdentity) -> Mapping[str, str]:
        """Return the annotation for a service account of Google Cloud; roles on buckets need none."""
        account = identity.google_service_account
        return {} if account is None else google_account(account)

    def login_commands(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the commands of the Google Cloud CLI; a created cluster may be reached by its DNS endpoint."""
        return login_commands(self._cluster)

    def login_notes(self, team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
        """Return warnings about members who cannot log in, and the IAM role that they need."""
        return login_notes(self._cluster, team, members, own_stack=own_stack)

    def class_labels(self, name: str) -> Mapping[str, str]:
        """Return GKE's own label of compute classes."""
        return {CLASS_KEY: name}

    def class_taints(self, name: str) -> tuple[Taint, ...]:
        """Return the taint by which GKE knows the node pools of a class."""
        return (class_taint(name),)

    def check_compute_class(self, compute_class: ComputeClass, pools: Sequence[Pool], problems: Problems) -> None:
        """Record a class that GKE refuses, or whose order means nothing."""
        check_compute_class(compute_class, pools, problems)

    def plan_pool(
        self, pool: Pool, machine: MachineType, requirements: NodeRequirements, catalog: Catalog
    ) -> Decided[CloudPool]:
        """Return the plan of a node pool."""
        return plan_gke_pool(pool, machine, self._cluster, requirements, catalog)

    def plan_cluster(
        self, stack: str, pools: Sequence[PoolPlan], release: OperatorRelease, catalog: Catalog
    ) -> Decided[GkeClusterPlan]:
        """Return the plan of the cluster."""
        return plan_gke_cluster(
            self._cluster,
            stack,
            pools,
            release,
            catalog,
            StackDemands(
                window=self._window,
                storage=self._storage,
                members=self._members,
                identities=self._identities,
                teams=self._teams,
            ),
        )

    def plan_controllers(
        self,
        cluster: CloudCluster | None,
        pools: Sequence[PoolPlan],
        controllers: Sequence[ControllerPods],
        catalog: Catalog,
        problems: Problems,
    ) -> Decided[CloudCluster | None]:
        """Return a new cluster with system nodes that hold the controllers."""
        create = self._cluster.create
        if not isinstance(cluster, GkeClusterPlan) or cluster.create is None or create is None:
            return super().plan_controllers(cluster, pools, controllers, catalog, problems)
        created = size_system_nodes(
            f"cluster {cluster.name}",
            cluster.create,
            create.system.machine_type is not None,
            controllers,
            rooms_of_cpu_pools(pools),
            catalog,
            problems.at("create"),
        )
        return Decided(replace(cluster, create=created.value), created.decisions)

    def system_rooms(self, cluster: CloudCluster | None, catalog: Catalog) -> Sequence[Room] | None:
        """Return the room of the system nodes at their most."""
        if not isinstance(cluster, GkeClusterPlan) or cluster.create is None:
            return None
        return [system_room(cluster.create.system_machine_type, catalog)] * cluster.create.system_nodes[1]

    def plan_storage(
        self,
        storage: Mapping[str, StorageClass],
        stack: str,
        pools: Sequence[PoolPlan],
        kubernetes: str | None,
        catalog: Catalog,
    ) -> Decided[StoragePlan]:
        """Return classes of Google Cloud's disks, Filestore and Managed Lustre."""
        return plan_gke_storage(self._cluster, storage, pools, catalog)

    def pod_egress(self, *, identity: bool) -> tuple[PodEgress, ...]:
        """Return the addresses of GKE's metadata server and of Cloud DNS."""
        return pod_egress(self._cluster, identity=identity)

    def check_host_egress(self, problems: Problems) -> None:
        """Record that policies of the cluster do not name hosts."""
        check_host_egress(self._cluster, problems)

    def check_api_egress(self, problems: Problems) -> None:
        """Record that the created VPC does not resolve Google's APIs to their own addresses."""
        check_api_egress(self._cluster, problems)

    def api_egress(self) -> PodEgress:
        """Return the addresses of private.googleapis.com."""
        return API_EGRESS

    def api_egress_note(self) -> str:
        """Return who resolves the names of Google's APIs to these addresses."""
        return api_egress_note(self._cluster)

    def operator_settings(self, pools: Sequence[PoolPlan]) -> OperatorSettings:
        """Return the operator's settings on GKE's nodes."""
        # The operator supports COS, although it does not install the driver there.
        cos = any(pool.software.operands and pool.software.driver == "installer" for pool in pools)
        why = "the rest of Container-Optimized OS is read-only or not executable"
        decision = Decision(subject="operator", what="host paths", chosen=NVIDIA_DIR, why=why)
        return OperatorSettings(
            reboots_for_mig=True,
            driver_dir=NVIDIA_DIR if cos else None,
            toolkit_dir=NVIDIA_DIR if cos else None,
            # Since GKE 1.33 containerd reports another configuration version than its configuration file needs.
            toolkit_env={"RUNTIME_CONFIG_SOURCE": "file"},
            quota_for_system_priorities=True,
            driver_root=NVIDIA_DIR,
            decisions=(decision,) if cos else (),
        )
