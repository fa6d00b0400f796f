"""The network of the simulated cloud: an HTTPS proxy that serves Helm charts and the EKS API at their real
addresses.

The program under test is the real one. Helm and boto3 request the real addresses through the proxy that their
environment sets, and trust this proxy's certificate because of `SSL_CERT_FILE` and `AWS_CA_BUNDLE`. Nothing else
is served, and no request leaves this machine. Sources: Helm, "OCI support"; OCI distribution specification 1.1,
pulling; read 2026-11-25.
"""

from __future__ import annotations

import hashlib
import io
import json
import socket
import ssl
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.certificates import self_signed
from tests.support.http_servers import start_server, stop_server
from tests.support.played_cloud.account import REGION, Store
from tests.support.played_cloud.lookups import describe_cluster

CHARTS: Final = Path(__file__).parent / "charts"
REPOSITORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "https://helm.ngc.nvidia.com/nvidia": ("gpu-operator",),
    "https://aws.github.io/eks-charts": ("aws-efa-k8s-device-plugin",),
}
"""Charts in the folder `charts`, by Helm repository."""
REGISTRIES: Final[Mapping[str, tuple[str, ...]]] = {
    "registry.k8s.io/dra-driver-nvidia/charts": ("dra-driver-nvidia-gpu",),
}
"""Charts in the folder `charts`, by OCI registry and path."""
_EKS: Final = frozenset({f"eks.{REGION}.amazonaws.com", "eks.us-east-1.amazonaws.com"})
_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "played", "AWS_SECRET_ACCESS_KEY": "played"}
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_LAYER: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@dataclass(frozen=True)
class _Page:
    content: bytes
    type: str = "application/octet-stream"


@contextmanager
def played_network(folder: Path) -> Generator[dict[str, str]]:
    """Serve the charts, and yield the environment variables for programs in this network."""
    pages = {page: content for repository in REPOSITORIES for page, content in _pages(repository)}
    pages |= {page: content for registry in REGISTRIES for page, content in _registry_pages(registry)}
    certificate = _write_certificate(folder, {*_EKS, *(page.split("/")[2] for page in pages)})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = _Proxy(("127.0.0.1", 0), pages, context, Store(folder))
    start_server(server)
    try:
        helm = {f"HELM_{kind}_HOME": str(folder / f"helm-{kind.lower()}") for kind in ("CACHE", "CONFIG", "DATA")}
        yield {
            **helm,
            "HTTPS_PROXY": f"http://127.0.0.1:{server.server_port}",
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(folder / "certificate.pem"),
            "AWS_CA_BUNDLE": str(folder / "certificate.pem"),
            **_CREDENTIALS,
        }
    finally:
        stop_server(server)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], pages: Mapping[str, _Page], context: ssl.SSLContext, store: Store
    ) -> None:
        super().__init__(address, _Handler)
        self.pages = pages
        self.context = context
        self.store = store

    def page(self, host: str, path: str) -> _Page | None:
        """Return the page at an address, or None."""
        if host in _EKS:
            found = describe_cluster(self.store.read(), path.removeprefix("/clusters/"))
            return None if found is None else _Page(json.dumps(found).encode(), "application/json")
        return self.pages.get(f"https://{host}{path}")


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy  # pyrefly: ignore[bad-override-mutable-attribute]
    host = ""

    def do_CONNECT(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        plain: socket.socket = self.connection
        try:
            self.connection = self.server.context.wrap_socket(plain, server_side=True)
        except OSError:  # OSError includes TLS failures
            self.close_connection = True
            return
        self.host = self.path.partition(":")[0]
        # pyrefly: ignore[bad-assignment] - unbuffered, like the server's own file
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_GET(self) -> None:
        page = self._answer()
        self.wfile.write(page.content)

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> _Page:
        found = self.server.page(self.host, self.path)
        page = found or _Page(b"")
        self.send_response(HTTPStatus.OK if found is not None else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Length", str(len(page.content)))
        self.send_header("Content-Type", page.type)
        self.send_header("Docker-Content-Digest", _digest(page.content))
        self.end_headers()
        return page

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress log lines, because standard error belongs to the test."""


def _pages(repository: str) -> Iterator[tuple[str, _Page]]:
    """Yield the address and content of a repository's index and of its charts."""
    entries: dict[str, Any] = {}
    for chart in REPOSITORIES[repository]:
        described = _described(chart)
        address = f"{repository}/charts/{chart}-{described['version']}.tgz"
        entries[chart] = [{**described, "urls": [address]}]
        yield address, _Page(_packed(chart))
    index = {"apiVersion": "v1", "entries": entries}
    yield f"{repository}/index.yaml", _Page(yaml.safe_dump(index).encode())


def _registry_pages(registry: str) -> Iterator[tuple[str, _Page]]:
    """Yield the address and content of each document of an OCI registry's charts: a manifest by tag and by digest,
    and two blobs.
    """
    host, _, path = registry.partition("/")
    for chart in REGISTRIES[registry]:
        described = _described(chart)
        config, layer = json.dumps(described).encode(), _packed(chart)
        blobs = {_CONFIG: config, _LAYER: layer}
        config_of, layer_of = (
            {"mediaType": kind, "digest": _digest(blob), "size": len(blob)} for kind, blob in blobs.items()
        )
        parts = {"config": config_of, "layers": [layer_of]}
        manifest = json.dumps({"schemaVersion": 2, "mediaType": _MANIFEST, **parts}).encode()
        base = f"https://{host}/v2/{path}/{chart}"
        for reference in (described["version"], _digest(manifest)):
            yield f"{base}/manifests/{reference}", _Page(manifest, _MANIFEST)
        for blob in blobs.values():
            yield f"{base}/blobs/{_digest(blob)}", _Page(blob)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(chart: str) -> dict[str, Any]:
    return yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text("utf-8"))


def _packed(chart: str) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for file in sorted((CHARTS / chart).rglob("*")):
            if file.is_file():
                tar.add(file, arcname=str(file.relative_to(CHARTS)))
    return archive.getvalue()


def _write_certificate(folder: Path, hosts: set[str]) -> Path:
    """Write a self-signed certificate for all hosts and its key into one file, and return the file."""
    public, private = self_signed("played network", sorted(hosts))
    (folder / "certificate.pem").write_bytes(public)
    both = folder / "server.pem"
    both.write_bytes(private + public)
    return both
