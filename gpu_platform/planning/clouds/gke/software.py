"""Decide who installs the driver, toolkit and device plugin on GKE nodes: GKE, the program, or the GPU Operator.

Sources: NVIDIA GPU Operator docs (Google GKE) and its v26.7.0 source; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_platform.catalog import Catalog, NodeImage
from gpu_platform.planning.nodes.software import NodeSoftware, declared_software
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.pool import Pool

DEFAULT_FAMILY = "cos"
NVIDIA_DIR = "/home/kubernetes/bin/nvidia"
"""Driver directory on GKE nodes. It is persistent and executable, and the toolkit may write to it."""


def node_image(pool: Pool, catalog: Catalog) -> NodeImage | None:
    """Return the image family of the nodes, or None for a family that GKE does not support."""
    return catalog.node_images.get(("gcp", pool.image.family or DEFAULT_FAMILY))


def gke_software(pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who installs each component: GKE or the operator, and on COS the program's driver installer."""
    image = node_image(pool, catalog)
    if image is None:
        return declared_software(operator)
    if pool.device_plugin == "provider":
        return NodeSoftware(driver="cloud", toolkit="cloud", device_plugin="cloud", driver_dir=NVIDIA_DIR)
    return NodeSoftware(
        # The operator has driver containers for Ubuntu but none for Container-Optimized OS.
        driver="operator" if image.family == "ubuntu" else "installer",
        toolkit="operator",
        device_plugin="operator",
    )


def explain_software(pool: Pool, software: NodeSoftware) -> str:
    """Return why GKE, the operator or the program's installer provides the components, as text."""
    family = pool.image.family or DEFAULT_FAMILY
    match software.device_plugin, software.driver:
        case "cloud", _:
            return (
                "the stack file sets device_plugin: provider, so GKE shares the GPUs, and no operand of the "
                "operator runs on these nodes"
            )
        case _, "operator":
            return f"{family} contains none of these components, and GKE's own components are disabled"
        case _:
            return (
                f"the platform's own installer installs the driver on {family}; "
                "GKE's driver and plugin are disabled"
            )


def check_software(pool: Pool, operator: Operator, catalog: Catalog, problems: Problems) -> None:
    """Record a problem if two installers, or none, would install the GPU software on a pool's nodes."""
    image = node_image(pool, catalog)
    if image is not None:
        _check_owners(pool, image, operator, Problems("operator", problems.found))


def check_driver_dir(pools: Sequence[tuple[int, Pool]], catalog: Catalog, problems: Problems) -> None:
    """Record a problem for pools with different driver directories, because the operator has one setting for the
    whole cluster.

    Each entry of `pools` is a pair: the pool's index in the stack file, and the pool. `problems` points to the
    root of the file.
    """
    of_operator = [
        (index, pool, image.family == "ubuntu")
        for index, pool in pools
        if pool.device_plugin != "provider" and (image := node_image(pool, catalog)) is not None
    ]
    for index, pool, ubuntu in of_operator:
        _, first, first_ubuntu = of_operator[0]
        if ubuntu != first_ubuntu:
            family = first.image.family or DEFAULT_FAMILY
            problems.at(f"pools[{index}]").at("image").at("family").add(
                f"{pool.image.family or DEFAULT_FAMILY}, unlike {family} of pool {first.name}",
                "one image family for all pools with the operator's device plugin, because "
                "hostPaths.driverInstallDir and toolkit.installDir apply to the whole cluster",
                f"write image: {{family: {family}}}, or device_plugin: provider",
            )


def _check_owners(pool: Pool, image: NodeImage, operator: Operator, problems: Problems) -> None:
    owner = operator.driver.owner
    driver, toolkit = problems.at("driver").at("owner"), problems.at("toolkit")
    if pool.device_plugin == "provider":
        if owner == "operator":
            driver.add(
                f"'operator' for pool {pool.name}, where GKE installs the driver for its own device plugin",
                "host; two drivers on one node would conflict over the kernel module",
                f"remove owner, or write device_plugin: operator for {pool.name}",
            )
        if operator.toolkit == "operator":
            toolkit.add(
                f"'operator' for pool {pool.name}, where GKE's device plugin works without a toolkit",
                "host, or nothing; pools with the operator's device plugin get the toolkit in any case",
                "remove toolkit",
            )
        return
    if operator.toolkit == "host":
        toolkit.add(
            f"'host' for pool {pool.name}",
            "operator; no GKE image contains the toolkit, so the toolkit would be missing",
            "remove toolkit",
        )
    if image.family == "ubuntu" and owner == "host":
        driver.add(
            f"'host' for pool {pool.name}, whose ubuntu image has no driver",
            "operator; with the operator's device plugin GKE installs no driver, so the driver would be missing",
            f"remove owner, or write device_plugin: provider for {pool.name}",
        )
    if image.family != "ubuntu" and owner == "operator":
        driver.add(
            f"'operator' for pool {pool.name} on {image.family}",
            "host; the operator has no driver container for Container-Optimized OS, so the platform's own "
            "installer installs the driver there",
            f"remove owner, or write image: {{family: ubuntu}} for {pool.name}",
        )
