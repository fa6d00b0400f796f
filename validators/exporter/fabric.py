"""Converts counters of the fabric's NICs to metrics. The NICs are EFA interfaces, and InfiniBand or RoCE NICs with
mlx5.

The counters are read from sysfs below the PCI devices, which looks the same in a container as on the host. A
counter that the driver does not provide has no series. It is never exported as zero. GVNIC interfaces have no such
counters. Sources: Linux, drivers/infiniband/hw/efa/efa_verbs.c (hw_counters of a port) and
Documentation/ABI/stable/sysfs-class-infiniband (counters; data in units of four octets), mlx5/counters.c
(hw_counters); read 2026-11-26.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from validators.agent.fabric import EFA, INFINIBAND, MLX5, SYSFS_VARIABLE, read_pci

_LABELS: Final = ("node", "device", "port", "kind")
_KINDS: Final = {EFA: EFA, MLX5: MLX5, INFINIBAND: MLX5}  # value of the label `kind`: the name of the driver
_OCTETS: Final = 4.0
# Each entry contains the metric, its help text and, for each kind of NIC, the counter's file and its factor.
_COUNTERS: Final[tuple[tuple[str, str, dict[str, tuple[str, float]]], ...]] = (
    (
        "fabric_transmitted_bytes",
        "Bytes that the port sent.",
        {EFA: ("hw_counters/tx_bytes", 1.0), MLX5: ("counters/port_xmit_data", _OCTETS)},
    ),
    (
        "fabric_received_bytes",
        "Bytes that the port received.",
        {EFA: ("hw_counters/rx_bytes", 1.0), MLX5: ("counters/port_rcv_data", _OCTETS)},
    ),
    (
        "fabric_dropped_packets",
        "Packets that were received and dropped (EFA), or not sent (mlx5).",
        {EFA: ("hw_counters/rx_drops", 1.0), MLX5: ("counters/port_xmit_discards", 1.0)},
    ),
    (
        "fabric_timeouts",
        "Transfers that were retransmitted because no response arrived in time.",
        {EFA: ("hw_counters/retrans_timeout_events", 1.0), MLX5: ("hw_counters/local_ack_timeout_err", 1.0)},
    ),
    ("fabric_retransmitted_bytes", "Bytes that were retransmitted.", {EFA: ("hw_counters/retrans_bytes", 1.0)}),
    (
        "fabric_unresponsive_remotes",
        "Connections whose remote end did not respond.",
        {EFA: ("hw_counters/unresponsive_remote_events", 1.0)},
    ),
    ("fabric_link_downs", "Number of times that the link went down.", {MLX5: ("counters/link_downed", 1.0)}),
)


class FabricCollector(Collector):
    """Counters of all NIC ports of the node at the time of a scrape."""

    def __init__(self, node: str) -> None:
        self._node = node

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics, because they depend on the node."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that has a value for at least one port."""
        ports = list(_ports())
        for name, what, files in _COUNTERS:
            family = CounterMetricFamily(name, what, labels=_LABELS)
            for kind, device, port, folder in ports:
                if kind in files and (value := _number(folder, *files[kind])) is not None:
                    family.add_metric([self._node, device, port, kind], value)
            if family.samples:
                yield family


def _ports() -> Iterator[tuple[str, str, str, str]]:
    """Yield a tuple for each port: kind of NIC, device, port and folder.

    Yield nothing if sysfs is not readable.
    """
    root = os.path.join(os.environ.get(SYSFS_VARIABLE, "/sys"), "bus/pci/devices")
    try:
        addresses = [(_KINDS[kind], address) for kind, address, _ in read_pci() if kind in _KINDS]
    except (OSError, ValueError):
        return
    for kind, address in addresses:
        devices = os.path.join(root, address, "infiniband")
        for device in _listed(devices):
            for port in _listed(os.path.join(devices, device, "ports")):
                yield kind, device, port, os.path.join(devices, device, "ports", port)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _number(folder: str, file: str, factor: float) -> float | None:
    try:
        with open(os.path.join(folder, file), encoding="ascii") as opened:
            return int(opened.read()) * factor
    except (OSError, ValueError):
        return None
