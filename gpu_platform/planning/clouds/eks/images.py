"""Node images of EKS: a family of EKS's own, or an AMI that is built on one.

Whether its driver runs the machine's GPUs is judged with the rest of a pool's software, by `check_driver`.
"""

from __future__ import annotations

from gpu_platform.catalog import Catalog
from gpu_platform.catalog.models import NodeImage
from gpu_platform.planning.problems import Problems
from gpu_platform.spec.pool import Pool

DEFAULT_FAMILY = "al2023"


def image_of(pool: Pool, catalog: Catalog) -> NodeImage:
    """Return the image family of a pool without problems; an own AMI is built on it."""
    return catalog.node_images["aws", pool.image.family or DEFAULT_FAMILY]


def check_image(pool: Pool, problems: Problems) -> None:
    """Record a driver that none is asked to bring."""
    image, here = pool.image, problems.at("image")
    if image.driver is not None and image.ami is None:
        here.at("driver").add(
            f"{image.driver!r} without ami",
            "driver only beside ami: EKS's own images bring theirs",
            "remove driver, or name the AMI that brings it",
        )
