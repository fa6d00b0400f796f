"""Decide who installs the driver, toolkit and device plugin on EKS nodes. In most cases the node image contains
them.

Sources: NVIDIA GPU Operator docs (Amazon EKS) and its v26.7.0 source; awslabs/amazon-eks-ami; bottlerocket.dev
(kubelet-device-plugins) and bottlerocket-core-kit; read 2026-11-21.
"""

from __future__ import annotations

from gpu_platform.catalog import Catalog, NodeImage
from gpu_platform.planning.clouds.eks.images import DEFAULT_FAMILY, driver_branch, node_image
from gpu_platform.planning.nodes.software import NodeSoftware, branch_of, declared_software
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Operator
from gpu_platform.stack.pool import Pool


def eks_software(pool: Pool, operator: Operator, catalog: Catalog) -> NodeSoftware:
    """Return who provides each component: the image if it contains the component, otherwise the operator."""
    image = node_image(pool, catalog)
    if image is None:
        return declared_software(operator)
    plugin = pool.device_plugin or ("provider" if "device-plugin" in image.includes else "operator")
    declared = pool.image.driver
    return NodeSoftware(
        driver="image" if "driver" in image.includes else "operator",
        toolkit="image" if "toolkit" in image.includes else "operator",
        device_plugin="image" if plugin == "provider" else "operator",
        driver_branch=branch_of(declared) if declared is not None else driver_branch(pool, image, catalog),
    )


def explain_software(pool: Pool, software: NodeSoftware) -> str:
    """Return why the image or the operator provides each component, as text."""
    family = pool.image.family or DEFAULT_FAMILY
    match software.device_plugin:
        case "dra":
            return "mode dra: the DRA driver publishes the GPUs, and the toolkit of the image is set up for CDI"
        case "image":
            return (
                f"{family} contains all three components; no operand of the operator runs on these nodes, so "
                "there is no DCGM exporter"
            )
        case _:
            return f"{family} contains the driver and the toolkit, but no device plugin"


def check_software(
    pool: Pool, software: NodeSoftware, operator: Operator, catalog: Catalog, problems: Problems
) -> None:
    """Record a problem for each component that both the image and the operator, or neither of them, would provide
    on a pool's nodes.
    """
    image = node_image(pool, catalog)
    if image is None:
        return
    of_operator = Problems("operator", problems.found)
    _check_plugin(pool, image, problems)
    _check_owners(pool, image, operator, of_operator)
    branch, version = software.driver_branch, operator.driver.version
    if version is not None and branch is not None and branch_of(version) != branch:
        of_operator.at("driver").at("version").add(
            f"{version!r} for pool {pool.name}, whose image has branch {branch}",
            f"a driver of branch {branch}: on EKS the image determines the driver ({image.source})",
            "remove version, or name your own image in image.ami and its driver in image.driver",
        )


def _check_plugin(pool: Pool, image: NodeImage, problems: Problems) -> None:
    own = "device-plugin" in image.includes
    # Since 1.63, Bottlerocket has had a setting that disables its device plugin.
    # Older Bottlerocket images do not start with this setting.
    if own and pool.device_plugin == "operator":
        problems.at("device_plugin").add(
            f"'operator' on {image.family}, whose image runs its own device plugin",
            "provider: two device plugins on one node count its GPUs twice",
            "remove device_plugin, or write image: {family: al2023}",
        )
    if not own and pool.device_plugin == "provider":
        problems.at("device_plugin").add(
            f"'provider' on {image.family}",
            "operator: this image has no device plugin, so no GPUs would be advertised",
            "remove device_plugin, or write image: {family: bottlerocket}",
        )


def _check_owners(pool: Pool, image: NodeImage, operator: Operator, problems: Problems) -> None:
    if operator.driver.owner == "operator" and "driver" in image.includes:
        problems.at("driver").at("owner").add(
            f"'operator' for pool {pool.name}, whose {image.family} image has a driver",
            f"host: two drivers on one node conflict over the kernel module ({image.source})",
            "remove owner: every pool then uses the driver of its image",
        )
    if operator.toolkit == "operator" and "toolkit" in image.includes:
        problems.at("toolkit").add(
            f"'operator' for pool {pool.name}, whose {image.family} image has the toolkit",
            "host: two toolkits on one node overwrite each other's runtime configuration",
            "remove toolkit",
        )
