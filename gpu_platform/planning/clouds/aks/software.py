"""Decide who installs the driver, toolkit and device plugin on AKS nodes: AKS or the GPU Operator.

With `gpuProfile.driver: None`, AKS installs nothing, and the operator owns all three. With `Install`, AKS installs
its driver and the container toolkit at the node's first boot. The choice is fixed when the pool is created. AKS'
own device plugin is never used, because it knows neither time-slicing nor MPS.

Sources: AKS docs, "Use GPUs for compute-intensive workloads" (skip GPU driver installation); NVIDIA GPU Operator
docs, Microsoft Azure Kubernetes Service; AKS API agentPools 2025-09-01, GPUProfile; read 2026-11-30.
"""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.planning.nodes.software import NodeSoftware
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra

DEFAULT_FAMILY: Final = "ubuntu2404"
NO_DRIVER_FOR: Final = "azurelinux3"


def aks_software(pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who installs each component: the operator, or AKS if `operator.driver.owner` is `host`."""
    del pool, catalog
    by_aks = operator.driver.owner == "host"
    return NodeSoftware(
        driver="image" if by_aks else "operator",
        toolkit="image" if by_aks else "operator",
        device_plugin="operator",
    )


def explain_software(pool: Pool, software: NodeSoftware) -> str:
    """Return why AKS or the operator installs the components, as text."""
    del pool
    if software.driver == "image":
        return "operator.driver.owner is host, so AKS installs its driver and the toolkit when a node boots"
    return "AKS installs nothing (gpuProfile.driver: None), so that one release of the operator owns all of it"


def check_software(pool: Pool, operator: Operator, problems: Problems) -> None:
    """Record a problem if two installers, or none, would install the GPU software on a pool's nodes."""
    here, family = Problems("operator", problems.found), pool.image.family or DEFAULT_FAMILY
    by_aks = operator.driver.owner == "host"
    if by_aks and operator.toolkit == "operator":
        here.at("toolkit").add(
            f"'operator' for pool {pool.name}, where AKS installs the driver together with the toolkit",
            "host; two toolkits on one node overwrite each other's runtime configuration",
            "remove toolkit, or write driver: {owner: operator}",
        )
    if not by_aks and operator.toolkit == "host":
        here.at("toolkit").add(
            f"'host' for pool {pool.name}",
            "operator; AKS installs the toolkit only together with its driver, so it would be missing",
            "remove toolkit, or write driver: {owner: host}",
        )
    if isinstance(pool.sharing, Dra) and not by_aks:
        here.at("driver").at("owner").add(
            f"{operator.driver.owner or 'nothing'!r} with mode dra for pool {pool.name}",
            "host; the operator's GPUCluster installs no toolkit, and AKS installs one only together with its "
            "driver",
            "write owner: host, and the version of the driver that AKS installs",
        )
    if family == NO_DRIVER_FOR:
        problems.at("image").at("family").add(
            f"{family!r} for a pool with GPUs",
            "ubuntu2204 or ubuntu2404; the operator has no driver containers for Azure Linux, and AKS supports "
            "only some GPUs there",
            "remove family",
        )
