"""Check and explain the address range for Services in a new cluster.

By default, EKS chooses 10.100.0.0/16 or 172.20.0.0/16, depending on the range of the VPC. The address range of a
cluster cannot be changed.

Sources: EKS API, KubernetesNetworkConfigRequest (serviceIpv4Cidr); aws/containers-roadmap#216; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from gpu_platform.planning.clouds.api_access import is_private
from gpu_platform.planning.clouds.eks.vpc import POD_RANGES
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import CreateEks, EksCluster

_CHOSEN_BY_EKS: Final = (IPv4Network("10.100.0.0/16"), IPv4Network("172.20.0.0/16"))
_PREFIXES: Final = (12, 24)
_EXAMPLES: Final = ("172.20.0.0/16", "10.100.0.0/16")


def check_services_cidr(create: CreateEks, problems: Problems) -> None:
    """Record a problem for an address range for Services that EKS refuses. `problems` points at
    `create.services_cidr`.
    """
    if create.services_cidr is None:
        return
    services, vpc = IPv4Network(create.services_cidr), _vpc(create)
    widest, narrowest = _PREFIXES
    private = is_private(create.services_cidr) and not services.subnet_of(POD_RANGES)
    free = next(one for one in _EXAMPLES if vpc is None or not IPv4Network(one).overlaps(vpc))
    if not private or not widest <= services.prefixlen <= narrowest:
        problems.add(
            f"{create.services_cidr!r}",
            f"a /{widest} to /{narrowest} of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
            f"for example, write services_cidr: {free}",
        )
    elif vpc is not None and services.overlaps(vpc):
        problems.add(
            f"{create.services_cidr!r}, which overlaps cidr {create.cidr}",
            "a range outside the VPC",
            f"for example, write services_cidr: {free}",
        )


def services_decisions(cluster: EksCluster, create: CreateEks) -> Iterator[Decision]:
    """Yield a warning if the Service address range that EKS chooses may contain networks in `api_access`."""
    if create.services_cidr is not None:
        return
    taken = [
        network
        for network in create.api_access
        if any(IPv4Network(network).subnet_of(one) for one in _CHOSEN_BY_EKS)
    ]
    if taken:
        yield Decision(
            subject=f"cluster {cluster.name}",
            what="warning: Service range",
            chosen="10.100.0.0/16 or 172.20.0.0/16, which EKS chooses and which cannot be changed later",
            why=f"{', '.join(taken)} of create.api_access is in one of them, and pods could not reach an "
            "address there that is also the address of a Service: before the first `up`, write "
            "create.services_cidr, with a range that no "
            "network uses",
        )


def _vpc(create: CreateEks) -> IPv4Network | None:
    """Return the range of the VPC, or None for an existing VPC, whose range is not known."""
    return IPv4Network(create.cidr) if create.network is None else None
