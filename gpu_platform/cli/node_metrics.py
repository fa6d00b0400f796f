"""`gpu-platform node-metrics`: serve the metrics of this machine's GPUs for Prometheus."""

from __future__ import annotations

import sys
from pathlib import Path

from gpu_platform.base.errors import BadInput, Problem
from validators.exporter.collector import Thresholds
from validators.exporter.serve import serve_metrics
from validators.this_node import reader_of


def serve_node_metrics(port: int, interval_seconds: float, thresholds: Thresholds, replay: Path | None) -> None:
    """Serve `/metrics` for this machine or a recorded machine until interrupted.

    Raises BadInput if the recording cannot be read or the port is not free.
    """

    def started() -> None:
        print(f"metrics at http://localhost:{port}/metrics, read every {interval_seconds:g} s", file=sys.stderr)

    reader = reader_of(replay, command="node-metrics")
    try:
        serve_metrics(reader, port, interval_seconds, thresholds, started)
    except OSError as error:
        problem = Problem("--port", f"{port}: {error}", "a free port on this machine")
        raise BadInput("node-metrics", [problem]) from None
