"""The network of the played cloud: an HTTPS proxy that serves Helm charts under the addresses the program names.

The program is the real one: Helm asks for the real address, by the proxy of its environment, and trusts this
proxy's certificate by `SSL_CERT_FILE`. Nothing else is served, and nothing leaves this machine.
"""

from __future__ import annotations

import datetime
import io
import ipaddress
import socket
import ssl
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CHARTS: Final = Path(__file__).parent / "charts"
REPOSITORIES: Final[Mapping[str, tuple[str, ...]]] = {"https://helm.ngc.nvidia.com/nvidia": ("gpu-operator",)}
"""Charts of the folder `charts` by their Helm repository."""


@contextmanager
def played_network(folder: Path) -> Iterator[dict[str, str]]:
    """Serve the charts; give the environment of programs in this network."""
    pages = {page: content for repository in REPOSITORIES for page, content in _pages(repository)}
    certificate = _write_certificate(folder, {page.split("/")[2] for page in pages})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = _Proxy(("127.0.0.1", 0), pages, context)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        helm = {f"HELM_{kind}_HOME": str(folder / f"helm-{kind.lower()}") for kind in ("CACHE", "CONFIG", "DATA")}
        yield {
            **helm,
            "HTTPS_PROXY": f"http://127.0.0.1:{server.server_port}",
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(folder / "certificate.pem"),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: Mapping[str, bytes], context: ssl.SSLContext) -> None:
        super().__init__(address, _Handler)
        self.pages = pages
        self.context = context


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy  # pyright: ignore[reportIncompatibleVariableOverride]
    host = ""

    def do_CONNECT(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        plain: socket.socket = self.connection
        try:
            self.connection = self.server.context.wrap_socket(plain, server_side=True)
        except (OSError, ssl.SSLError):
            self.close_connection = True
            return
        self.host = self.path.partition(":")[0]
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def do_GET(self) -> None:
        content = self.server.pages.get(f"https://{self.host}{self.path}")
        self.send_response(HTTPStatus.OK if content is not None else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: standard error is the test's."""


def _pages(repository: str) -> Iterator[tuple[str, bytes]]:
    """Yield address and content of the index and the charts of a repository."""
    entries: dict[str, Any] = {}
    for chart in REPOSITORIES[repository]:
        described = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text("utf-8"))
        address = f"{repository}/charts/{chart}-{described['version']}.tgz"
        entries[chart] = [{**described, "urls": [address]}]
        yield address, _packed(chart)
    index = {"apiVersion": "v1", "entries": entries}
    yield f"{repository}/index.yaml", yaml.safe_dump(index).encode()


def _packed(chart: str) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for file in sorted((CHARTS / chart).rglob("*")):
            if file.is_file():
                tar.add(file, arcname=str(file.relative_to(CHARTS)))
    return archive.getvalue()


def _write_certificate(folder: Path, hosts: set[str]) -> Path:
    """Write a certificate of all hosts, which signs itself, with its key; return the file of both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "played network")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in sorted(hosts)]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "certificate.pem").write_bytes(public)
    both = folder / "server.pem"
    both.write_bytes(private + public)
    return both
