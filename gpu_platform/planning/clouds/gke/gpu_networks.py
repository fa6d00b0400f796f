"""Plan the networks between GPUs, one for each GPU NIC of a node.

GPUDirect-TCPX (A3 High) and -TCPXO (A3 Mega) need a separate VPC for each NIC. RDMA (A3 Ultra and newer) needs two
additional VPCs. One VPC is for gVNIC. The other VPC has a network profile for RDMA over converged Ethernet, and a
subnet for each NIC. The Kubernetes networks have the same names as in Google's examples, so that the examples run
unchanged.

Source: GKE docs, Maximize GPU network bandwidth, and cluster-toolkit 1.95 (blueprints gke-a3-highgpu, -megagpu and
-ultragpu, modules multivpc and gpu-rdma-vpc); read 2026-11-21.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Literal

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gke.capacity import locations
from gpu_platform.planning.clouds.gke.plan import RDMA_MTU, SAME_PROJECT, TCPX_MTU, GkePoolPlan, GpuNetwork
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import Pool

SUBNET_PREFIX = 20  # enough addresses for 4,092 nodes
MAIN_MTU = 8896
"""MTU of the cluster's own VPC, chosen for storage traffic. It is the default of cluster-toolkit 1.95,
modules/network/vpc.
"""

Fabric = Literal["none", "tcpx", "tcpxo", "rdma"]


def network_mode(pool: Pool, machine: MachineType, catalog: Catalog) -> Literal["none", "networks", "profile"]:
    """Return how the GPU NICs of a pool join their networks."""
    wanted = pool.network.rdma if pool.network.rdma is not None else pool.workload == "training"
    if not wanted or machine.rdma_interfaces == 0:
        return "none"
    if pool.network.via in ("networks", "profile"):
        return pool.network.via
    return "profile" if catalog.gcp_family(machine).fabric == "rdma" else "networks"


def network_count(machine: MachineType, fabric: Fabric) -> int:
    """Return the number of GPU networks that a pool with this machine type joins.

    RDMA needs an additional gVNIC network.
    """
    return machine.rdma_interfaces + (1 if fabric == "rdma" else 0)


def cluster_mtu(pools: Sequence[GkePoolPlan]) -> int:
    """Return the MTU for the VPC of a new cluster. With A3 High or Mega pools, it equals the MTU of the GPU
    networks.

    Source: cluster-toolkit 1.95, examples gke-a3-highgpu, gke-a3-megagpu and gke-a4; read 2026-11-23.
    """
    return TCPX_MTU if any(pool.fabric in ("tcpx", "tcpxo") for pool in pools) else MAIN_MTU


def gpu_network_ranges(
    cluster: GkeCluster, pools: Sequence[tuple[Pool, MachineType]], catalog: Catalog
) -> list[ipaddress.IPv4Network]:
    """Return the address ranges of the GPU networks that the pools need."""
    counts = [
        network_count(machine, catalog.gcp_family(machine).fabric)
        for pool, machine in pools
        if network_mode(pool, machine, catalog) == "networks"
    ]
    return [_subnet(cluster, index) for index in range(max(counts, default=0))]


def check_gpu_networks(
    cluster: GkeCluster, pools: Sequence[tuple[Pool, MachineType]], catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for pools whose GPU networks cannot exist in the same cluster. `problems` points to the
    cluster.
    """
    joining = [(pool, machine) for pool, machine in pools if network_mode(pool, machine, catalog) == "networks"]
    _check_range(cluster, len(gpu_network_ranges(cluster, pools, catalog)), problems.at("gpu_networks_cidr"))
    over_rdma = [pool for pool, machine in joining if catalog.gcp_family(machine).fabric == "rdma"]
    if over_rdma and len(over_rdma) < len(joining):
        others = [pool for pool, _ in joining if pool not in over_rdma]
        problems.add(
            f"RDMA networks for {_named(over_rdma)} together with GPUDirect-TCPX networks for {_named(others)}",
            "only one kind of network in a cluster, because both kinds name their first network after the "
            "same NIC",
            "move the pools with one kind of network to a separate environment",
        )
    _check_shared_vpc(cluster, [pool for pool, _ in joining], problems)
    claimed = [pool for pool, machine in pools if network_mode(pool, machine, catalog) == "profile"]
    if joining and claimed:
        # Source: GKE docs of 2026-04-10, Allocate network resources by using GKE managed DRANET; read 2026-11-23.
        names = _named([pool for pool, _ in joining])
        problems.add(
            f"GPU networks for {names} together with the network profile for {_named(claimed)}",
            "either GPU networks or the network profile in a cluster, because GKE's DRA driver for networks "
            "and Networks of type Device would manage the same NICs",
            "write via: profile for all of the pools"
            if len(over_rdma) == len(joining)
            else f"give {names} network: {{rdma: false}}, or create a separate environment for them",
        )
    zones = {zone for pool in over_rdma for zone in locations(pool, cluster)}
    if over_rdma and (len(zones) > 1 or any(not locations(pool, cluster) for pool in over_rdma)):
        problems.add(
            f"{_named(over_rdma)} with RDMA networks in " + (", ".join(sorted(zones)) or "no declared zones"),
            "one zone for all of these pools, because a RoCE network profile belongs to a zone",
            "write the same single zone in each pool, or write network: {via: profile} in the pools",
        )


def _check_shared_vpc(cluster: GkeCluster, joining: Sequence[Pool], problems: Problems) -> None:
    vpc = cluster.create.network if cluster.create is not None else None
    if joining and vpc is not None and vpc.project not in (None, cluster.project):
        problems.at("create").at("network").at("project").add(
            f"{vpc.project}, the host project of a Shared VPC, and GPU networks for {_named(joining)}",
            f"a VPC of {cluster.project} {SAME_PROJECT}",
            f"name a VPC of {cluster.project}, or give {_named(joining)} network: {{rdma: false}}",
        )


def _check_range(cluster: GkeCluster, subnets: int, problems: Problems) -> None:
    prefix = ipaddress.IPv4Network(cluster.gpu_networks_cidr).prefixlen
    possible = 2 ** (SUBNET_PREFIX - prefix) if prefix <= SUBNET_PREFIX else 0
    if subnets > possible:
        problems.add(
            f"{cluster.gpu_networks_cidr}, which has {possible} ranges of /{SUBNET_PREFIX}",
            f"{subnets} such ranges, one for each network of a node",
            f"use a /{SUBNET_PREFIX - (subnets - 1).bit_length()} or larger",
        )


def plan_gpu_networks(
    prefix: str, cluster: GkeCluster, pools: Sequence[GkePoolPlan], catalog: Catalog
) -> tuple[GpuNetwork, ...]:
    """Return the GPU networks for the pool with the most GPU NICs. Pools with fewer NICs join only the first of
    these networks.

    `prefix` is the prefix of the VPC names.
    """
    joining = [pool for pool in pools if pool.network == "networks"]
    if not joining:
        return ()
    count = max(network_count(catalog.machine_types[pool.machine_type], pool.fabric) for pool in joining)
    first = joining[0]
    if first.fabric == "rdma":
        return _rdma(prefix, cluster, count, first.node_locations[0])
    return tuple(
        GpuNetwork(
            vpc=f"{prefix}-gpu-{index}",
            subnet=f"{prefix}-gpu-{index}",
            cidr=str(_subnet(cluster, index)),
            mtu=TCPX_MTU,
            network_profile=None,
            kubernetes_network=f"vpc{index + 1}",
            device_mode="NetDevice",
        )
        for index in range(count)
    )


def _rdma(prefix: str, cluster: GkeCluster, count: int, zone: str) -> tuple[GpuNetwork, ...]:
    gvnic = GpuNetwork(
        vpc=f"{prefix}-gvnic",
        subnet=f"{prefix}-gvnic",
        cidr=str(_subnet(cluster, 0)),
        mtu=RDMA_MTU,
        network_profile=None,
        kubernetes_network="gvnic-1",
        device_mode="NetDevice",
    )
    return (
        gvnic,
        *(
            GpuNetwork(
                vpc=f"{prefix}-rdma",
                subnet=f"{prefix}-rdma-{index}",
                cidr=str(_subnet(cluster, index + 1)),
                mtu=RDMA_MTU,
                network_profile=f"{zone}-vpc-roce",
                kubernetes_network=f"rdma-{index}",
                device_mode="RDMA",
            )
            for index in range(count - 1)
        ),
    )


def _subnet(cluster: GkeCluster, index: int) -> ipaddress.IPv4Network:
    whole = ipaddress.IPv4Network(cluster.gpu_networks_cidr)
    size = 2 ** (32 - SUBNET_PREFIX)
    return ipaddress.IPv4Network((int(whole.network_address) + index * size, SUBNET_PREFIX))


def _named(pools: Sequence[Pool]) -> str:
    return f"pool{'s' if len(pools) > 1 else ''} {', '.join(pool.name for pool in pools)}"
