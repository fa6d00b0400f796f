"""Zones and regions of each cloud, recognized by the form of their names.

Sources: AWS Local Zones user guide, read 2026-11-23; Compute Engine docs, Regions and zones, and AI zones, read
2026-11-29; Azure docs, availability zones, read 2026-11-30.
"""

from __future__ import annotations

import re
from typing import Final

_AWS_REGION: Final = r"[a-z]{2,}(?:-[a-z]+)+-\d"
AWS_ZONE: Final = re.compile(rf"(?P<region>{_AWS_REGION})(?P<local>-[a-z]{{3}}-\d)?[a-z]")
AZURE_ZONE: Final = re.compile(r"[1-9]")
"""A zone of Azure, such as 1. The name does not contain the region, and each subscription has its own numbers."""
_GOOGLE_REGION: Final = r"[a-z]+-[a-z]+\d+"
_GOOGLE_ZONE: Final = re.compile(rf"(?P<region>{_GOOGLE_REGION})-([a-z]|ai\d[a-z])")
GOOGLE_LOCATION: Final = rf"^{_GOOGLE_REGION}(-([a-z]|ai\d[a-z]))?$"
"""Pattern of a region or zone of Google Cloud. AI zones, such as us-central1-ai1a, also belong to a region."""


def is_zone(name: str) -> bool:
    """Return whether a name is the name of a zone in any cloud."""
    return any(pattern.fullmatch(name) is not None for pattern in (_GOOGLE_ZONE, AWS_ZONE, AZURE_ZONE))


def is_google_zone(name: str) -> bool:
    """Return whether a name is the name of a Google Cloud zone."""
    return _GOOGLE_ZONE.fullmatch(name) is not None


def google_region(location: str) -> str:
    """Return the region of a location, which is a region or a zone: us-central1 for us-central1-a and
    us-central1-ai1a.
    """
    zone = _GOOGLE_ZONE.fullmatch(location)
    return location if zone is None else zone["region"]


def region_of(zone: str) -> str:
    """Return the region of a zone in any cloud, or an empty string if the name is not a zone."""
    found = _GOOGLE_ZONE.fullmatch(zone) or AWS_ZONE.fullmatch(zone)
    return "" if found is None else found["region"]


def zone_examples(name: str) -> str:
    """Return an example of a zone in the region that `name` begins with, or else an example for each cloud."""
    if (google := re.match(_GOOGLE_REGION, name)) is not None:
        return f"{google[0]}-a"
    aws = re.match(_AWS_REGION, name)
    return f"{aws[0]}a" if aws is not None else "us-east-2a on EKS, us-central1-a on GKE, or 1 on AKS"
