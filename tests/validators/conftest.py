"""Fixtures of the validators' tests: a fake API server that accepts reports, and no access to the real sysfs."""

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.http_servers import start_server, stop_server


@pytest.fixture(autouse=True)
def _no_real_sysfs(monkeypatch):
    """Prevent tests from looking up simulated PCI addresses and errors on this machine."""
    monkeypatch.setenv("GPU_PLATFORM_SYSFS", os.devnull)
    monkeypatch.setenv("GPU_PLATFORM_KMSG", os.devnull)


class Api:
    """A fake API server that stores the requests that it receives, and answers with `status`."""

    def __init__(self):
        self.requests = []
        self.status, self.body = 200, {}
        self.node = {"metadata": {"name": "train-0", "uid": "1", "resourceVersion": "7"}, "spec": {}}
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.do_PATCH()

            def do_DELETE(self):
                self.do_PATCH()

            def do_GET(self):
                api.requests.append((self.path, dict(self.headers), None))
                leases = [
                    {"metadata": {"name": name}, "spec": {"holderIdentity": holder}}
                    for name, holder in api.leases.items()
                ]
                self.answer(api.answers.get(self.path.rpartition("/")[2], api.status), {"items": leases})

            def do_PATCH(self):
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                api.requests.append((self.path, dict(self.headers), json.loads(sent)))
                if "/configmaps/" in self.path:
                    api.reports.append(api.requests[-1])
                status = api.answers.get(self.path.rpartition("/")[2], api.status)
                if "/leases/" in self.path and status == 200:
                    status = self.lease(api.requests[-1][2])
                self.answer(status, api.node if "/nodes/" in self.path and api.status == 200 else api.body)

            def lease(self, sent):
                """Apply or delete a Lease, and return the status. The status is 409 if another node holds the
                Lease.
                """
                name = self.path.partition("?")[0].rpartition("/")[2]
                if self.command == "DELETE":
                    return 404 if api.leases.pop(name, None) is None else 200
                holder = sent["spec"]["holderIdentity"]
                return 200 if api.leases.setdefault(name, holder) == holder else 409

            def answer(self, status, content):
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format, *args):
                pass

        self.reports = []
        self.leases = {}  # lease holders by lease name
        self.answers = {}  # response status codes, by the last segment of the path
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        start_server(self.server)


@pytest.fixture
def api():
    api = Api()
    yield api
    stop_server(api.server)


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("secret-token\n")
    return str(path)
