"""Amazon EKS as a provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.planning.clouds import daemonsets
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, controller_pods
from gpu_platform.planning.clouds.daemonsets import DaemonSet, on_nodes
from gpu_platform.planning.clouds.documents import Document
from gpu_platform.planning.clouds.eks.addresses import check_addresses
from gpu_platform.planning.clouds.eks.cluster import check_eks_cluster, partition_of, plan_eks_cluster
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.compute_class import check_compute_class
from gpu_platform.planning.clouds.eks.documents import (
    block_sizes,
    cluster_documents,
    identity_documents,
    pool_documents,
)
from gpu_platform.planning.clouds.eks.identities import EksIdentities, check_identity, plan_identities
from gpu_platform.planning.clouds.eks.images import (
    check_mig,
    check_pinned_image,
    pinned_images,
    release_with_driver,
)
from gpu_platform.planning.clouds.eks.kubernetes import planned_kubernetes
from gpu_platform.planning.clouds.eks.logins import login_commands, login_notes
from gpu_platform.planning.clouds.eks.placement import check_shared_groups
from gpu_platform.planning.clouds.eks.pools import check_eks_pool, plan_eks_pool
from gpu_platform.planning.clouds.eks.software import check_software, eks_software, explain_software
from gpu_platform.planning.clouds.eks.storage import (
    LUSTRE_SIZES,
    EksStorage,
    check_eks_storage,
    own_classes,
    plan_eks_storage,
    volume_keys,
)
from gpu_platform.planning.clouds.eks.system_pool import Demands, size_system_pool
from gpu_platform.planning.clouds.eks.topology import topology_levels
from gpu_platform.planning.clouds.identities import CloudIdentities, bucket_rights
from gpu_platform.planning.clouds.nodes import nodes_plan, rooms_of_cpu_pools
from gpu_platform.planning.clouds.protocol import Cloud, OperatorSettings
from gpu_platform.planning.clouds.provider_sharing import check_provider_sharing
from gpu_platform.planning.clouds.section import CloudCluster, CloudPool, PodEgress, SchedulerPlan
from gpu_platform.planning.clouds.storage import ClaimSizes, StoragePlan
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.nodes.software import NodeSoftware, node_software
from gpu_platform.planning.pools.section import NodesPlan, PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.cluster import EksCluster, Operator
from gpu_platform.stack.compute_class import ComputeClass
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import DiskStorage, LustreStorage, StorageClass
from gpu_platform.stack.team_identity import TeamIdentity


class Eks(Cloud):
    """An EKS cluster: an existing one, or one that the program creates."""

    access = "outputs"
    vendor = "aws"
    creates_nodes = True
    managed_control_plane = True
    # Of pods that a SecurityGroupPolicy selects. Source: EKS docs, "Security groups for Pods"; read 2026-11-29.
    added_resources = ("vpc.amazonaws.com/pod-eni",)

    def __init__(
        self,
        cluster: EksCluster,
        storage: Mapping[str, StorageClass] | None = None,
        identities: Sequence[str] = (),
        pools: Sequence[Pool] = (),
    ) -> None:
        self._cluster = cluster
        self._storage = storage or {}
        self._identities = identities
        self._pools = pools

    @property
    def cluster(self) -> EksCluster:
        """The cluster of the stack file."""
        return self._cluster

    @property
    def kubernetes(self) -> str | None:
        """The minor version that the stack file declares."""
        return self._cluster.kubernetes

    @property
    def region(self) -> str:
        """The cluster's region."""
        return self._cluster.region

    @property
    def scheduler(self) -> SchedulerPlan:
        """The kube-scheduler of the control plane, whose scores a new cluster may set."""
        create = self._cluster.create
        if create is None:
            return super().scheduler
        packs = create.scheduling == "pack"
        return SchedulerPlan(
            scores="most-allocated" if packs else "default", why=f"cluster.create.scheduling: {create.scheduling}"
        )

    @property
    def creates_cluster(self) -> bool:
        """Whether the stack file has `create`."""
        return self._cluster.create is not None

    @property
    def autoscaler_flags(self) -> Literal["program", "owner", "nobody"]:
        """Return whose the Cluster Autoscaler is."""
        return "program" if self._cluster.parts.cluster_autoscaler == "install" else "owner"

    @property
    def closed_ports(self) -> str | None:
        """Return why the owner of nodes with a security group of their own must open ports."""
        if not self._cluster.security_groups:
            return None
        return f"the existing nodes have {', '.join(self._cluster.security_groups)}, not the cluster's own group"

    @property
    def chooses_kubernetes(self) -> bool:
        """Whether planning chooses the newest version that EKS and the operator support."""
        return self._cluster.create is not None

    def window_note(self, window: WindowPlan) -> str:
        """Return that EKS has no window: it replaces managed nodes only where a node group is updated."""
        return (
            "EKS has no maintenance window: it replaces nodes of a node group when `up` changes it; repairs, and "
            "what Karpenter replaces, are at any time"
        )

    def node_names(self, pool: Pool) -> None:
        """Return None: EC2 names the nodes."""

    def nodes(self, pool: Pool, named: tuple[str, ...] | None) -> NodesPlan:
        """Return the nodes of a node group or of Karpenter."""
        return nodes_plan(pool, "cloud")

    def software(self, pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
        """Return who installs what on the nodes."""
        return eks_software(pool, operator, catalog)

    def daemonsets(self, pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
        """Return the add-ons, the drivers of the storage classes, and what gives pods EFA interfaces."""
        volumes = (of_nodes for of_nodes, _ in self._volume_drivers())
        fabric = [daemonsets.EFA_PLUGIN] if pool.cloud_nodes.nic_resources else []
        fabric += [daemonsets.DRANET] if pool.cloud_nodes.nic_devices is not None else []
        return on_nodes((*daemonsets.EKS, *volumes, *fabric), operands=pool.software.operands)

    def _volume_drivers(self) -> tuple[tuple[DaemonSet, str], ...]:
        """Return the DaemonSet and the add-on of each driver of volumes beyond EBS that storage classes need."""
        systems = [getattr(entry, "system", entry.type) for entry in self._storage.values()]
        drivers = daemonsets.EKS_VOLUMES
        return tuple(dict.fromkeys(drivers[system] for system in systems if system in drivers))

    def topology_levels(self, pool: PoolPlan) -> tuple[str, ...]:
        """Return the network layers of EC2, where it has them for the machine type."""
        return topology_levels(pool.machine_type, pool.workload)

    def explain_software(self, pool: Pool, software: NodeSoftware, catalog: Catalog) -> str:
        """Return the reason for the owners."""
        return explain_software(pool, software)

    def check_cluster(
        self, pools: Sequence[Pool], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record what is wrong with the cluster for its pools."""
        check_eks_cluster(self._cluster, pools, operator, catalog, problems)

    def check_software(self, pool: Pool, operator: Operator, catalog: Catalog, problems: Problems) -> None:
        """Record software with two owners, or none."""
        software = node_software(pool, self, operator, catalog)
        check_software(pool, software, operator, catalog, problems)

    def check_sharing(
        self, pool: Pool, software: NodeSoftware, machine: MachineType, catalog: Catalog, problems: Problems
    ) -> None:
        """Record sharing that Bottlerocket's device plugin or the driver of EKS' images cannot do."""
        check_mig(pool, catalog.aws_family(machine), problems)
        check_provider_sharing(pool, software.device_plugin, machine, catalog.gpu_of(machine), problems)

    def check_pool(self, pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
        """Record every combination that EKS refuses."""
        check_eks_pool(pool, machine, self._cluster, catalog, problems)

    def check_together(
        self, pools: Sequence[tuple[int, Pool]], operator: Operator | None, catalog: Catalog, problems: Problems
    ) -> None:
        """Record placement groups that pools cannot share, and images of another Kubernetes version."""
        check_shared_groups(pools, self._cluster, catalog, problems)
        release = catalog.operator_releases.get(operator.release) if operator is not None else None
        kubernetes = planned_kubernetes(self._cluster, release, catalog)
        if kubernetes is not None:
            why = "which cluster.kubernetes sets"
            if self._cluster.kubernetes is None:
                why = "the newest, because cluster.kubernetes is not set"
            for image in pinned_images(self._cluster, pools, catalog):
                check_pinned_image(image, kubernetes, why, problems)

    def release_with_driver(self, pool: Pool, catalog: Catalog) -> str | None:
        """Return the first release of the pool's image that has a second driver, for its machine type."""
        return release_with_driver(pool, catalog)

    def own_classes(
        self, storage: Mapping[str, StorageClass], pools: Sequence[PoolPlan], catalog: Catalog
    ) -> Mapping[str, DiskStorage]:
        """Return the default class of a created cluster."""
        del pools, catalog
        return own_classes(self._cluster, storage)

    def claim_sizes(self, one: StorageClass) -> ClaimSizes:
        """Return the sizes of FSx for Lustre file systems."""
        return LUSTRE_SIZES if isinstance(one, LustreStorage) else ClaimSizes()

    def check_storage(
        self, storage: Mapping[str, StorageClass], pools: Sequence[Pool], catalog: Catalog, problems: Problems
    ) -> None:
        """Record storage classes that EKS or the cluster's network cannot have."""
        check_eks_storage(self._cluster, storage, pools, problems)

    def check_identity(self, identity: TeamIdentity, problems: Problems) -> None:
        """Record buckets that S3 cannot have, and roles that the cluster cannot use."""
        check_identity(identity, self._cluster, partition_of(self._cluster.region), problems)

    def plan_identities(self, identities: Mapping[str, TeamIdentity]) -> Decided[EksIdentities | None]:
        """Return the IAM role of each team, for one service account by EKS Pod Identity."""
        rights = {team: self.identity_rights(one) for team, one in identities.items()}
        return plan_identities(identities, self._cluster, partition_of(self._cluster.region), rights)

    def identity_rights(self, identity: TeamIdentity) -> tuple[str, ...]:
        """Return rights on buckets, or the existing role."""
        return (*bucket_rights(identity.buckets, "s3"), *super().identity_rights(identity))

    def check_compute_class(self, compute_class: ComputeClass, pools: Sequence[Pool], problems: Problems) -> None:
        """Record a class whose order nothing would keep."""
        check_compute_class(self._cluster, pools, problems)

    def plan_pool(
        self, pool: Pool, machine: MachineType, requirements: NodeRequirements, catalog: Catalog
    ) -> Decided[CloudPool]:
        """Return the plan of a node group, or of Karpenter's objects."""
        return plan_eks_pool(pool, machine, self._cluster, requirements, catalog, self._pools)

    def plan_cluster(
        self, stack: str, pools: Sequence[PoolPlan], release: OperatorRelease, catalog: Catalog
    ) -> Decided[EksClusterPlan]:
        """Return the plan of the cluster."""
        keys = volume_keys(self._storage)
        every = tuple(key for one in self._storage.values() if (key := getattr(one, "kms_key", None)) is not None)
        images = tuple(pinned_images(self._cluster, tuple(enumerate(self._pools)), catalog))
        return plan_eks_cluster(
            self._cluster, stack, pools, release, catalog, keys, self._identities, every, images
        )

    def plan_controllers(
        self,
        cluster: CloudCluster | None,
        pools: Sequence[PoolPlan],
        controllers: Sequence[ControllerPods],
        catalog: Catalog,
        problems: Problems,
    ) -> Decided[CloudCluster | None]:
        """Return a new cluster with system nodes that hold the controllers, and compare its VPC with all nodes."""
        if not isinstance(cluster, EksClusterPlan):
            return Decided(cluster)
        own = [addon for _, addon in self._volume_drivers()]
        if cluster.create is not None:
            own += [addon.name for addon in cluster.create.addons]
        controllers = (*(pods for name in own for pods in controller_pods(name, catalog)), *controllers)
        if cluster.create is None:
            return super().plan_controllers(cluster, pools, controllers, catalog, problems)
        demands = self._demands(controllers, rooms_of_cpu_pools(pools), catalog)
        system = size_system_pool(self._cluster, cluster.create.system_pool, demands, self._pools, problems)
        created = replace(cluster.create, system_pool=system.value)
        sized = replace(cluster, create=created)
        warnings = check_addresses(sized, pools, catalog, problems.at("create"))
        return Decided(sized, (*system.decisions, *warnings))

    def _demands(self, controllers: Sequence[ControllerPods], others: Sequence[Room], catalog: Catalog) -> Demands:
        drivers = [of_nodes for of_nodes, _ in self._volume_drivers()]
        on_each = on_nodes((*daemonsets.EKS, *drivers, daemonsets.DISCOVERY), operands=False)
        return Demands(controllers=controllers, on_nodes=on_each, others=others, catalog=catalog)

    def system_rooms(self, cluster: CloudCluster | None, catalog: Catalog) -> Sequence[Room] | None:
        """Return the room of the node group `system` at its largest, where its machine types are known."""
        if not isinstance(cluster, EksClusterPlan) or cluster.create is None:
            return None
        pool = cluster.create.system_pool
        room = self._demands((), (), catalog).room(pool.instance_types)
        return None if room is None else [room] * pool.max_size

    def documents(
        self,
        cluster: CloudCluster | None,
        pools: Sequence[PoolPlan],
        storage: StoragePlan,
        identities: CloudIdentities | None,
    ) -> Iterator[Document]:
        """Yield IAM policies, user data, tags, and the instances of capacity blocks."""
        assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
        of_cluster = cluster.create.addons if cluster.create is not None else ()
        of_storage = storage.cloud.drivers if isinstance(storage.cloud, EksStorage) else ()
        yield from cluster_documents(cluster, (*of_cluster, *of_storage))
        yield from pool_documents(pools, cluster)
        yield from block_sizes(pools)
        if isinstance(identities, EksIdentities):
            yield from identity_documents(identities, self._identities)

    def plan_storage(
        self,
        storage: Mapping[str, StorageClass],
        stack: str,
        pools: Sequence[PoolPlan],
        kubernetes: str | None,
        catalog: Catalog,
    ) -> Decided[StoragePlan]:
        """Return classes of EBS, EFS and FSx, with their drivers and file systems."""
        zones = sorted({zone for pool in pools for zone in pool.cloud_nodes.zones})
        return plan_eks_storage(self._cluster, storage, stack, zones, kubernetes, catalog)

    def login_commands(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the command of the AWS CLI, with each role that has a group or user name of the members."""
        return login_commands(self._cluster, members)

    def login_notes(self, team: str, members: Sequence[str], *, own_stack: bool) -> tuple[Decision, ...]:
        """Return a warning about members that have neither a login nor an OIDC provider."""
        return login_notes(self._cluster, team, members)

    @property
    def isolates_bare_pods(self) -> bool:
        """False: AWS promises network policies of the VPC CNI for pods with an owner alone.

        An existing cluster may have another network plugin, which the stack file does not name. Source: EKS user
        guide, "Limit Pod traffic with Kubernetes network policies", considerations; read 2026-11-26.
        """
        return False

    def pod_egress(self, *, identity: bool) -> tuple[PodEgress, ...]:
        """Return the addresses of the EKS Pod Identity agent: an existing cluster may have IPv6.

        Sources: EKS user guide, "Set up the Amazon EKS Pod Identity Agent": it listens at 169.254.170.23 and
        fd00:ec2::23 on each node; "Limit Pod traffic with Kubernetes network policies": rules of the other family
        are ignored; read 2026-11-26.
        """
        ports = ((80, "TCP"),)
        four = PodEgress(name="identity", cidr="169.254.170.23/32", ports=ports)
        if self._cluster.create is not None:
            return (four,)
        return (four, PodEgress(name="identity-ipv6", cidr="fd00:ec2::23/128", ports=ports))

    def operator_settings(self, pools: Sequence[PoolPlan]) -> OperatorSettings:
        """Return the operator's settings on virtual machines."""
        return OperatorSettings(reboots_for_mig=True)
