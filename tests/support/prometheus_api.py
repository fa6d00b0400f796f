"""A small server that answers range and instant queries in the format of Prometheus' HTTP API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_servers import start_server, stop_server


class Server:
    """A fake Prometheus that answers each query with `series`.

    Each series has labels, and values that begin at the start of the range.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.logins: set[str | None] = set()
        self.series: Callable[[str], list[tuple[Mapping[str, str], list[float | None]]]] = lambda _: []
        self.refused: Mapping[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.address = f"http://{self.host}"
        start_server(self._server)

    def stop(self) -> None:
        stop_server(self._server)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                asked = {key: values[0] for key, values in parse_qs(url.query).items()}
                kind = url.path.rpartition("/")[2]
                server.asked.append((kind, asked))
                server.logins.add(self.headers.get("Authorization"))
                wrong = server.refused.get(asked["query"])
                document: dict[str, Any] = {"status": "error", "errorType": "execution", "error": wrong}
                if wrong is None:
                    document = {"status": "success", "data": {"result": server.answer(kind, asked)}}
                self.send_response(200 if wrong is None else 422)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler

    def answer(self, kind: str, asked: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for labels, values in self.series(asked["query"]):
            if kind == "query":
                found.append({"metric": labels, "value": [float(asked["time"]), str(values[-1])]})
                continue
            start, step = float(asked["start"]), float(asked["step"])
            pairs = [[start + step * n, str(value)] for n, value in enumerate(values) if value is not None]
            found.append({"metric": labels, "values": pairs})
        return found
