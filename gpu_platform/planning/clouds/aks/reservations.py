"""Check and plan pools whose nodes use a capacity reservation group.

Sources: Azure docs, "On-demand capacity reservation" (2026-02-17); AKS docs, "Assign capacity reservation groups
to node pools" (2026-05-29); read 2026-11-30.
"""

from __future__ import annotations

import re
from typing import Final

from gpu_platform.planning.problems import Problems
from gpu_platform.stack.azure_resources import GUID
from gpu_platform.stack.pool import Pool, Reservation

_GROUP: Final = re.compile(
    rf"/subscriptions/{GUID}/resourceGroups/[^/]+/providers/Microsoft\.Compute/capacityReservationGroups/[^/]+"
)


def reservation_group(pool: Pool) -> str | None:
    """Return the resource ID of the pool's capacity reservation group, or None."""
    return pool.capacity.reservation if isinstance(pool.capacity, Reservation) else None


def zones_of(pool: Pool) -> tuple[str, ...]:
    """Return the availability zones of a valid pool: the zone of its reservation, or the declared zones."""
    return (pool.capacity.zone,) if isinstance(pool.capacity, Reservation) else pool.zones or ()


def check_reservation(pool: Pool, problems: Problems) -> None:
    """Record a problem for a reservation that the nodes of the pool could not use. `problems` points to the
    pool.
    """
    capacity = pool.capacity
    if not isinstance(capacity, Reservation):
        return
    if not _GROUP.fullmatch(capacity.reservation):
        problems.at("capacity").at("reservation").add(
            f"{capacity.reservation!r}",
            "the resource ID of a capacity reservation group: /subscriptions/S/resourceGroups/G/providers/"
            "Microsoft.Compute/capacityReservationGroups/N",
            "see az capacity reservation group list --query [].id",
        )
    if pool.zones is not None and pool.zones != (capacity.zone,):
        problems.at("zones").add(
            ", ".join(pool.zones), f"{capacity.zone} only, the zone of the reservation", "remove zones"
        )
    if pool.placement is not None and pool.placement.type == "proximity":
        problems.at("placement").add(
            "a proximity placement group with a reservation",
            "one of the two, because Azure supports no reserved capacity in proximity placement groups",
            "remove placement",
        )
