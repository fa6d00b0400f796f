"""Check and choose node images of EKS: a family of EKS, or an AMI that is built on one.

`_check_driver` of `planning/pools/checks.py` checks whether the driver of the image supports the GPUs.
"""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import NodeImage
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.pool import Pool

DEFAULT_FAMILY = "al2023"


def node_image(pool: Pool, catalog: Catalog) -> NodeImage | None:
    """Return the image family of the nodes, or of their own AMI; None for a family that EKS does not have."""
    return catalog.node_images.get(("aws", pool.image.family or DEFAULT_FAMILY))


def image_of(pool: Pool, catalog: Catalog) -> NodeImage:
    """Return the image family of a pool without problems."""
    image = node_image(pool, catalog)
    assert image is not None  # noqa: S101 - `check_declared_fields` refuses other families
    return image


def check_image(pool: Pool, problems: Problems) -> None:
    """Record a driver version without an AMI that has it."""
    image, here = pool.image, problems.at("image")
    if image.driver is not None and image.ami is None:
        here.at("driver").add(
            f"{image.driver!r} without ami",
            "driver only beside ami: EKS's own images have a driver",
            "remove driver, or name the AMI that has it",
        )
