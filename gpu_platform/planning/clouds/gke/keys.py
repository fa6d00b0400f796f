"""Check the Cloud KMS keys in the stack file.

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
"""Prefixes of the regions that a multi-region may contain, by the multi-region's name without digits.

Unknown multi-regions are accepted.
"""


def check_key(key: str | None, cluster: GkeCluster, problems: Problems, *, regional: bool = False) -> None:
    """Record a problem for a key that the cluster cannot use. `problems` points to the field that contains the
    key.

    Disks also accept keys in `global` and in multi-regions that contain their region. `regional` is true for
    resources that accept only keys in their own region.
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
    others = "" if regional else ", in location global or in a multi-region that contains it"
    problems.add(
        f"a key in {location}",
        f"a key in {region}{others}; the encrypted resource accepts no other key",
        f"use a key in {region}",
    )
