"""A fake API server that answers GET requests with given documents, and all other requests with status 404."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.http_servers import start_server, stop_server


@contextmanager
def serving(documents: Mapping[str, Mapping[str, Any]]) -> Generator[str]:
    """Serve documents by path, and yield a kubeconfig as text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            status = 200 if path in documents else 404
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": path}
            body = json.dumps(documents.get(path, missing)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Suppress the log line of each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    start_server(server)
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    yield json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **document})
    stop_server(server)


def resource_list(version: str, **plurals: str) -> dict[str, Any]:
    """Return the discovery document of an API group and version. `plurals` maps each kind to its plural name."""
    entries = [
        {"name": plural, "kind": kind, "namespaced": kind != "Namespace", "verbs": ["list", "get"]}
        for kind, plural in plurals.items()
    ]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": entries}
