"""Check and plan the AKS cluster of a stack.

Sources: AKS docs, "Configure Azure CNI Powered by Cilium", "Plan IP addresses for your AKS cluster", "Customize
cluster egress with outbound types", "Secure access to the API server using authorized IP address ranges", "Create
a private AKS cluster" (hub and spoke with custom DNS); read 2026-11-30.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform.base.quantity import counted
from gpu_platform.catalog import Catalog, OperatorRelease
from gpu_platform.planning.clouds.aks.infiniband import (
    explain_infiniband,
    plan_infiniband,
    plan_network_operator,
)
from gpu_platform.planning.clouds.aks.keys import (
    check_encryption_set,
    encryption_sets,
    key_decisions,
    vault_key,
)
from gpu_platform.planning.clouds.aks.logins import granted_decision, object_ids
from gpu_platform.planning.clouds.aks.names import control_plane_identity
from gpu_platform.planning.clouds.aks.plan import SYSTEM_SURGE, AksClusterPlan, AksPoolPlan, CreateAksPlan
from gpu_platform.planning.clouds.aks.pools import most_nodes
from gpu_platform.planning.clouds.aks.system_pool import DEFAULT_TYPES, check_system_nodes
from gpu_platform.planning.clouds.aks.tags import check_private_zone, check_tags
from gpu_platform.planning.clouds.api_access import check_api_access, is_private
from gpu_platform.planning.config_maps import content_hash
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.aks import AksCluster, AksNetwork, CreateAks
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.storage import StorageClass

_OTHER_CLOUDS: Final = ("china", "usdod", "usgov")
_OUTBOUND: Final[Mapping[str, Literal["loadBalancer", "userAssignedNATGateway", "userDefinedRouting"]]] = {
    "load-balancer": "loadBalancer",
    "nat-gateway": "userAssignedNATGateway",
    "user-defined-routing": "userDefinedRouting",
}
_POD_PREFIX: Final = 24  # the overlay gives each node a /24, whatever maxPods is
_RESERVED_ADDRESSES: Final = 5  # in each subnet of Azure
_LARGEST_SERVICES_PREFIX: Final = 12
_LONGEST_NODE_GROUP: Final = 80
# AKS uses these ranges itself (AKS docs, "Plan IP addresses for your AKS cluster").
_OF_AKS: Final = ("169.254.0.0/16", "172.30.0.0/16", "172.31.0.0/16", "192.0.2.0/24")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDemands:
    """Settings from other sections of the stack file that affect the cluster: the declared storage classes, the
    names of all teams and of the teams with an identity, and the members of all teams.
    """

    storage: Mapping[str, StorageClass]
    members: Sequence[str]
    identities: Sequence[str]
    teams: Sequence[str]


def check_aks_cluster(cluster: AksCluster, pools: Sequence[Pool], catalog: Catalog, problems: Problems) -> None:
    """Record problems with a cluster that depend on its pools. `problems` points to `cluster`."""
    create = cluster.create
    _check_region(cluster.region, problems.at("region"))
    check_tags(tuple(cluster.tags), problems.at("tags"))
    if create is None:
        return
    if create.private:
        check_private_zone(tuple(cluster.tags), problems.at("tags"))
    if cluster.parts.network_operator == "present":
        problems.at("parts").at("network_operator").add(
            "present on a new cluster",
            "present only on an existing cluster: a new cluster has no controllers that an owner installed",
            "write install, or remove create",
        )
    here = problems.at("create")
    if cluster.kubernetes is None:
        problems.at("kubernetes").add(
            "nothing",
            "the minor version of a new cluster, because AKS upgrades node pools only to a version that is named",
            'write kubernetes: "1.35"',
        )
    check_api_access(create.api_access, create.api_from_anywhere, here)
    _check_access(create, here)
    check_system_nodes(create, catalog, here)
    check_encryption_set(create.disk_encryption_set, cluster, here.at("disk_encryption_set"))
    known = catalog.machine_types
    of_pools = sum(most_nodes(pool, known[pool.machine_type]) for pool in pools if pool.machine_type in known)
    nodes = of_pools + create.system.max + SYSTEM_SURGE
    _check_ranges(create, nodes, here)


def _check_region(region: str, problems: Problems) -> None:
    if region.startswith(_OTHER_CLOUDS):
        problems.add(
            repr(region),
            "a region of Azure's public cloud; Azure Government and Azure in China have other endpoints",
            "use another region",
        )


def _check_access(create: CreateAks, problems: Problems) -> None:
    if create.private and create.api_access:
        problems.at("api_access").add(
            f"{', '.join(create.api_access)} with private",
            "api_access only without private; every client in a network that reaches the private address may "
            "connect",
            "remove api_access, or private",
        )
        return
    private = [network for network in create.api_access if is_private(network)]
    if private:
        problems.at("api_access").add(
            ", ".join(private),
            "public networks, because the API server has a public address; private networks reach only a cluster "
            "with private: true",
            "write the public addresses of these networks, or private: true with an existing network",
        )


def _check_ranges(create: CreateAks, nodes: int, problems: Problems) -> None:
    own = ("nodes_cidr", "pods_cidr", "services_cidr")
    if create.network is not None:
        own = ("pods_cidr", "services_cidr")
        if "nodes_cidr" in create.model_fields_set:
            problems.at("nodes_cidr").add(
                f"{create.nodes_cidr} together with network",
                "nodes_cidr only for a network that the program creates, because the existing subnet has its own "
                "range",
                "remove nodes_cidr, or network",
            )
    ranges = [(field, ipaddress.IPv4Network(getattr(create, field))) for field in own]
    of_aks = [("AKS itself", ipaddress.IPv4Network(text)) for text in _OF_AKS]
    for index, (field, network) in enumerate(ranges):
        for other, theirs in (*ranges[:index], *of_aks):
            if network.overlaps(theirs):
                problems.at(field).add(
                    f"{network}, which overlaps {theirs} of {other}",
                    "separate ranges for nodes, pods and Services, outside the ranges that AKS uses itself",
                    "choose a range that is not in use",
                )
    services = ipaddress.IPv4Network(create.services_cidr)
    if services.prefixlen <= _LARGEST_SERVICES_PREFIX:
        problems.at("services_cidr").add(
            str(services), "a /13 or smaller", f"write {services.network_address}/16, or another range"
        )
    addresses = ipaddress.IPv4Network(create.nodes_cidr).num_addresses - _RESERVED_ADDRESSES
    for field, possible, each in (
        ("nodes_cidr", addresses, "an address"),
        ("pods_cidr", _pod_ranges(create.pods_cidr), f"a /{_POD_PREFIX}"),
    ):
        if field in own and possible < nodes:
            problems.at(field).add(
                f"{getattr(create, field)}, enough for {counted(max(possible, 0), 'node')}",
                f"enough for {counted(nodes, 'node')}, the maximum while pools are rolled, with {each} for each",
                "use a larger range; it cannot be changed later",
            )


def _pod_ranges(cidr: str) -> int:
    prefix = ipaddress.IPv4Network(cidr).prefixlen
    return 2 ** (_POD_PREFIX - prefix) if prefix <= _POD_PREFIX else 0


def plan_aks_cluster(
    cluster: AksCluster,
    stack: str,
    pools: Sequence[PoolPlan],
    release: OperatorRelease,
    catalog: Catalog,
    demands: StackDemands,
) -> Decided[AksClusterPlan]:
    """Return the plan for a cluster with these pools, including the drivers for the declared storage classes."""
    create = cluster.create
    logins = object_ids(demands.members) if create is not None else ()
    decisions: list[Decision] = []
    if create is not None:
        decisions += [*_decisions(cluster, create), *key_decisions(cluster, create)]
    if logins:
        decisions.append(granted_decision(cluster, logins))
    infiniband = [pool for pool in pools if pool.cloud_nodes.nic_resources]
    part = plan_network_operator(cluster)
    if infiniband:
        decisions += explain_infiniband(cluster, part)
    plan = AksClusterPlan(
        name=cluster.name,
        subscription=cluster.subscription,
        resource_group=cluster.resource_group,
        region=cluster.region,
        kubernetes=cluster.kubernetes,
        create=_plan_create(cluster, create, demands) if create is not None else None,
        logins=logins,
        teams=tuple(demands.teams),
        identities=tuple(demands.identities),
        encryption_sets=encryption_sets(cluster, demands.storage),
        vcpus=_vcpus(pools, catalog),
        reservation_groups=_reservation_groups(pools),
        operator=release.version,
        operator_kubernetes=release.kubernetes,
        tags={**cluster.tags, "managed-by": "gpu-platform", "stack": stack},
        protect=cluster.is_protected and create is not None,
        retained=_retained(cluster),
        parts=(part,) if infiniband else (),
        infiniband=plan_infiniband(pools, catalog) if infiniband and part.install else None,
    )
    return Decided(plan, tuple(decisions))


def _plan_create(cluster: AksCluster, create: CreateAks, demands: StackDemands) -> CreateAksPlan:
    network = create.network
    services = ipaddress.IPv4Network(create.services_cidr)
    return CreateAksPlan(
        creates_resource_group=create.resource_group == "create",
        subnet=network.subnet if network is not None else None,
        outbound_type=_outbound(network),
        nodes_cidr=create.nodes_cidr,
        pods_cidr=create.pods_cidr,
        services_cidr=create.services_cidr,
        dns_service_ip=str(services.network_address + 10),
        private=create.private,
        api_access=create.api_access,
        admins=create.admins,
        sku_tier="Standard" if cluster.production else "Free",
        node_resource_group=_node_resource_group(cluster),
        system_machine_type=create.system.machine_type or DEFAULT_TYPES[0],
        system_vcpus=0,
        system_cpu_quota=None,
        system_nodes=(create.system.min, create.system.max),
        system_zones=create.system.zones,
        system_disk_gb=create.system.disk_gb,
        system_disk_type="Managed",
        nfs_driver=any(one.type == "nfs" for one in demands.storage.values()),
        disk_encryption_set=create.disk_encryption_set,
        secrets_key=vault_key(create.kms_key),
    )


def _outbound(
    network: AksNetwork | None,
) -> Literal["loadBalancer", "userAssignedNATGateway", "userDefinedRouting"]:
    return _OUTBOUND[network.outbound if network is not None else "load-balancer"]


def _node_resource_group(cluster: AksCluster) -> str:
    """Return the name of the group for nodes, unique in the subscription and with at most 80 characters."""
    whole = f"{cluster.resource_group}-{cluster.name}-{cluster.region}-nodes"
    if len(whole) <= _LONGEST_NODE_GROUP:
        return whole
    tail = f"-{content_hash(whole)}-nodes"
    return cluster.name[: _LONGEST_NODE_GROUP - len(tail)].rstrip("-_") + tail


def _decisions(cluster: AksCluster, create: CreateAks) -> Iterator[Decision]:
    subject, outbound = f"cluster {cluster.name}", _outbound(create.network)
    yield Decision(
        subject=subject,
        what="API server",
        chosen="a private address"
        if create.private
        else f"a public address for {', '.join(create.api_access) or 'no network yet'}",
        why="private: true, so `up` and users must run in a network that reaches the nodes' network"
        if create.private
        else "only these networks and the nodes may connect, and Entra ID authenticates every client",
    )
    yield Decision(
        subject=subject,
        what="network",
        chosen="Azure CNI powered by Cilium, overlay",
        why="Cilium enforces the teams' network policies, and pods use no addresses of the virtual network",
    )
    yield Decision(
        subject=subject,
        what="outbound",
        chosen=outbound,
        why="AKS creates a load balancer with a public address"
        if outbound == "loadBalancer"
        else "the stack file sets it; the owner of the network provides the path to the internet",
    )
    if create.private:
        yield Decision(
            subject=subject,
            what="warning: name of the API server",
            chosen="nodes, users and `up` must resolve names of the cluster's private DNS zone",
            why="AKS creates the zone and links it only to the nodes' network. If the network has DNS servers of "
            "its owner, they must forward the zone to 168.63.129.16, and the identity "
            f"{control_plane_identity(cluster.name)} needs Network Contributor on the network",
        )
    if outbound != "loadBalancer" and not create.private:
        yield Decision(
            subject=subject,
            what="warning: nodes and the API server",
            chosen="api_access must include the public address of the nodes",
            why=f"AKS adds only the address of its load balancer to the authorised ranges; with {outbound}, nodes "
            "connect from the address of the NAT gateway or firewall",
        )
    yield Decision(
        subject=subject,
        what="logins",
        chosen="Entra ID, without local accounts",
        why=f"groups {', '.join(create.admins)} are cluster-admin; the identity that runs `up` must be a member",
    )
    yield Decision(
        subject=subject,
        what="upgrades of node images",
        chosen="only by hand",
        why="a new image ends the jobs of a node; az aks nodepool upgrade --node-image-only renews a pool",
    )


def _vcpus(pools: Sequence[PoolPlan], catalog: Catalog) -> int:
    """Return the vCPUs of all pools at their maximum size. Spot pools have a separate quota, and reservations
    counted against the quota when they were made.
    """
    return sum(
        catalog.machine_types[pool.machine_type].vcpu * (pool.nodes.max + pool.cloud.surge)
        for pool in pools
        if isinstance(pool.cloud, AksPoolPlan) and pool.cloud.counts_against_quota
    )


def _reservation_groups(pools: Sequence[PoolPlan]) -> tuple[str, ...]:
    groups = (pool.cloud.capacity_reservation_group for pool in pools if isinstance(pool.cloud, AksPoolPlan))
    return tuple(sorted({group for group in groups if group is not None}))


def _retained(cluster: AksCluster) -> tuple[str, ...]:
    """Return what `destroy` keeps. It has no `LEFTOVERS`, because the load balancers and volumes of a new cluster
    are in the resource group of its nodes, which AKS deletes together with the cluster (AKS docs, FAQ).
    """
    if cluster.create is None:
        return (f"the existing cluster {cluster.name}",)
    if cluster.create.resource_group == "existing":
        return (f"the existing resource group {cluster.resource_group}",)
    return ()
