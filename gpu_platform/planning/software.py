"""Who brings what of NVIDIA's stack to a pool's nodes: the node image, the cloud, or the GPU Operator.

Sources: NVIDIA GPU Operator docs (Google GKE, Amazon EKS) and its v26.7.0 source; awslabs/amazon-eks-ami;
bottlerocket.dev, kubelet-device-plugins; read 2026-11-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_platform.catalog import Catalog, NodeImage
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import Cluster, EksCluster, GkeCluster, Operator
from gpu_platform.spec.pool import Pool

Owner = Literal["operator", "image", "gke"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """One owner each, never two: two device plugins on one node count its GPUs twice."""

    driver: Owner
    """On GKE, `image` is the installer DaemonSet of the platform's own, and `gke` GKE's installation."""
    toolkit: Owner
    device_plugin: Owner
    driver_branch: int | None = None
    """Branch of the driver where an image brings it and says which."""


def check_software(pool: Pool, cluster: Cluster, operator: Operator, catalog: Catalog, problems: Problems) -> None:
    """Record a pool to which two owners would bring the same thing, or nobody would; its machine type is known."""


def node_image(pool: Pool, cluster: Cluster, catalog: Catalog) -> NodeImage | None:
    """Return the image that the program gives the nodes; None where it gives none, or the family is wrong."""
    if isinstance(cluster, EksCluster):
        return catalog.node_images.get(("aws", pool.image.family or "al2023"))
    if isinstance(cluster, GkeCluster):
        return catalog.node_images.get(("gcp", pool.image.family or "cos"))
    return None


def node_software(pool: Pool, cluster: Cluster, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who brings what to the nodes of a pool; what is contradictory is for `check_software`."""
    image = node_image(pool, cluster, catalog)
    if image is None:
        return NodeSoftware(
            driver="image" if operator.driver.owner == "host" else "operator",
            toolkit="image" if operator.toolkit == "host" else "operator",
            device_plugin="operator",
        )
    if image.provider == "gcp":
        return _on_gke(pool, image)
    brought = set(image.brings)
    plugin = pool.device_plugin or ("provider" if "device-plugin" in brought else "operator")
    said = pool.image.driver
    return NodeSoftware(
        driver="image" if "driver" in brought else "operator",
        toolkit="image" if "toolkit" in brought else "operator",
        device_plugin="image" if plugin == "provider" else "operator",
        driver_branch=int(said.split(".")[0]) if said is not None else image.driver_branch,
    )


def _on_gke(pool: Pool, image: NodeImage) -> NodeSoftware:
    if pool.device_plugin == "provider":
        return NodeSoftware(driver="gke", toolkit="gke", device_plugin="gke")
    return NodeSoftware(
        # The operator has driver containers for Ubuntu, and none for Container-Optimized OS.
        driver="operator" if image.family == "ubuntu" else "image",
        toolkit="operator",
        device_plugin="operator",
    )
