"""Report controller ports that a firewall blocks although the API server must reach them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gpu_platform.catalog import Catalog
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.decision import Decision

# GKE's firewall rules open these ports to a private control plane. The network's owner must open all other ports.
_OPEN_PORTS: Final = frozenset({443, 10250})
# Usual ports of controllers that users install themselves.
# Source: GKE docs, Add firewall rules for specific use cases; read 2026-11-28.
# Source: terraform-google-kubernetes-engine, firewall_inbound_ports; read 2026-11-28.
_OF_USERS: Final = frozenset({8443, 9443})


def ports_to_open(catalog: Catalog) -> tuple[int, ...]:
    """Return the ports of all controllers that the program can install, and the usual ports of controllers that
    users install.
    """
    ports = {port for chart in catalog.charts.values() for port in chart.api_ports}
    return tuple(sorted((ports | _OF_USERS) - _OPEN_PORTS))


def name_closed_ports(subject: str, ports: Mapping[str, Collection[int]], cloud: Cloud) -> tuple[Decision, ...]:
    """Return a decision that lists the ports that the network's owner must open.

    `ports` maps a controller's title to its ports.
    """
    closed = {title: sorted({*found} - _OPEN_PORTS) for title, found in ports.items()}
    numbers = sorted({port for found in closed.values() for port in found})
    if not numbers or cloud.network.closed_ports is None:
        return ()
    titles = ", ".join(title for title, found in closed.items() if found)
    return (
        Decision(
            subject=subject,
            what="firewall",
            chosen="TCP " + ", ".join(map(str, numbers)) + " from the control plane to the nodes",
            why=f"webhooks and API servers of {titles} listen on these ports, and {cloud.network.closed_ports}; "
            "add a firewall rule to the network",
        ),
    )
