"""A local server that simulates the comment APIs of GitHub and GitLab, with their pages, permissions and accounts.

Sources: GitHub REST API, issue comments (a token of Actions may not read /user: 403); GitLab REST API, notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_servers import start_server, stop_server

_TOKEN = "secret"
_LIST = {
    "github": r"/repos/acme/gpus/issues/7/comments",
    "gitlab": r"/projects/1/merge_requests/7/notes",
}
_ONE = {"github": r"/repos/acme/gpus/issues/comments/(\d+)", "gitlab": r"/projects/1/merge_requests/7/notes/(\d+)"}
_UPDATE = {"github": "PATCH", "gitlab": "PUT"}


class CodeHost:
    """A fake GitHub or GitLab with the comments of one pull request, and the environment variables of a CI job."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.account = "github-actions[bot]" if kind == "github" else "project_1_bot"
        self.comments: list[dict[str, Any]] = []
        self.updates = 0
        self.reads_only = False
        """Whether the token may not write, as in a pull request from a fork."""
        self.environment: dict[str, str] = {}

    @property
    def written(self) -> list[dict[str, Any]]:
        """The comments that the job's account has written."""
        return [one for one in self.comments if self.author(one) == self.account]

    def author(self, comment: dict[str, Any]) -> str:
        """Return the account that wrote a comment."""
        return comment["user"]["login"] if self.kind == "github" else comment["author"]["username"]

    def add(self, who: str, body: str) -> dict[str, Any]:
        """Add a comment written by an account."""
        person = {"user": {"login": who}} if self.kind == "github" else {"author": {"username": who}}
        self.comments.append({"id": len(self.comments) + 100, "body": body, **person})
        return self.comments[-1]

    def answer(self, method: str, path: str, headers: Any, body: Any) -> tuple[int, Any]:
        """Return the status code and the document that answer a call."""
        url = urlsplit(path)
        sent = headers.get("Authorization" if self.kind == "github" else "PRIVATE-TOKEN")
        if sent != (f"Bearer {_TOKEN}" if self.kind == "github" else _TOKEN):
            return 401, {"message": "Bad credentials"}
        if url.path == "/user":
            return (403, {}) if self.kind == "github" else (200, {"username": self.account})
        if self.reads_only and method != "GET":
            return 403, {"message": "Resource not accessible by integration"}
        if url.path == _LIST[self.kind]:
            if method == "POST":
                return 201, self.add(self.account, body["body"])
            asked = parse_qs(url.query)
            size, page = int(asked.get("per_page", ["20"])[0]), int(asked.get("page", ["1"])[0])
            return 200, self.comments[size * (page - 1) : size * page]
        one = re.fullmatch(_ONE[self.kind], url.path)
        if one is None or method != _UPDATE[self.kind]:
            return 404, {}
        found = next(each for each in self.comments if each["id"] == int(one[1]))
        found["body"] = body["body"]
        self.updates += 1
        return 200, found


@contextmanager
def code_host(kind: str) -> Generator[CodeHost]:
    """Serve the API of `github` or `gitlab`."""
    host = CodeHost(kind)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            status, document = host.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - BaseHTTPRequestHandler defines the names

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    start_server(server)
    address = f"http://127.0.0.1:{server.server_port}"
    if kind == "github":
        host.environment = {
            "GITHUB_API_URL": address,
            "GITHUB_REPOSITORY": "acme/gpus",
            "GH_TOKEN": _TOKEN,
            "NUMBER": "7",
        }
    else:
        host.environment = {
            "CI_API_V4_URL": address,
            "CI_PROJECT_ID": "1",
            "CI_MERGE_REQUEST_IID": "7",
            "GPU_PLATFORM_TOKEN": _TOKEN,
        }
    try:
        yield host
    finally:
        stop_server(server)
