"""The provider for Google Kubernetes Engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.catalog.zones import google_region
from gpu_platform.planning.clouds.daemonsets import DaemonSet, of_pod, on_nodes, own_of
from gpu_platform.planning.clouds.gke.buckets import SIDECAR
from gpu_platform.planning.clouds.gke.cluster import StackDemands, check_gke_cluster, plan_gke_cluster
from gpu_platform.planning.clouds.gke.cluster_settings import cluster_settings
from gpu_platform.planning.clouds.gke.compute_class import CLASS_KEY, check_compute_class, class_taint
from gpu_platform.planning.clouds.gke.create import AUTOSCALING_PROFILE
from gpu_platform.planning.clouds.gke.egress import (
    API_EGRESS,
    api_egress_note,
    check_api_egress,
    check_host_egress,
    pod_egress,
)
from gpu_platform.planning.clouds.gke.identities import check_identity, plan_identities
from gpu_platform.planning.clouds.gke.installers import plan_installers
from gpu_platform.planning.clouds.gke.logins import check_members, login_commands, login_notes
from gpu_platform.planning.clouds.gke.node import added_taints
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan
from gpu_platform.planning.clouds.gke.pools import check_gke_pool, plan_gke_pool
from gpu_platform.planning.clouds.gke.prerequisites import gke_prerequisites
from gpu_platform.planning.clouds.gke.properties import pool_properties
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
from gpu_platform.planning.clouds.identities import PodAccess, bucket_rights, google_account
from gpu_platform.planning.clouds.nodes import nodes_plan
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
from gpu_platform.planning.clouds.section import (
    CloudCluster,
    GrowingNodes,
    SchedulerPlan,
)
from gpu_platform.planning.clouds.system_nodes import plan_system_nodes, system_rooms
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.section import SharingPlan
from gpu_platform.stack.cluster import CreateGke, GkeCluster, GkeSystemNodes
from gpu_platform.stack.storage import StorageClass
from gpu_platform.stack.team_identity import TeamIdentity


def gke(
    cluster: GkeCluster,
    window: WindowPlan | None = None,
    *,
    storage: Mapping[str, StorageClass] | None = None,
    members: Sequence[str] = (),
    identities: Sequence[str] = (),
    teams: Sequence[str] = (),
) -> Cloud:
    """Return the provider for an existing GKE cluster, or for one that the program creates.

    `window` is the maintenance window in `changes`. `storage` contains the declared storage classes. `teams` are
    the names of all teams, `members` the members of all teams, and `identities` the teams with an identity.
    """
    create = cluster.create
    demands = StackDemands(
        window=window, storage=storage or {}, members=members, identities=identities, teams=teams
    )
    return Cloud(
        cluster=cluster,
        access="outputs",
        kubernetes=cluster.kubernetes,
        region=google_region(cluster.location),
        vendor="gcp",
        creates_nodes=True,
        creates_cluster=create is not None,
        managed_control_plane=True,
        # Until 1.35, GKE runs kube-dns. Since 1.36, it runs CoreDNS, whose port for metrics is not documented.
        # Source: GKE docs, About kube-dns; read 2026-12-01.
        core_dns=False,
        # Only a cluster that the program creates is certain to have managed Prometheus enabled.
        managed_prometheus=create is not None,
        # Google runs the autoscaler of GKE.
        autoscaler_flags="nobody",
        growing_nodes=_growing_nodes(create.system) if create is not None else None,
        scheduler=ASSUMED_SCHEDULER if create is None else _SCHEDULER,
        reservation_identity=("zone",),
        added_resources=ADDED_RESOURCES,
        longest_pool_name=(
            32,
            "GKE node pool names have at most 40 characters, and Pulumi appends 8 characters "
            "so that two pools can exist at once",
        ),
        no_gpu_cluster="eks, existing or sandbox; the operator's documentation does not cover GPUCluster on GKE",
        pools=CloudPools(
            nodes=lambda pool, named: nodes_plan(pool, "cloud"),
            plan=lambda pool, machine, needs, catalog: plan_gke_pool(pool, machine, cluster, needs, catalog),
            added_taints=added_taints,
            gpu_labels=_gpu_labels,
            daemonsets=_daemonsets,
            topology_levels=topology_levels,
            provisioning=provisioning,
            surge_nodes=_surge_nodes,
            properties=pool_properties,
            check=lambda pool, machine, catalog, problems: check_gke_pool(
                pool, machine, cluster, catalog, problems
            ),
        ),
        classes=CloudClasses(
            labels=lambda name: {CLASS_KEY: name},
            taints=lambda name: (class_taint(name),),
            check=check_compute_class,
        ),
        software=CloudSoftware(
            owners=gke_software,
            explain=explain_software,
            operator_settings=_operator_settings,
            check=lambda pool, _, operator, catalog, problems: check_software(pool, operator, catalog, problems),
            check_sharing=lambda pool, software, machine, catalog, problems: check_provider_sharing(
                pool, software.device_plugin, machine, catalog.gpu_of(machine), problems
            ),
            check_operator=check_driver_dir,
        ),
        control_plane=CloudControlPlane(
            plan=lambda stack, pools, release, catalog: plan_gke_cluster(
                cluster, stack, pools, release, catalog, demands
            ),
            plan_controllers=partial(
                plan_system_nodes,
                create is not None and create.system.machine_type is not None,
                size_system_nodes,
            ),
            system_rooms=partial(system_rooms, system_room),
            settings=cluster_settings,
            prerequisites=gke_prerequisites,
            window_note=partial(_window_note, create),
            check_window=lambda window, problems: check_window(window, create, problems),
            check=lambda pools, _, catalog, problems: check_gke_cluster(cluster, pools, catalog, problems),
        ),
        logins=CloudLogins(
            commands=lambda members: login_commands(cluster),
            notes=partial(login_notes, cluster),
            check=check_members,
        ),
        identities=CloudTeamIdentities(
            plan=lambda teams: plan_identities(
                teams, cluster, {team: _rights(one) for team, one in teams.items()}
            ),
            rights=_rights,
            # Bucket roles need no annotation.
            pod_access=lambda identity: PodAccess(annotations=google_account(identity.google_service_account)),
            check=lambda identity, problems: check_identity(identity, cluster, problems),
        ),
        network=CloudNetwork(
            # In a VPC that the program creates, the program opens the ports itself.
            closed_ports="the control plane reaches private nodes only on TCP ports 443 and 10250"
            if create is None or create.network is not None
            else None,
            pod_egress=pod_egress(cluster, identity=False),
            identity_egress=pod_egress(cluster, identity=True),
            api_egress=API_EGRESS,
            api_egress_note=api_egress_note(cluster),
            check_hosts=partial(check_host_egress, cluster),
            check_apis=lambda _, problems: check_api_egress(cluster, problems),
        ),
        storage=CloudStorage(
            bucket_sidecar=SIDECAR,
            own_classes=partial(own_classes, cluster),
            claim_sizes=lambda one: claim_sizes(one, cluster),
            mount_problem=lambda one, pool, pools, catalog: mount_problem(one, cluster, pool, pools, catalog),
            check=partial(check_gke_storage, cluster),
            plan=lambda declared, stack, pools, kubernetes, catalog: plan_gke_storage(
                cluster, declared, pools, catalog
            ),
        ),
    )


_SCHEDULER: Final = SchedulerPlan(scores="most-allocated", why=f"autoscaling profile {AUTOSCALING_PROFILE}")
"""The kube-scheduler settings of a new control plane. The autoscaling profile determines how nodes are scored."""


def _growing_nodes(system: GkeSystemNodes) -> GrowingNodes | None:
    """Return the autoscaled system nodes of a new cluster, or None if their number is fixed."""
    if nodes_in_zone(system.min, system.max) is not None:
        return None
    fixed = -(-system.max // ZONES) * ZONES
    return GrowingNodes(
        what="GKE adds system nodes", setting=f"cluster.create.system: {{min: {fixed}, max: {fixed}}}"
    )


def _daemonsets(pool: PoolPlan, catalog: Catalog) -> tuple[DaemonSet, ...]:
    """Return GKE's own DaemonSets, and the program's DaemonSets that install the driver and GPUDirect."""
    assert isinstance(pool.cloud, GkePoolPlan)  # noqa: S101 - its pools are of this cloud
    added = [of_pod(one.name, one.pod_spec) for one in plan_installers([(pool, pool.cloud)], catalog)]
    return on_nodes((*own_of("gcp", catalog), *added), operands=pool.software.operands)


def _surge_nodes(pool: PoolPlan, cluster: CloudCluster) -> int:
    assert isinstance(pool.cloud, GkePoolPlan)  # noqa: S101 - its pools are of this cloud
    return pool.cloud.surge


def _gpu_labels(machine: MachineType, sharing: SharingPlan) -> Mapping[str, str]:
    """Return the labels that GKE sets on nodes with its own device plugin."""
    labels = {names.GKE_ACCELERATOR_LABEL: machine.accelerator_label} if machine.accelerator_label else {}
    if sharing.replicas > 1:
        labels[names.GKE_SHARING_STRATEGY_LABEL] = "time-sharing"
        labels[names.GKE_SHARED_CLIENTS_LABEL] = str(sharing.replicas)
    if sharing.mig_layouts:
        labels[names.GKE_PARTITION_SIZE_LABEL] = next(iter(sharing.mig_layouts[0].layout))
    return labels


def _window_note(create: CreateGke | None, window: WindowPlan) -> str:
    """Return how GKE uses the maintenance window in `changes`. Only a cluster that the program creates uses this
    window.
    """
    if create is None:
        return "GKE upgrades an existing cluster in the cluster's own maintenance window, which `up` does not set"
    start, end, recurrence = recurring_window(window)
    return f"GKE upgrades in the same window, in UTC: {recurrence} {start:%H:%M} to {end:%H:%M}"


def _rights(identity: TeamIdentity) -> tuple[str, ...]:
    """Return a team's permissions on buckets, or its right to use an existing service account."""
    places = ((f"gs://{one.name}/{one.directory}", one.writable) for one in identity.buckets)
    return (*bucket_rights(places), *existing_rights(identity))


def _operator_settings(pools: Sequence[PoolPlan]) -> OperatorSettings:
    # The operator supports Container-Optimized OS, but does not install the driver on it.
    cos = any(pool.software.operands and pool.software.driver == "installer" for pool in pools)
    why = "all other folders of Container-Optimized OS are read-only or not executable"
    decision = Decision(subject="operator", what="host paths", chosen=NVIDIA_DIR, why=why)
    return OperatorSettings(
        reboots_for_mig=True,
        driver_dir=NVIDIA_DIR if cos else None,
        toolkit_dir=NVIDIA_DIR if cos else None,
        reads_runtime_file=True,
        quota_for_system_priorities=True,
        driver_root=NVIDIA_DIR,
        decisions=(decision,) if cos else (),
    )
