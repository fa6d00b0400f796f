"""Node images of EKS: which AMI, and whether its driver runs the GPUs.

Sources: awslabs/amazon-eks-ami, doc/usage/g7-ami.md; EKS user guide, managed node groups with custom AMIs; read
2026-11-21.
"""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import MachineType, NodeImage
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.pool import Pool

DEFAULT_FAMILY = "al2023"
_FAMILIES = ("al2023", "bottlerocket")


def image_of(pool: Pool, catalog: Catalog) -> NodeImage:
    """Return the image family of a pool without problems; an own AMI is built on it."""
    return catalog.node_images["aws", pool.image.family or DEFAULT_FAMILY]


def check_image(pool: Pool, machine: MachineType, catalog: Catalog, problems: Problems) -> None:
    """Record an image that EKS has not, or whose driver does not run the machine's GPUs."""
    image, here = pool.image, problems.at("image")
    if image.driver is not None and image.ami is None:
        here.at("driver").add(
            f"{image.driver!r} without ami",
            "driver only beside ami: EKS's own images bring theirs",
            "remove driver, or name the AMI that brings it",
        )
    if image.family is not None and image.family not in _FAMILIES:
        here.at("family").add(
            f"{image.family!r} on EKS", "al2023 or bottlerocket: the rest are GKE's", "write family: al2023"
        )
        return
    family = image_of(pool, catalog)
    if machine.arch not in family.image_types:
        here.at("family").add(
            f"{family.family} on {machine.name} ({machine.arch})",
            "an image family with NVIDIA images of that architecture",
            "write another family",
        )
    _check_driver(pool, machine, family, catalog, here)


def _check_driver(pool: Pool, machine: MachineType, family: NodeImage, catalog: Catalog, here: Problems) -> None:
    gpu = catalog.gpu_of(machine)
    said = pool.image.driver if pool.image.ami is not None else None
    branch = int(said.partition(".")[0]) if said is not None else family.driver_branch
    newest = gpu.maximum_driver_branch
    if branch is None or (branch >= gpu.minimum_driver_branch and (newest is None or branch <= newest)):
        return
    needed = (
        f"{gpu.minimum_driver_branch} or newer" if newest is None else f"{gpu.minimum_driver_branch} to {newest}"
    )
    allowed = f"driver branch {needed} for {gpu.product}"
    if said is not None:
        here.at("driver").add(f"{said!r} on {machine.name}", allowed, "build the AMI with such a driver")
    elif pool.image.ami is not None:
        here.at("driver").add(
            f"nothing, so driver {branch} of {family.family} on {machine.name}",
            allowed,
            "say which driver the AMI brings",
        )
    else:
        here.at("ami").add(
            f"nothing, so driver {branch} of EKS's own {family.family} image on {machine.name}",
            f"{allowed}: an AMI of your own",
            "build one as awslabs/amazon-eks-ami, doc/usage/g7-ami.md shows; write image: {ami: ..., driver: ...}",
        )
