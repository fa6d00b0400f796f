"""The operating system of a pool's nodes, named as in /etc/os-release."""

from __future__ import annotations

from gpu_platform.planning.clouds.aks.plan import AksPoolPlan
from gpu_platform.planning.clouds.eks.plan import EksPoolPlan, KarpenterPoolPlan
from gpu_platform.planning.clouds.gke.plan import GkePoolPlan

_OF_AMI = {"AL2023": ("amzn", "2023"), "BOTTLEROCKET": ("bottlerocket", None)}
_OF_ALIAS = {"al2023": ("amzn", "2023"), "bottlerocket": ("bottlerocket", None)}
_OF_SKU = {
    "Ubuntu2204": ("ubuntu", "22.04"),
    "Ubuntu2404": ("ubuntu", "24.04"),
    "AzureLinux3": ("azurelinux", "3.0"),
}
_OF_IMAGE = {"COS": ("cos", None), "UBUNTU": ("ubuntu", None)}


def os_release(pool: object | None) -> tuple[str, str | None] | None:
    """Return the ID and VERSION_ID of the nodes' operating system, or None if the system is not known.

    VERSION_ID is None if the node image is available in several versions.
    """
    if isinstance(pool, EksPoolPlan):
        return _OF_AMI.get(pool.ami_type.partition("_")[0])
    if isinstance(pool, KarpenterPoolPlan):
        terms = pool.node_class.get("amiSelectorTerms", ())
        alias = next((str(term["alias"]) for term in terms if "alias" in term), "")
        return _OF_ALIAS.get(alias.partition("@")[0])
    if isinstance(pool, AksPoolPlan):
        return _OF_SKU.get(pool.os_sku)
    if isinstance(pool, GkePoolPlan):
        return _OF_IMAGE.get(pool.image_type.partition("_")[0])
    return None
