"""Who brings what of NVIDIA's stack to a pool's nodes: the node image, the cloud, or the GPU Operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_platform.catalog import Catalog
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.cluster import Cluster, Operator
from gpu_platform.spec.pool import Pool

Owner = Literal["operator", "image", "gke"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSoftware:
    """One owner each, never two: two device plugins on one node count its GPUs twice."""

    driver: Owner
    toolkit: Owner
    device_plugin: Owner
    driver_branch: int | None = None
    """Branch of the driver where an image brings it and says which."""


def check_software(pool: Pool, cluster: Cluster, operator: Operator, catalog: Catalog, problems: Problems) -> None:
    """Record a pool to which two owners would bring the same thing, or nobody would; its machine type is known."""


def node_software(pool: Pool, cluster: Cluster, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who brings what to the nodes of a pool without problems."""
    return NodeSoftware(
        driver="image" if operator.driver.owner == "host" else "operator",
        toolkit="image" if operator.toolkit == "host" else "operator",
        device_plugin="operator",
    )
