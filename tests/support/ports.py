"""Ports for test servers."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port on which no process is currently listening."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
