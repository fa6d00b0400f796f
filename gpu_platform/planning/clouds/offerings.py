"""Warn about machine types that a cluster's region or zones are not known to offer.

These are warnings and not errors, because clouds may have added regions and zones since the lists were made. On
EC2 only regions and Local Zones are checked, because the letters of Availability Zones differ by account.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.catalog import Catalog, Offered
from gpu_platform.planning.plan import EnvironmentPlan


def offering_warnings(plan: EnvironmentPlan, catalog: Catalog) -> tuple[str, ...]:
    """Return a warning for each machine type of a pool that its region or zones are not known to offer."""
    cluster = plan.cluster.cloud
    if cluster is None:
        return ()
    found: list[str] = []
    for pool in plan.pools:
        for name in (pool.machine_type, *pool.cloud_nodes.alternatives):
            offered = catalog.offered(catalog.machine_types[name])
            if offered is None or pool.cloud is None:
                continue
            if cluster.region not in offered.zones:
                regions = ", ".join(offered.zones)
                place = "machine_type" if name == pool.machine_type else "capacity.alternatives"
                found.append(
                    f"{pool.path}.{place}: region {cluster.region} is not known to offer {name}; "
                    f"offered in {regions} ({_list(offered)})"
                )
            else:
                found += _zones(f"{pool.path}.zones", name, cluster.region, pool.cloud_nodes.zones, offered)
    return tuple(found)


def _zones(path: str, machine_type: str, region: str, zones: tuple[str, ...], offered: Offered) -> Iterator[str]:
    known = offered.zones[region]
    for zone in zones if known else ():
        if zone not in known:
            yield (
                f"{path}: zone {zone} is not known to offer {machine_type}; in {region} offered in "
                f"{', '.join(known)} ({_list(offered)})"
            )


def _list(offered: Offered) -> str:
    return f"list of {offered.date.isoformat()}; the cloud may have added regions or zones since then"
