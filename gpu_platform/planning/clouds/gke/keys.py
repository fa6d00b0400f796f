"""Check Cloud KMS keys of the stack file.

Sources: Compute Engine docs, Protect resources by using Cloud KMS keys (region of the key); GKE docs, Encrypt
secrets at the application layer; Filestore docs, Encrypt data with customer-managed keys; Cloud KMS docs,
locations; read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.catalog.zones import google_region
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import GkeCluster

_MULTI_REGIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "asia": ("asia-",),
    "ca": ("northamerica-northeast",),
    "eur": ("europe-",),
    "europe": ("europe-",),
    "in": ("asia-south",),
    "nam": ("us-",),
    "nam-eur-asia": ("us-", "europe-", "asia-"),
    "us": ("us-",),
}
"""Prefixes of the regions that a multi-region may contain, by its name without the number; others are accepted."""


def check_key(key: str | None, cluster: GkeCluster, problems: Problems, *, regional: bool = False) -> None:
    """Record a key that the cluster cannot use; `problems` is at its field.

    Disks take keys of `global` and of multi-regions around their region, too; `regional`: what it encrypts takes
    none of these.
    """
    if key is None:
        return
    if not key.startswith("projects/"):
        problems.add(
            f"{key!r}",
            "a Cloud KMS key: projects/P/locations/L/keyRings/R/cryptoKeys/K",
            "see gcloud kms keys list",
        )
        return
    location, region = key.split("/")[3], google_region(cluster.location)
    around = _MULTI_REGIONS.get(location.rstrip("0123456789"))
    contains = region.startswith(around) if around is not None else "-" not in location
    if location == region or (contains and not regional):
        return
    others = "" if regional else ", in global or in a multi-region around it"
    problems.add(
        f"a key in {location}",
        f"a key in {region}{others}: what it encrypts takes no other",
        f"take a key of {region}",
    )
