"""Distinguish Availability Zones from Local Zones, which have few services and machine types."""

from __future__ import annotations

from typing import Final

from gpu_platform.catalog.zones import AWS_ZONE

ZONE_LETTERS: Final = "abcdefg"
"""Letters that the names of zones end in, such as `a` in us-east-1a."""


def region_of_zone(zone: str) -> str:
    """Return the region of a zone, such as us-east-1 for us-east-1a and for the Local Zone us-east-1-dfw-2a."""
    found = AWS_ZONE.fullmatch(zone)
    return zone[:-1] if found is None else found["region"]


def is_local_zone(zone: str) -> bool:
    """Return whether a zone is a Local Zone. Source: AWS Local Zones user guide, read 2026-11-23."""
    found = AWS_ZONE.fullmatch(zone)
    return found is not None and found["local"] is not None


def availability_zones(region: str) -> str:
    """Return the pattern of a region's Availability Zones for EC2 filters.

    The pattern us-east-1? does not match us-east-1-dfw-2a.
    """
    return f"{region}?"
