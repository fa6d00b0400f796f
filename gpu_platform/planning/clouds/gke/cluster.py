"""Check and plan the GKE cluster of a stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_platform.catalog import Catalog, MachineType, OperatorRelease
from gpu_platform.catalog.zones import google_region
from gpu_platform.planning.clouds.api_access import check_api_access
from gpu_platform.planning.clouds.closed_ports import ports_to_open
from gpu_platform.planning.clouds.gke.compute_class import plan_compute_classes
from gpu_platform.planning.clouds.gke.create import check_create, plan_create
from gpu_platform.planning.clouds.gke.gpu_networks import (
    check_gpu_networks,
    cluster_mtu,
    gpu_network_ranges,
    plan_gpu_networks,
)
from gpu_platform.planning.clouds.gke.installers import plan_installers
from gpu_platform.planning.clouds.gke.keys import check_key
from gpu_platform.planning.clouds.gke.logins import (
    LOGIN_ROLE,
    google_groups,
    granted_decision,
    iam_members,
    manages_iam,
)
from gpu_platform.planning.clouds.gke.node_versions import (
    check_versions,
    fabric_broken_from,
    minimums_of_plans,
)
from gpu_platform.planning.clouds.gke.placement import most_nodes
from gpu_platform.planning.clouds.gke.plan import PROFILE_IN_SHARED_VPC, GkeClusterPlan, GkePoolPlan
from gpu_platform.planning.clouds.gke.prerequisites import OF_DISKS, OF_FILESTORE, OF_SECRETS
from gpu_platform.planning.clouds.gke.resource_labels import check_resource_labels
from gpu_platform.planning.clouds.gke.system_pool import check_system_nodes
from gpu_platform.planning.clouds.gke.versions import highest
from gpu_platform.planning.clouds.gke.window import recurring_window
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.planning.config_maps import content_hash
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.maintenance.section import WindowPlan
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import BucketStorage, DiskStorage, ExistingStorage, NfsStorage, StorageClass

MAX_NAME = 40
MAX_ACCOUNT = 30
MAX_NETWORK = 48  # names have at most 63 characters; the longest suffix is -gpu-0-internal
# Nodes need these roles for logs, metrics and images. Workloads have their own identities.
NODE_ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")
_STREAMING_ROLE = "roles/serviceusage.serviceUsageConsumer"  # GKE docs, Image streaming, read 2026-11-23


def check_gke_cluster(cluster: GkeCluster, pools: Sequence[Pool], catalog: Catalog, problems: Problems) -> None:
    """Record problems with a cluster that depend on its pools. `problems` points to `cluster`."""
    known = [
        (pool, machine)
        for pool in pools
        if (machine := catalog.machine_types.get(pool.machine_type)) is not None and machine.vendor == "gcp"
    ]
    _check_name(cluster, problems.at("name"))
    _check_location(cluster, problems.at("location"))
    check_resource_labels(cluster.labels, problems.at("labels"))
    check_versions(cluster, known, catalog, problems.at("kubernetes"))
    check_gpu_networks(cluster, known, catalog, problems)
    if cluster.create is not None:
        here = problems.at("create")
        ranges = gpu_network_ranges(cluster, known, catalog)
        check_api_access(cluster.create.api_access, cluster.create.api_from_anywhere, here)
        check_system_nodes(cluster.create, catalog, here)
        check_key(cluster.create.kms_key, cluster, here.at("kms_key"), regional=True)
        check_key(cluster.create.system.kms_key, cluster, here.at("system").at("kms_key"))
        nodes = sum(most_nodes(pool, machine, cluster, catalog) for pool, machine in known)
        check_create(cluster.create, ranges, nodes, here)


def _check_name(cluster: GkeCluster, problems: Problems) -> None:
    if len(cluster.name) > MAX_NAME or not cluster.name[0].isalpha():
        problems.add(
            f"{cluster.name!r}",
            f"at most {MAX_NAME} characters, beginning with a letter, as GKE requires",
            "rename it",
        )


def _check_location(cluster: GkeCluster, problems: Problems) -> None:
    region = google_region(cluster.location)
    if cluster.create is not None and region != cluster.location:
        problems.add(
            f"{cluster.location!r}, a zone",
            "a region; a zonal cluster has only one control plane, which is down during every upgrade",
            f"write location: {region}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDemands:
    """Settings from other sections of the stack file that affect the cluster.

    `window` is the maintenance window in `changes`. `storage` contains the declared storage classes. `teams` are
    the names of all teams, `members` the members of all teams, and `identities` the names of the teams with an
    identity.
    """

    window: WindowPlan | None
    storage: Mapping[str, StorageClass]
    members: Sequence[str]
    identities: Sequence[str]
    teams: Sequence[str]

    @property
    def at_metadata_server(self) -> tuple[str, ...]:
        """Teams whose pods need the metadata server, either for an identity or for bucket sidecars."""
        buckets = [one for one in self.storage.values() if isinstance(one, BucketStorage)]
        named = [team for one in buckets for team in (*(one.teams or self.teams), *one.team_stacks)]
        return tuple(dict.fromkeys([*self.identities, *named]))


def plan_gke_cluster(
    cluster: GkeCluster,
    stack: str,
    pools: Sequence[PoolPlan],
    release: OperatorRelease,
    catalog: Catalog,
    demands: StackDemands,
) -> Decided[GkeClusterPlan]:
    """Return the plan for a cluster with these pools, including the drivers for the declared storage classes."""
    decisions: tuple[Decision, ...] = ()
    on_gke = [(pool, pool.cloud) for pool in pools if isinstance(pool.cloud, GkePoolPlan)]
    clouds = [cloud for _, cloud in on_gke]
    newest = [pool.name for pool in pools if _is_newest(catalog.machine_types[pool.machine_type], catalog)]
    create = None
    if cluster.create is not None:
        gke_owned = any(pool.software.device_plugin == "cloud" for pool in pools)
        dates = catalog.kubernetes_versions.get(("gke", cluster.kubernetes or ""))
        created = plan_create(
            cluster,
            cluster.create,
            network=network_name(cluster),
            newest_gpus=newest,
            mtu=cluster_mtu(clouds),
            gke_owned=gke_owned,
            open_ports=ports_to_open(catalog),
            support_end=dates.standard_until if dates is not None else None,
            window=recurring_window(demands.window) if demands.window is not None else None,
            storage={_kind(one) for one in demands.storage.values()},
        )
        create, decisions = created.value, created.decisions
    logins = iam_members(demands.members) if manages_iam(cluster) else ()
    if logins:
        decisions += (granted_decision(cluster, logins),)
    networks = plan_gpu_networks(network_name(cluster), cluster, clouds, catalog)
    if networks:
        decisions += (
            Decision(
                subject=f"cluster {cluster.name}",
                what="GPU networks",
                chosen=f"{len(networks)}: " + ", ".join(network.kubernetes_network for network in networks),
                why="one for each GPU NIC of the pool with the most NICs",
            ),
        )
    vpc = cluster.create.network if cluster.create is not None else None
    claimed = [pool.name for pool, cloud in on_gke if cloud.network == "profile"]
    if claimed and vpc is not None and vpc.project not in (None, cluster.project):
        decisions += (
            Decision(
                subject=f"cluster {cluster.name}",
                what=f"warning: GPU NICs of pool{'s' if len(claimed) > 1 else ''} {', '.join(claimed)}",
                chosen=f"network profile in the Shared VPC of {vpc.project}",
                why=PROFILE_IN_SHARED_VPC,
            ),
        )
    plan = GkeClusterPlan(
        name=cluster.name,
        project=cluster.project,
        location=cluster.location,
        region=google_region(cluster.location),
        kubernetes=cluster.kubernetes,
        create=create,
        multi_networking=bool(newest),
        fqdn_policies=cluster.fqdn_policies,
        gpu_nics=any(cloud.network != "none" for cloud in clouds),
        networks=networks,
        keys=tuple(_keys(cluster, clouds, demands.storage)),
        node_account=_account(cluster),
        node_email=cluster.node_service_account,
        node_roles=_node_roles(clouds) if cluster.node_service_account is None else (),
        disks_gb=_disks(on_gke),
        vcpus=sum(
            catalog.machine_types[pool.machine_type].vcpu * (pool.nodes.max + cloud.surge)
            for pool, cloud in on_gke
            if pool.has_gpus
        ),
        logins=logins,
        groups=google_groups(demands.members),
        teams=tuple(demands.teams),
        identities=demands.at_metadata_server,
        installers=plan_installers(on_gke, catalog),
        minimum_version=highest(minimums_of_plans(clouds, catalog)),
        node_versions={pool.name: cloud.version for pool, cloud in on_gke if cloud.version is not None},
        broken_from={
            pool.name: broken
            for pool, cloud in on_gke
            if (broken := fabric_broken_from(cloud, catalog)) is not None and cloud.version is None
        },
        operator=release.version,
        operator_kubernetes=release.kubernetes,
        impersonate=cluster.impersonate,
        resource_labels={**cluster.labels, "managed-by": "gpu-platform", "stack": label_value(stack)},
        protect=cluster.is_protected and cluster.create is not None,
        retained=_retained(cluster, logins),
        compute_classes=plan_compute_classes(on_gke),
    )
    return Decided(plan, decisions)


def _keys(
    cluster: GkeCluster, pools: Sequence[GkePoolPlan], storage: Mapping[str, StorageClass]
) -> Iterator[tuple[str, str]]:
    """Yield the customer-managed keys, each with the domain of the Google service agent that uses it."""
    create = cluster.create
    if create is not None and create.kms_key is not None:
        yield create.kms_key, OF_SECRETS
    if create is not None and create.system.kms_key is not None:
        yield create.system.kms_key, OF_DISKS
    yield from ((pool.kms_key, OF_DISKS) for pool in pools if pool.kms_key is not None)
    for entry in storage.values():
        if isinstance(entry, DiskStorage | NfsStorage) and entry.kms_key is not None:
            yield entry.kms_key, OF_DISKS if isinstance(entry, DiskStorage) else OF_FILESTORE


def _disks(pools: Sequence[tuple[PoolPlan, GkePoolPlan]]) -> dict[str, int]:
    """Return the total size in GB of the pools' boot disks, for each disk type. It is calculated for the maximum
    number of nodes, including the nodes that rolling updates add.
    """
    sizes: dict[str, int] = {}
    for pool, cloud in pools:
        sizes[cloud.disk_type] = sizes.get(cloud.disk_type, 0) + cloud.disk_size_gb * (
            pool.nodes.max + cloud.surge
        )
    return sizes


def _is_newest(machine: MachineType, catalog: Catalog) -> bool:
    """Return whether a machine type is A3 or newer.

    The GPUs of these machine types communicate over separate NICs.
    """
    return catalog.gcp_family(machine).fabric != "none"


def label_value(text: str) -> str:
    """Convert text to a valid Google Cloud label, which has at most 63 characters of a-z, 0-9, _ and -."""
    return re.sub(r"[^a-z0-9_-]", "-", text.casefold())[:63]


def network_name(cluster: GkeCluster) -> str:
    """Return the name prefix of the cluster's VPCs.

    The names of VPCs and service accounts must be unique in a project, which may have a cluster with the same name
    in each location.
    """
    return _in_project(cluster, "", MAX_NETWORK)


def _account(cluster: GkeCluster) -> str:
    """Return the id of the nodes' service account."""
    return _in_project(cluster, "-nodes", MAX_ACCOUNT)


def _in_project(cluster: GkeCluster, suffix: str, longest: int) -> str:
    """Return a name that is unique in the project. A long name is truncated and ends in a hash."""
    whole = f"{cluster.name}-{cluster.location}"
    if len(whole + suffix) <= longest:
        return whole + suffix
    tail = f"-{content_hash(whole)}"
    return cluster.name[: longest - len(tail)].rstrip("-") + tail


def _retained(cluster: GkeCluster, logins: Sequence[str]) -> tuple[str, ...]:
    kept = [
        *(
            f"{LOGIN_ROLE} of {member} in the project, because others may also have granted this role"
            for member in logins
        ),
        "disks of persistent volumes whose storage class retains them",
        "logs and metrics, for as long as the project keeps them",
    ]
    if cluster.create is None:
        return (f"the existing cluster {cluster.name}", *kept)
    return (*kept, LEFTOVERS)


def _node_roles(pools: Sequence[GkePoolPlan]) -> tuple[str, ...]:
    """Return the roles of the nodes' service account in the project."""
    return (*NODE_ROLES, _STREAMING_ROLE) if any(pool.image_streaming for pool in pools) else NODE_ROLES


def _kind(one: StorageClass) -> str:
    """Return the type of storage whose driver an entry of `storage` needs.

    The kubelet mounts Filestore shares itself.
    """
    return "lustre" if isinstance(one, ExistingStorage) and one.system == "managed-lustre" else one.type
