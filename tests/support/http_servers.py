"""HTTP servers for tests, each in a separate thread."""

from __future__ import annotations

import threading
from socketserver import BaseServer
from typing import Final

# Time until a server notices a request to stop.
# The default of 0.5 s is longer than most tests.
_PAUSE_SECONDS: Final = 0.01


def start_server(server: BaseServer) -> None:
    """Answer requests in another thread until `stop_server` is called."""
    threading.Thread(target=server.serve_forever, args=(_PAUSE_SECONDS,), daemon=True).start()


def stop_server(server: BaseServer) -> None:
    """Stop a server and free its port."""
    server.shutdown()
    server.server_close()
