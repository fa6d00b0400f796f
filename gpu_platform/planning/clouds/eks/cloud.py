"""Amazon EKS as a cloud provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.planning.clouds.controllers import ControllerPods, Room, controller_pods, on_existing_nodes
from gpu_platform.planning.clouds.daemonsets import DISCOVERY, DaemonSet, named, on_nodes, own_of
from gpu_platform.planning.clouds.documents import Document
from gpu_platform.planning.clouds.eks.addresses import check_addresses
from gpu_platform.planning.clouds.eks.cloud_nodes import surge_nodes
from gpu_platform.planning.clouds.eks.cluster import check_eks_cluster, partition_of, plan_eks_cluster
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.cluster_settings import cluster_settings
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
from gpu_platform.planning.clouds.eks.prerequisites import eks_prerequisites
from gpu_platform.planning.clouds.eks.properties import pool_properties
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
from gpu_platform.planning.clouds.protocol import (
    ASSUMED_SCHEDULER,
    Cloud,
    CloudClasses,
    CloudControlPlane,
    CloudLogins,
    CloudNetwork,
    CloudPools,
    CloudSoftware,
    CloudStorage,
    CloudTeamIdentities,
    OperatorSettings,
    existing_rights,
)
from gpu_platform.planning.clouds.provider_sharing import check_provider_sharing
from gpu_platform.planning.clouds.section import CloudCluster, PodEgress, SchedulerPlan
from gpu_platform.planning.clouds.storage import ClaimSizes, StoragePlan
from gpu_platform.planning.decision import Decided
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateEks, EksCluster, Operator
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import LustreStorage, StorageClass
from gpu_platform.stack.team_identity import TeamIdentity


def eks(
    cluster: EksCluster,
    storage: Mapping[str, StorageClass] | None = None,
    identities: Sequence[str] = (),
    pools: Sequence[Pool] = (),
) -> Cloud:
    """Return the cloud provider EKS for an existing cluster, or for a cluster that the program creates.

    `storage` contains the declared storage classes. `identities` names the teams that have a cloud identity.
    `pools` contains all pools of the stack.
    """
    create, classes = cluster.create, storage or {}
    drivers, partition = _volume_drivers(classes), partition_of(cluster.region)
    return Cloud(
        cluster=cluster,
        access="outputs",
        kubernetes=cluster.kubernetes,
        region=cluster.region,
        vendor="aws",
        creates_nodes=True,
        creates_cluster=create is not None,
        chooses_kubernetes=create is not None,
        managed_control_plane=True,
        autoscaler_flags="program" if cluster.parts.cluster_autoscaler == "install" else "owner",
        # EKS adds the resource vpc.amazonaws.com/pod-eni to pods that a SecurityGroupPolicy selects.
        # Source: EKS docs, "Security groups for Pods"; read 2026-11-29.
        added_resources=("vpc.amazonaws.com/pod-eni",),
        scheduler=ASSUMED_SCHEDULER if create is None else _scheduler(create),
        pools=CloudPools(
            nodes=lambda pool, named: nodes_plan(pool, "cloud"),
            plan=lambda pool, machine, needs, catalog: plan_eks_pool(
                pool, machine, cluster, needs, catalog, pools
            ),
            daemonsets=partial(_daemonsets, drivers),
            topology_levels=lambda pool: topology_levels(pool.machine_type, pool.workload),
            surge_nodes=surge_nodes,
            properties=pool_properties,
            check=lambda pool, machine, catalog, problems: check_eks_pool(
                pool, machine, cluster, catalog, problems
            ),
            check_together=partial(_check_together, cluster),
        ),
        classes=CloudClasses(check=lambda _, pools, problems: check_compute_class(cluster, pools, problems)),
        software=CloudSoftware(
            owners=eks_software,
            explain=explain_software,
            # The nodes are virtual machines, which must reboot to change the MIG mode.
            operator_settings=lambda pools: OperatorSettings(reboots_for_mig=True),
            release_with_driver=release_with_driver,
            check=check_software,
            check_sharing=_check_sharing,
        ),
        control_plane=CloudControlPlane(
            plan=partial(_plan_cluster, cluster, classes, identities, pools),
            plan_controllers=partial(_plan_controllers, cluster, drivers, pools),
            system_rooms=partial(_system_rooms, drivers),
            documents=partial(_documents, identities),
            settings=cluster_settings,
            prerequisites=eks_prerequisites,
            window_note=lambda window: (
                "EKS has no maintenance window: it replaces nodes of a node group when `up` changes the group; "
                "repairs and replacements by Karpenter happen at any time"
            ),
            check=partial(check_eks_cluster, cluster),
        ),
        logins=CloudLogins(
            commands=partial(login_commands, cluster),
            notes=lambda team, members, *, own_stack: login_notes(cluster, team, members),
        ),
        identities=CloudTeamIdentities(
            plan=lambda teams: plan_identities(
                teams, cluster, partition, {team: _rights(one) for team, one in teams.items()}
            ),
            rights=_rights,
            check=lambda identity, problems: check_identity(identity, cluster, partition, problems),
        ),
        network=CloudNetwork(
            # AWS supports network policies of the VPC CNI only for pods that have an owner reference.
            # An existing cluster may use another network plugin, which the stack file does not name.
            # Source: EKS user guide, "Limit Pod traffic with Kubernetes network policies"; read 2026-11-26.
            isolates_bare_pods=False,
            closed_ports=_closed_ports(cluster.security_groups),
            pod_egress=_POD_EGRESS[: 1 if create is not None else 2],
            identity_egress=_POD_EGRESS[: 1 if create is not None else 2],
        ),
        storage=CloudStorage(
            own_classes=lambda declared, pools, catalog: own_classes(cluster, declared),
            claim_sizes=lambda one: LUSTRE_SIZES if isinstance(one, LustreStorage) else ClaimSizes(),
            check=lambda declared, pools, catalog, problems: check_eks_storage(cluster, declared, pools, problems),
            plan=partial(_plan_storage, cluster),
        ),
    )


# The addresses of the EKS Pod Identity agent on each node.
# The IPv6 address is needed as well, because an existing cluster may use IPv6.
# Network policies ignore rules of the address family that the cluster does not use.
# Source: EKS user guide, "Set up the Amazon EKS Pod Identity Agent"; read 2026-11-26.
# Source: EKS user guide, "Limit Pod traffic with Kubernetes network policies"; read 2026-11-26.
_POD_EGRESS: Final = (
    PodEgress(name="identity", cidr="169.254.170.23/32", ports=((80, "TCP"),)),
    PodEgress(name="identity-ipv6", cidr="fd00:ec2::23/128", ports=((80, "TCP"),)),
)
_VolumeDrivers = tuple[tuple[str, str], ...]
"""The DaemonSet and the add-on of each volume driver that storage classes need, except the EBS driver."""
_OF_VOLUMES: Final[Mapping[str, tuple[str, str]]] = {
    "nfs": ("efs-csi-node", "aws-efs-csi-driver"),
    "efs": ("efs-csi-node", "aws-efs-csi-driver"),
    "lustre": ("fsx-csi-node", "aws-fsx-csi-driver"),
    "fsx-lustre": ("fsx-csi-node", "aws-fsx-csi-driver"),
    "bucket": ("s3-csi-node", "aws-mountpoint-s3-csi-driver"),
}
"""DaemonSet and EKS add-on of a volume driver, by `type` of a storage entry or `system` of existing storage."""


def _scheduler(create: CreateEks) -> SchedulerPlan:
    """Return the kube-scheduler settings of a new control plane. The stack file can choose how kube-scheduler
    scores nodes.
    """
    packs = create.scheduling == "pack"
    return SchedulerPlan(
        scores="most-allocated" if packs else "default", why=f"cluster.create.scheduling: {create.scheduling}"
    )


def _closed_ports(groups: Sequence[str]) -> str | None:
    """Return why the owner must open ports on existing nodes, or None if they use the cluster's own security
    group.
    """
    return f"the existing nodes have {', '.join(groups)}, not the cluster's own group" if groups else None


def _volume_drivers(storage: Mapping[str, StorageClass]) -> _VolumeDrivers:
    systems = [getattr(entry, "system", entry.type) for entry in storage.values()]
    return tuple(dict.fromkeys(_OF_VOLUMES[system] for system in systems if system in _OF_VOLUMES))


def _daemonsets(drivers: _VolumeDrivers, pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
    """Return the DaemonSets on the nodes of a pool. They belong to add-ons, to drivers for storage classes, and to
    the EFA device plugin or DRA driver.
    """
    volumes = (named(of_nodes, catalog) for of_nodes, _ in drivers)
    fabric = [named("EFA device plugin", catalog)] if pool.cloud_nodes.nic_resources else []
    fabric += [named("EFA DRA driver", catalog)] if pool.cloud_nodes.nic_devices is not None else []
    return on_nodes((*own_of("aws", catalog), *volumes, *fabric), operands=pool.software.operands)


def _check_together(
    cluster: EksCluster,
    pools: Sequence[tuple[int, Pool]],
    operator: Operator | None,
    catalog: Catalog,
    problems: Problems,
) -> None:
    """Record problems with placement groups that pools cannot share, and with images for other Kubernetes
    versions.
    """
    check_shared_groups(pools, cluster, catalog, problems)
    release = catalog.operator_releases.get(operator.release) if operator is not None else None
    kubernetes = planned_kubernetes(cluster, release, catalog)
    if kubernetes is not None:
        why = "which cluster.kubernetes sets"
        if cluster.kubernetes is None:
            why = "the newest, because cluster.kubernetes is not set"
        for image in pinned_images(cluster, pools, catalog):
            check_pinned_image(image, kubernetes, why, problems)


def _check_sharing(
    pool: Pool, software: NodeSoftware, machine: MachineType, catalog: Catalog, problems: Problems
) -> None:
    """Record problems for GPU sharing that Bottlerocket's device plugin, or the driver in EKS images, does not
    support.
    """
    check_mig(pool, catalog.aws_family(machine), problems)
    check_provider_sharing(pool, software.device_plugin, machine, catalog.gpu_of(machine), problems)


def _rights(identity: TeamIdentity) -> tuple[str, ...]:
    """Return a team's permissions as text: access to buckets, or the use of an existing role."""
    places = ((f"s3://{one.name}/{one.directory}", one.writable) for one in identity.buckets)
    return (*bucket_rights(places), *existing_rights(identity))


def _plan_cluster(
    cluster: EksCluster,
    storage: Mapping[str, StorageClass],
    identities: Sequence[str],
    declared_pools: Sequence[Pool],
    stack: str,
    pools: Sequence[PoolPlan],
    release: OperatorRelease,
    catalog: Catalog,
) -> Decided[EksClusterPlan]:
    """Return the cluster's plan, including the KMS keys of its storage classes and the image releases that the
    stack file specifies.
    """
    every = tuple(key for one in storage.values() if (key := getattr(one, "kms_key", None)) is not None)
    images = tuple(pinned_images(cluster, tuple(enumerate(declared_pools)), catalog))
    keys = volume_keys(storage)
    return plan_eks_cluster(cluster, stack, pools, release, catalog, keys, identities, every, images)


def _plan_controllers(
    declared: EksCluster,
    drivers: _VolumeDrivers,
    declared_pools: Sequence[Pool],
    cluster: CloudCluster | None,
    pools: Sequence[PoolPlan],
    controllers: Sequence[ControllerPods],
    catalog: Catalog,
    problems: Problems,
) -> Decided[CloudCluster | None]:
    """Return a new cluster with enough CPU and memory on its system nodes for the controllers.

    Also check that the subnets of the cluster's VPC have enough addresses for all nodes.
    """
    if not isinstance(cluster, EksClusterPlan):
        return Decided(cluster)
    own = [addon for _, addon in drivers]
    if cluster.create is not None:
        own += [addon.name for addon in cluster.create.addons]
    controllers = (*(pods for name in own for pods in controller_pods(name, catalog)), *controllers)
    if cluster.create is None:
        return on_existing_nodes(cluster.name, cluster, controllers)
    demands = _demands(drivers, controllers, rooms_of_cpu_pools(pools), catalog)
    system = size_system_pool(declared, cluster.create.system_pool, demands, declared_pools, problems)
    sized = replace(cluster, create=replace(cluster.create, system_pool=system.value))
    warnings = check_addresses(sized, pools, catalog, problems.at("create"))
    return Decided(sized, (*system.decisions, *warnings))


def _demands(
    drivers: _VolumeDrivers, controllers: Sequence[ControllerPods], others: Sequence[Room], catalog: Catalog
) -> Demands:
    volumes = (named(of_nodes, catalog) for of_nodes, _ in drivers)
    on_each = on_nodes((*own_of("aws", catalog), *volumes, DISCOVERY), operands=False)
    return Demands(controllers=controllers, on_nodes=on_each, others=others, catalog=catalog)


def _system_rooms(
    drivers: _VolumeDrivers, cluster: CloudCluster | None, catalog: Catalog
) -> Sequence[Room] | None:
    """Return the free CPU and memory of the system nodes at their pool's maximum size, or None if they are not
    known.
    """
    if not isinstance(cluster, EksClusterPlan) or cluster.create is None:
        return None
    pool = cluster.create.system_pool
    room = _demands(drivers, (), (), catalog).room(pool.instance_types)
    return None if room is None else [room] * pool.max_size


def _documents(
    teams: Sequence[str],
    cluster: CloudCluster | None,
    pools: Sequence[PoolPlan],
    storage: StoragePlan,
    identities: CloudIdentities | None,
) -> Iterator[Document]:
    """Yield the data that AWS limits in size or number: IAM policies, user data, tags, and instances of capacity
    blocks.
    """
    assert isinstance(cluster, EksClusterPlan)  # noqa: S101 - the plan is of this cloud
    of_cluster = cluster.create.addons if cluster.create is not None else ()
    of_storage = storage.cloud.drivers if isinstance(storage.cloud, EksStorage) else ()
    yield from cluster_documents(cluster, (*of_cluster, *of_storage))
    yield from pool_documents(pools, cluster)
    yield from block_sizes(pools)
    if isinstance(identities, EksIdentities):
        yield from identity_documents(identities, teams)


def _plan_storage(
    cluster: EksCluster,
    storage: Mapping[str, StorageClass],
    stack: str,
    pools: Sequence[PoolPlan],
    kubernetes: str | None,
    catalog: Catalog,
) -> Decided[StoragePlan]:
    """Return the EBS, EFS and FSx storage classes, with their drivers and file systems."""
    zones = sorted({zone for pool in pools for zone in pool.cloud_nodes.zones})
    return plan_eks_storage(cluster, storage, stack, zones, kubernetes, catalog)
