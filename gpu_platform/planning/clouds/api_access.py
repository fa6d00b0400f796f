"""Check which networks may reach the API server of a new cluster. The checks are the same on every cloud.

Private networks connect to the private endpoint in the VPC, and all other networks to the public endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, collapse_addresses

from gpu_platform.planning.problems import Problems

WIDEST_PREFIX = 8
"""Shortest prefix length that is accepted. A wider network is a large part of the internet, so no single
organisation owns it.
"""


PRIVATE_RANGES = tuple(
    IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
"""Address ranges that organisations use internally (RFC 1918 and RFC 6598)."""


def is_private(network: str) -> bool:
    """Return whether the whole network is in a private range."""
    return any(IPv4Network(network).subnet_of(private) for private in PRIVATE_RANGES)


def wide_networks(networks: Iterable[str]) -> tuple[str, ...]:
    """Merge adjacent networks, and return the networks that are wider than a /8.

    For example, two /1 networks become 0.0.0.0/0.
    """
    return tuple(
        str(network)
        for network in collapse_addresses(IPv4Network(each) for each in networks)
        if network.prefixlen < WIDEST_PREFIX
    )


def check_api_access(networks: Sequence[str], from_anywhere: bool, problems: Problems) -> None:
    """Check that `api_from_anywhere` is set if and only if `networks` open the API server to the internet.

    `problems` points to `cluster.create`.
    """
    wide = wide_networks(networks)
    if wide and not from_anywhere:
        problems.at("api_access").add(
            f"{', '.join(networks)}, which is {', '.join(wide)}",
            f"networks of a /{WIDEST_PREFIX} or narrower; a wider network exposes the API server to attacks",
            "write the networks from which `up` and the users connect, or add api_from_anywhere: true",
        )
    if from_anywhere and not wide:
        problems.at("api_from_anywhere").add(
            f"true, with api_access {', '.join(networks) or 'empty'}",
            f"true only with a network wider than a /{WIDEST_PREFIX}, such as 0.0.0.0/0",
            "remove api_from_anywhere",
        )
