"""Serves the metrics of a node, either together with the agent's checks or without them."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from prometheus_client import CollectorRegistry, start_http_server

from validators.agent import cli as agent
from validators.agent.reading import NvmlReader
from validators.agent.report import Identity, Reader
from validators.exporter.collector import FRESH_SECONDS, Latest, NodeCollector, Thresholds
from validators.exporter.fabric import FabricCollector

_SERVE = "serve"


def main(arguments: Sequence[str]) -> int:
    """Run the node agent's command and return its exit code. `serve --metrics-port PORT` also serves metrics."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--metrics-port", type=int)
    parser.add_argument("--temperature", type=float, default=Thresholds.temperature)
    parsed, rest = parser.parse_known_args(arguments)
    if arguments[:1] != [_SERVE] or parsed.metrics_port is None:
        return agent.main(arguments)
    latest = Latest(NvmlReader())
    start_metrics(latest, parsed.metrics_port, Thresholds(temperature=parsed.temperature))
    return agent.main(rest, latest)


def start_metrics(latest: Latest, port: int, thresholds: Thresholds, fresh_seconds: float = FRESH_SECONDS) -> None:
    """Serve the metrics of the last Snapshot on every address of the pod. Raises OSError if the port is taken."""
    registry = CollectorRegistry()
    node = Identity.of_environment().node
    registry.register(NodeCollector(latest, node, thresholds, fresh_seconds))
    registry.register(FabricCollector(node))
    start_http_server(port, "::" if socket.has_dualstack_ipv6() else "0.0.0.0", registry)  # noqa: S104 - as the agent


def serve_metrics(
    reader: Reader, port: int, interval_seconds: float, thresholds: Thresholds, started: Callable[[], None]
) -> None:
    """Read every `interval_seconds` and serve metrics until a signal ends the process.

    `started` is called when metrics are available to scrape. Raises OSError if the port is taken.
    """
    latest = Latest(reader)
    latest.read(agent.DEADLINE_SECONDS)
    start_metrics(latest, port, thresholds, FRESH_SECONDS + interval_seconds)
    started()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    while True:
        time.sleep(interval_seconds)
        latest.read(agent.DEADLINE_SECONDS)


def _stop(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)
