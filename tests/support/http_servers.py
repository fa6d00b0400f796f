"""HTTP servers of tests, each in a thread of its own."""

from __future__ import annotations

import threading
from socketserver import BaseServer
from typing import Final

_PAUSE_SECONDS: Final = 0.01  # until a server sees that it shall end: most tests are shorter than the usual 0.5 s


def start_server(server: BaseServer) -> None:
    """Answer requests in another thread, until `stop_server`."""
    threading.Thread(target=server.serve_forever, args=(_PAUSE_SECONDS,), daemon=True).start()


def stop_server(server: BaseServer) -> None:
    """End a server, and free its port."""
    server.shutdown()
    server.server_close()
