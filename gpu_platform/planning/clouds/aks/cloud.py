"""The provider for Azure Kubernetes Service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.aks.cluster import StackDemands, check_aks_cluster, plan_aks_cluster
from gpu_platform.planning.clouds.aks.cluster_settings import cluster_settings
from gpu_platform.planning.clouds.aks.identities import (
    POD_ACCESS,
    check_identity,
    identity_rights,
    plan_identities,
)
from gpu_platform.planning.clouds.aks.logins import check_members, login_commands, login_notes
from gpu_platform.planning.clouds.aks.plan import AksPoolPlan
from gpu_platform.planning.clouds.aks.pools import (
    added_taints,
    check_aks_pool,
    check_compute_class,
    check_together,
    plan_aks_pool,
)
from gpu_platform.planning.clouds.aks.prerequisites import aks_prerequisites
from gpu_platform.planning.clouds.aks.properties import pool_properties
from gpu_platform.planning.clouds.aks.software import aks_software, check_software, explain_software
from gpu_platform.planning.clouds.aks.storage import (
    KEY_CLASSES,
    check_aks_storage,
    claim_sizes,
    own_classes,
    plan_aks_storage,
)
from gpu_platform.planning.clouds.aks.system_pool import size_system_nodes, system_room
from gpu_platform.planning.clouds.daemonsets import DaemonSet, named, on_nodes, own_of
from gpu_platform.planning.clouds.nodes import nodes_plan
from gpu_platform.planning.clouds.protocol import (
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
)
from gpu_platform.planning.clouds.section import CloudCluster, GrowingNodes
from gpu_platform.planning.clouds.system_nodes import plan_system_nodes, system_rooms
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.stack.aks import AksCluster, AksSystemNodes
from gpu_platform.stack.storage import StorageClass


def aks(
    cluster: AksCluster,
    *,
    storage: Mapping[str, StorageClass] | None = None,
    members: Sequence[str] = (),
    identities: Sequence[str] = (),
    teams: Sequence[str] = (),
) -> Cloud:
    """Return the provider for an existing AKS cluster, or for one that the program creates.

    `storage` contains the declared storage classes. `teams` are the names of all teams, `members` the members of
    all teams, and `identities` the teams with an identity.
    """
    create = cluster.create
    demands = StackDemands(storage=storage or {}, members=members, identities=identities, teams=teams)
    return Cloud(
        cluster=cluster,
        access="outputs",
        kubernetes=cluster.kubernetes,
        region=cluster.region,
        vendor="azure",
        creates_nodes=True,
        creates_cluster=create is not None,
        managed_control_plane=True,
        # Azure runs the autoscaler of AKS.
        autoscaler_flags="nobody",
        growing_nodes=_growing_nodes(create.system) if create is not None else None,
        # A capacity reservation group has one reservation for each machine type and zone.
        reservation_identity=("zone", "machine_type"),
        pools=CloudPools(
            nodes=lambda pool, named: nodes_plan(pool, "cloud"),
            plan=lambda pool, machine, needs, catalog: plan_aks_pool(pool, machine, cluster, needs, catalog),
            added_taints=lambda pool, machine: added_taints(pool),
            daemonsets=_daemonsets,
            surge_nodes=_surge_nodes,
            properties=pool_properties,
            check=check_aks_pool,
            check_together=lambda pools, _, catalog, problems: check_together(pools, catalog, problems),
        ),
        classes=CloudClasses(check=check_compute_class),
        software=CloudSoftware(
            owners=aks_software,
            explain=explain_software,
            # A virtual machine cannot reset a GPU on its own.
            # The toolkit finds each runtime in AKS's containerd configuration with its type, or finds none.
            # Sources: Azure/AgentBaker 06836ee, containerd*.toml.gtpl; nvidia-container-toolkit v1.19.1,
            # GetDefaultRuntimeOptions; NVIDIA/aicr#1689 and gpu-operator#2646 (AKS); read 2026-11-30.
            operator_settings=lambda pools: OperatorSettings(reboots_for_mig=True, reads_runtime_file=True),
            check=lambda pool, _, operator, catalog, problems: check_software(pool, operator, problems),
        ),
        control_plane=CloudControlPlane(
            plan=lambda stack, pools, release, catalog: plan_aks_cluster(
                cluster, stack, pools, release, catalog, demands
            ),
            plan_controllers=partial(
                plan_system_nodes,
                create is not None and create.system.machine_type is not None,
                size_system_nodes,
            ),
            system_rooms=partial(system_rooms, system_room),
            settings=cluster_settings,
            prerequisites=aks_prerequisites,
            check=lambda pools, _, catalog, problems: check_aks_cluster(cluster, pools, catalog, problems),
        ),
        logins=CloudLogins(
            commands=lambda members: login_commands(cluster),
            notes=partial(login_notes, cluster),
            check=check_members,
        ),
        identities=CloudTeamIdentities(
            plan=lambda teams: plan_identities(teams, cluster),
            rights=identity_rights,
            pod_access=lambda identity: POD_ACCESS,
            check=lambda identity, problems: check_identity(identity, cluster, problems),
        ),
        network=CloudNetwork(
            # Host names in policies need Advanced Container Networking Services, which the program does not
            # enable.
            host_policy=None,
        ),
        storage=CloudStorage(
            own_classes=lambda storage, pools, catalog: own_classes(cluster, storage),
            claim_sizes=claim_sizes,
            key_classes=KEY_CLASSES,
            check=lambda storage, pools, catalog, problems: check_aks_storage(cluster, storage, problems),
            plan=lambda declared, stack, pools, kubernetes, catalog: plan_aks_storage(declared, cluster),
        ),
    )


def _growing_nodes(system: AksSystemNodes) -> GrowingNodes | None:
    """Return the autoscaled system nodes of a new cluster, or None if their number is fixed."""
    if system.min == system.max:
        return None
    return GrowingNodes(
        what="AKS adds system nodes", setting=f"cluster.create.system: {{min: {system.max}, max: {system.max}}}"
    )


def _daemonsets(pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
    fabric = (named("InfiniBand", catalog),) if pool.cloud_nodes.nic_resources else ()
    return on_nodes((*own_of("azure", catalog), *fabric), operands=pool.software.operands)


def _surge_nodes(pool: PoolPlan, cluster: CloudCluster) -> int:
    assert isinstance(pool.cloud, AksPoolPlan)  # noqa: S101 - its pools are of this cloud
    return pool.cloud.surge
