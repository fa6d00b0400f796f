"""The VPC of a new EKS cluster: zones, and a subnet plan that no further zone disturbs.

Sources: EKS user guide, VPC and subnet requirements (two zones at least; tags of subnets); read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from gpu_platform.planning.clouds.eks.plan import VpcPlan, ZoneSubnets
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.spec.cluster import CreateEks, EksCluster

ZONE_LETTERS = "abcdefg"
LEAST_ZONES = 2
PREFIXES = (16, 18)
"""Lengths of a VPC's prefix that are allowed, from widest to narrowest."""
_PRIVATE_BITS = 3  # eighths: one for each zone letter, and the last for all public subnets
_PUBLIC_PREFIX = 24


def vpc_zones(cluster: EksCluster, named: Sequence[str]) -> tuple[str, ...]:
    """Return the zones of a new VPC: those that pools and the stack name, and further letters up to EKS's two."""
    wanted = {*named, *(cluster.create.zones if cluster.create is not None else ())}
    for letter in ZONE_LETTERS:
        if len(wanted) >= LEAST_ZONES:
            break
        wanted.add(cluster.region + letter)
    return tuple(sorted(wanted))


def plan_vpc(cluster: EksCluster, create: CreateEks, named: Sequence[str]) -> Decided[VpcPlan]:
    """Return the VPC of a new cluster whose pools name the zones `named`."""
    zones = vpc_zones(cluster, named)
    subject = f"cluster {cluster.name}"
    added = [zone for zone in zones if zone not in {*named, *create.zones}]
    why = "zones that pools and create.zones name"
    if added:
        why += (
            f"; EKS asks for {LEAST_ZONES}: {', '.join(added)} by letter; "
            "where the account has no such zone, name others by create.zones"
        )
    if set(zones) != set(create.zones):
        why += (
            "; the control plane keeps its first zones and cannot lose one: write all of them down as "
            "create.zones before pools move"
        )
    by_zones = Decision(subject=subject, what="zones", chosen=", ".join(zones), why=why)
    nat = create.nat or ("per-zone" if cluster.production else "one")
    reasons = {
        "per-zone": "production: a zone that fails takes no other zone's way out with it",
        "one": "not production: one NAT gateway costs least",
    }
    by_nat = Decision(
        subject=subject,
        what="NAT gateways",
        chosen=nat,
        why="the stack says so" if create.nat is not None else reasons[nat],
    )
    subnets = tuple(zone_subnets(create.cidr, zone) for zone in zones)
    return Decided(VpcPlan(cidr=create.cidr, zones=subnets, nat=nat), (by_zones, by_nat))


def zone_subnets(cidr: str, zone: str) -> ZoneSubnets:
    """Return the subnets of a zone of a VPC.

    They follow from the zone's letter alone, so that a zone that comes later moves nobody's addresses.
    A private one has an eighth of the VPC: 8,190 addresses of a /16, of which every pod takes one.
    """
    index = ZONE_LETTERS.index(zone[-1])
    eighths = list(IPv4Network(cidr).subnets(prefixlen_diff=_PRIVATE_BITS))
    public = list(eighths[-1].subnets(new_prefix=_PUBLIC_PREFIX))
    return ZoneSubnets(zone=zone, private_cidr=str(eighths[index]), public_cidr=str(public[index]))
