"""Check how a GKE pool uses its GPU NICs.

Sources: GKE docs, Maximize GPU network bandwidth, and Configure automated networking for accelerator VMs;
cluster-toolkit 1.95 (gke-node-pool); read 2026-11-21.
"""

from __future__ import annotations

from gpu_platform.catalog import Catalog, MachineType
from gpu_platform.planning.clouds.gke.gpu_networks import network_mode
from gpu_platform.planning.kubernetes_versions import minor
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster
from gpu_platform.stack.pool import Pool

DRA_NETWORKING_LABEL = "cloud.google.com/gke-networking-dra-driver"
"""Node label that GKE's DRA driver for networks uses to select nodes. Nodes in pools with a network profile have
this label.
"""
PROFILE_FEATURE = "accelerator-network-profile"


def check_network(
    pool: Pool, machine: MachineType, cluster: GkeCluster, catalog: Catalog, problems: Problems
) -> None:
    """Record problems with network settings that the machine type, image or GKE version does not support."""
    here = problems.at("network")
    if machine.rdma_interfaces == 0:
        if pool.network.rdma:
            here.at("rdma").add(
                f"true on {machine.name}",
                "false, because the machine type has no GPU NICs; machine types with eight GPUs have GPU "
                "NICs from a3-highgpu-8g on",
                "remove rdma, or use a machine type with GPU NICs",
            )
        if pool.network.via is not None:
            here.at("via").add(
                f"{pool.network.via!r} on {machine.name}",
                "no via, because the machine type has no GPU NICs",
                "remove via",
            )
        return
    if pool.network.via is not None and pool.network.rdma is False:
        here.at("via").add(f"{pool.network.via!r} with rdma false", "via only with GPU NICs", "remove via or rdma")
        return
    via = network_mode(pool, machine, catalog)
    if via == "none":
        return
    if pool.image.family == "ubuntu":
        problems.at("image").at("family").add(
            "'ubuntu' with GPU NICs",
            "cos; GPUDirect and networks for GPU NICs need Container-Optimized OS",
            "write family: cos, or network: {rdma: false}",
        )
    fabric = catalog.gcp_family(machine).fabric
    if via == "profile" and fabric != "rdma":
        # GKE docs, Allocate network resources by using GKE managed DRANET, Requirements; read 2026-11-29.
        here.at("via").add(
            f"'profile' on {machine.name}",
            "networks; GKE's DRA driver for networks does not support the NICs of A3 High and A3 Mega, so "
            "pods would get none",
            "remove via, or write network: {rdma: false}",
        )
        return
    feature = catalog.gke_features[PROFILE_FEATURE]
    if via == "profile" and cluster.kubernetes is not None and minor(cluster.kubernetes) < minor(feature.minimum):
        here.at("via").add(
            f"the accelerator network profile on Kubernetes {cluster.kubernetes}",
            f"GKE {feature.minimum} or newer ({feature.source})",
            "upgrade the cluster, or write via: networks",
        )
