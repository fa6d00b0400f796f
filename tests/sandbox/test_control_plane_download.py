"""Release binaries of the control plane, downloaded from a local server that can misbehave."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpu_platform.base.errors import BadInput, UnknownOutcome
from sandbox import _releases, build
from sandbox._modules import DEFAULT, KUEUE, KUEUE_MODULE, kubernetes_versions, module_of
from sandbox._origin import VARIABLE
from tests.sandbox.test_control_plane_build import PLAIN, PROGRAMS, QUIET, ROOT, Go, cache, go
from tests.support.http_servers import start_server, stop_server

__all__ = ["cache", "go"]  # fixtures

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or not ARCHITECTURE, reason="there are no release binaries for this platform"
)
KUBERNETES = DEFAULT.pinned("k8s.io/kubernetes")
ETCD = DEFAULT.pinned("go.etcd.io/etcd/server/v3")
KWOK = DEFAULT.pinned("sigs.k8s.io/kwok")
KUBE = [program for program in PROGRAMS if program.startswith("kube-")]
KWOK_RELEASE = f"/api.github.com/repos/kubernetes-sigs/kwok/releases/tags/{KWOK}"


def kube(program: str, version: str = KUBERNETES) -> str:
    """Return the path of a Kubernetes binary on a mirror."""
    return f"/dl.k8s.io/release/{version}/bin/linux/{ARCHITECTURE}/{program}"


def program(version: str) -> bytes:
    """Return a script that prints a version. Padding makes the script too large for one read from a socket."""
    return f"#!/bin/sh\necho 'Kubernetes {version}'\n".encode() + b"#" * 300_000


def archive(member: str, content: bytes) -> bytes:
    """Return a .tar.gz archive that contains one program."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Hosts:
    """A fake mirror. One server serves each release host as a folder."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.once: dict[str, str] = {}
        """Path and its fault at the first request: `cut`, `404`, `silent`, or `stall` until the server closes."""
        self.always: dict[str, str] = {}
        self.ranges = True
        self.requests: list[str] = []
        """Path of each request, with the range that it asks for."""
        self.connections: list[str] = []
        """Targets that clients asked this server to connect to, as a proxy."""
        self.closing = threading.Event()
        for version in {module_of(minor).pinned("k8s.io/kubernetes") for minor in kubernetes_versions()}:
            for name in KUBE:
                self.files[kube(name, version)] = program(version)
                self.files[f"{kube(name, version)}.sha256"] = checksum(program(version)).encode()
        stem = f"etcd-{ETCD}-linux-{ARCHITECTURE}"
        self.etcd = f"/github.com/etcd-io/etcd/releases/download/{ETCD}/{stem}.tar.gz"
        self.files[self.etcd] = archive(f"{stem}/etcd", b"#!/bin/sh\necho etcd\n")
        self.publish_etcd()
        self.kwok = f"/github.com/kubernetes-sigs/kwok/releases/download/{KWOK}/kwok-linux-{ARCHITECTURE}"
        self.files[self.kwok] = b"#!/bin/sh\necho kwok\n"
        self.publish_kwok(f"sha256:{checksum(self.files[self.kwok])}")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        start_server(self._server)

    def publish_etcd(self) -> None:
        folder, _, name = self.etcd.rpartition("/")
        lines = [f"{'0' * 64}  another-file.tar.gz", f"{checksum(self.files[self.etcd])}  {name}"]
        self.files[f"{folder}/SHA256SUMS"] = "\n".join([*lines, ""]).encode()

    def publish_kwok(self, digest: str | None) -> None:
        name = self.kwok.rpartition("/")[2]
        assets = [{"name": f"{name}.exe", "digest": f"sha256:{'0' * 64}"}, {"name": name, "digest": digest}]
        self.files[KWOK_RELEASE] = json.dumps({"tag_name": KWOK, "assets": assets}).encode()

    def close(self) -> None:
        self.closing.set()
        stop_server(self._server)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hosts = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_CONNECT(self) -> None:
                hosts.connections.append(self.path)
                self.send_error(403, "no internet access")

            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "")
                hosts.requests.append(f"{self.path} {wanted}".strip())
                fault = hosts.once.pop(self.path, "") or hosts.always.get(self.path, hosts.always.get("", ""))
                if fault == "silent":
                    hosts.closing.wait()
                    return
                if self.path in hosts.redirects:
                    self.send_response(302)
                    self.send_header("Location", hosts.redirects[self.path])
                    self.end_headers()
                    return
                content = hosts.files.get(self.path)
                if content is None or fault == "404":
                    self.send_error(404)
                    return
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hosts.ranges else 0
                rest = content[start:]
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                half = len(rest) // 2 if fault else len(rest)
                self.wfile.write(rest[:half])
                self.wfile.flush()
                if fault == "stall":
                    hosts.closing.wait()
                    self.wfile.write(rest[half:])

        return Handler


@pytest.fixture
def hosts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """A fake mirror of the release hosts. The environment variable for mirrors contains its URL."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(_releases, "_PAUSE_SECONDS", 0.0)
    server = Hosts()
    monkeypatch.setenv(VARIABLE, server.url)
    yield server
    server.close()


@pytest.fixture
def public(hosts: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Fake release hosts, which a build uses if the environment variable is not set, and a fake `go` command."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(_releases, "ROOT", f"{hosts.url}/")
    go.install()
    return hosts


def built(go: Go) -> list[str]:
    """Return the last element of each package that go was asked to build."""
    return [word.rpartition("/")[2] for line in go.calls("build") for word in line.split("/ ", 1)[1].split()]


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "control-plane").iterdir())


# Downloads without faults.


def test_release_binaries_are_downloaded_and_can_run(hosts: Hosts, go: Go) -> None:
    binaries = build.binaries(QUIET)
    (folder,) = binaries.folders
    assert sorted(path.name for path in folder.iterdir()) == PROGRAMS
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o755}
    output = subprocess.run([binaries.path("kube-apiserver"), "--version"], capture_output=True, text=True).stdout
    assert output == f"Kubernetes {KUBERNETES}\n"
    assert subprocess.run([binaries.path("etcd")], capture_output=True, text=True).stdout == "etcd\n"
    assert go.calls("build") == []
    assert build.installed_version() == KUBERNETES


def test_downloaded_programs_are_used_without_a_host(hosts: Hosts) -> None:
    binaries = build.binaries(QUIET)
    hosts.close()
    assert build.binaries(QUIET) == binaries
    assert build.is_built()


def test_programs_that_were_built_are_used_without_a_host(public: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setenv(VARIABLE, "build")
        binaries = build.binaries(QUIET)
    assert build.binaries(QUIET) == binaries
    assert public.requests == []


def test_each_file_is_requested_once(hosts: Hosts) -> None:
    build.binaries(QUIET)
    assert set(Counter(hosts.requests).values()) == {1}
    assert len(hosts.requests) == 10  # five binaries and five checksums


def test_another_kubernetes_downloads_its_own_programs(hosts: Hosts, go: Go) -> None:
    older = kubernetes_versions()[0]
    binaries = build.binaries(QUIET, older)
    version = module_of(older).pinned("k8s.io/kubernetes")
    for name in KUBE:
        output = subprocess.run([binaries.path(name), "--version"], capture_output=True, text=True).stdout
        assert output == f"Kubernetes {version}\n"
    assert binaries.path("etcd").exists()
    assert build.is_built(older)
    assert go.calls("build") == []


def test_a_redirect_is_followed(hosts: Hosts) -> None:
    path = kube("kube-scheduler")
    for name in (path, f"{path}.sha256"):
        hosts.files[f"/cdn{name}"] = hosts.files.pop(name)
        hosts.redirects[name] = f"{hosts.url}/cdn{name}"
    assert build.binaries(QUIET).path("kube-scheduler").exists()


def test_a_redirect_to_an_unencrypted_address_is_refused() -> None:
    redirects = _releases._Redirects(lambda: None)
    request = urllib.request.Request("https://example.com/a")
    with pytest.raises(urllib.error.HTTPError, match="unencrypted"):
        redirects.redirect_request(request, io.BytesIO(), 302, "Found", HTTPMessage(), "http://example.com/a")


def test_a_proxy_of_the_environment_is_used(
    hosts: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("https_proxy", hosts.url)
    go.install()
    build.binaries(PLAIN)
    assert {"dl.k8s.io:443", "github.com:443", "api.github.com:443"} == set(hosts.connections)
    assert "403 no internet access" in capsys.readouterr().err


def test_a_download_needs_the_standard_library_only(hosts: Hosts) -> None:
    process = start("-S")
    output = process.communicate()[1]
    assert process.returncode == 0, output
    assert build.is_built()


# Downloads with wrong checksums.


def test_a_wrong_checksum_is_an_error_and_deletes_the_file(hosts: Hosts, go: Go, cache: Path) -> None:
    path = kube("kube-apiserver")
    right = checksum(hosts.files[path])
    hosts.files[path] = hosts.files[path].replace(b"echo", b"rm -r")
    with pytest.raises(UnknownOutcome) as failure:
        build.binaries(QUIET)
    message = str(failure.value)
    assert f"{hosts.url}{path} has the SHA-256 sum {checksum(hosts.files[path])}" in message
    assert f"the published sum is {right}" in message
    assert f"{VARIABLE}=build" in message
    assert left(cache) == ["build.lock"]
    assert go.calls("build") == []


def test_a_wrong_checksum_is_not_worked_around_by_a_build(public: Hosts, go: Go, cache: Path) -> None:
    public.files[public.etcd] += b"more"
    with pytest.raises(UnknownOutcome, match="was deleted"):
        build.binaries(QUIET)
    assert go.calls("build") == []
    assert left(cache) == ["build.lock"]


def test_a_wrong_checksum_ends_the_program_with_code_3(hosts: Hosts) -> None:
    hosts.files[hosts.kwok] += b"more"
    process = start()
    assert "error: " in process.communicate()[1]
    assert process.returncode == 3


# Interrupted transfers.


def test_a_cut_transfer_is_resumed(hosts: Hosts) -> None:
    path = kube("kube-apiserver")
    hosts.once[path] = "cut"
    build.binaries(QUIET)
    assert [request for request in hosts.requests if request.split()[0] == path] == [
        path,
        f"{path} bytes={len(hosts.files[path]) // 2}-",
    ]


def test_a_cut_transfer_starts_over_without_ranges(hosts: Hosts) -> None:
    path = kube("kube-apiserver")
    hosts.once[path] = "cut"
    hosts.ranges = False
    binaries = build.binaries(QUIET)
    assert binaries.path("kube-apiserver").read_bytes() == hosts.files[path]


def test_a_program_whose_transfer_is_always_cut_is_built(
    public: Hosts, go: Go, capsys: pytest.CaptureFixture[str]
) -> None:
    public.always[public.etcd] = "cut"
    binaries = build.binaries(PLAIN)
    assert sum(public.etcd in request for request in public.requests) == 3
    assert built(go) == ["v3"]
    assert all(binaries.path(name).exists() for name in PROGRAMS)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Building etcd")]
    assert line.startswith(f"Building etcd from Go modules, because {public.url}{public.etcd} could not")


def test_a_transfer_that_stalls_is_given_up(public: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_releases, "_STALL_SECONDS", 0.1)
    public.always[kube("kube-scheduler")] = "stall"
    build.binaries(QUIET)
    assert "kube-scheduler" in built(go)


def test_an_interrupted_download_leaves_nothing(hosts: Hosts, cache: Path) -> None:
    path = kube("kube-apiserver")
    hosts.always[path] = "stall"
    process = start()
    until(lambda: path in hosts.requests, process)
    process.send_signal(signal.SIGTERM)
    output = process.communicate()[1]
    assert process.returncode == 130, output
    assert left(cache) == ["build.lock"]


def test_the_rest_of_a_killed_download_never_counts(hosts: Hosts, cache: Path) -> None:
    rest = cache / "control-plane" / ".downloading-killed" / "bin"
    rest.mkdir(parents=True)
    (rest / "etcd").touch()
    assert not build.is_built()
    build.binaries(QUIET)
    assert not rest.exists()


def test_two_processes_download_each_file_once(hosts: Hosts) -> None:
    hosts.always[hosts.etcd] = "stall"
    first = start()
    until(lambda: hosts.etcd in hosts.requests, first)
    second = start()
    assert second.stderr
    assert any("Waiting for another process" in line for line in second.stderr)
    hosts.closing.set()  # lets the stalled transfer continue
    output = [process.communicate()[1] for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], output
    assert set(Counter(hosts.requests).values()) == {1}


# Hosts that lack a file or do not respond.


def test_a_program_without_a_release_is_built_alone(
    public: Hosts, go: Go, capsys: pytest.CaptureFixture[str]
) -> None:
    del public.files[f"{kube('kube-scheduler')}.sha256"]
    binaries = build.binaries(PLAIN)
    assert built(go) == ["kube-scheduler"]
    assert all(binaries.path(name).exists() for name in PROGRAMS)
    assert build.binaries(QUIET) == binaries
    host = public.url.removeprefix("http://")
    expected = f"because {host} responded with 404 Not Found for kube-scheduler.sha256"
    assert f"Building kube-scheduler from Go modules, {expected}" in capsys.readouterr().err


def test_a_release_without_a_checksum_is_built(public: Hosts, go: Go) -> None:
    public.publish_kwok(None)
    build.binaries(QUIET)
    assert built(go) == ["kwok"]
    assert public.kwok not in public.requests


@pytest.mark.parametrize("page", [b"<html>Please log in</html>", b"{broken", b""])
def test_a_login_page_is_no_checksum(public: Hosts, go: Go, page: bytes) -> None:
    public.files[f"{kube('kube-scheduler')}.sha256"] = page
    build.binaries(QUIET)
    assert built(go) == ["kube-scheduler"]


def test_a_silent_host_is_given_up_once(public: Hosts, go: Go, capsys: pytest.CaptureFixture[str]) -> None:
    public.always[""] = "silent"
    build.binaries(PLAIN)
    assert len(built(go)) == len(PROGRAMS)
    assert set(Counter(public.requests).values()) == {1}
    assert "cannot be reached (no answer within 3 s)" in capsys.readouterr().err


def test_a_name_that_is_never_resolved_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_releases, "ANSWER_SECONDS", 0.1)
    end = threading.Event()

    def resolve(*_: object, **__: object) -> list[object]:
        end.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    before = set(threading.enumerate())
    reasons = _releases.survey(DEFAULT, "http://mirror.example.com").reasons.values()
    assert {reason.fault for reason in reasons} == {"cannot be reached (no answer within 3 s)"}
    waiting = set(threading.enumerate()) - before
    assert {thread.daemon for thread in waiting} == {True}, (
        "the process would wait for these threads before it ends"
    )
    end.set()


def test_a_refused_connection_is_built(public: Hosts, go: Go, capsys: pytest.CaptureFixture[str]) -> None:
    public.close()
    build.binaries(PLAIN)
    assert len(built(go)) == len(PROGRAMS)
    assert "cannot be reached (Connection refused)" in capsys.readouterr().err


def test_a_program_that_failed_to_build_is_downloaded_later(public: Hosts, go: Go) -> None:
    release = public.files.pop(KWOK_RELEASE)
    go.install(fails_at="build")
    with pytest.raises(UnknownOutcome):
        build.binaries(QUIET)
    public.files[KWOK_RELEASE] = release
    public.requests.clear()
    assert build.binaries(QUIET).path("kwok").exists()
    assert sorted(public.requests) == sorted([KWOK_RELEASE, public.kwok])


def test_a_platform_without_releases_builds_and_asks_no_host(
    public: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    build.binaries(QUIET)
    assert len(built(go)) == len(PROGRAMS)
    assert public.requests == []


# The environment variable that names a mirror, a folder or `build`.


def test_build_asks_no_host(public: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "build")
    build.binaries(QUIET)
    assert len(built(go)) == len(PROGRAMS)
    assert public.requests == []


def test_build_does_not_use_downloaded_programs(public: Hosts, go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    build.binaries(QUIET)
    monkeypatch.setenv(VARIABLE, "build")
    assert not build.is_built()
    build.binaries(QUIET)
    assert len(built(go)) == len(PROGRAMS)


def test_a_mirror_without_a_program_is_an_error(hosts: Hosts, go: Go, cache: Path) -> None:
    del hosts.files[KWOK_RELEASE]
    with pytest.raises(UnknownOutcome, match=f"the mirror {hosts.url}, which does not provide kwok: .* 404"):
        build.binaries(QUIET)
    assert go.calls("build") == []
    assert left(cache) == ["build.lock"]


def test_a_mirror_that_refuses_connections_is_an_error(hosts: Hosts, go: Go) -> None:
    hosts.close()
    with pytest.raises(UnknownOutcome, match=r"the mirror .* cannot be reached"):
        build.binaries(QUIET)
    assert go.calls("build") == []


def test_a_mirror_that_cuts_every_transfer_is_an_error(hosts: Hosts, go: Go, cache: Path) -> None:
    hosts.always[hosts.kwok] = "cut"
    with pytest.raises(UnknownOutcome, match=r"which does not provide kwok: .* in 3 tries"):
        build.binaries(QUIET)
    assert go.calls("build") == []
    assert left(cache) == ["build.lock"]


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("biuld", "did you mean 'build'?"),
        ("ftp://example.com", "unset it to download the programs"),
        ("sandbox", f"write the absolute path {ROOT / 'sandbox'}"),
        ("/no/such/folder", "create it and put the programs there"),
    ],
)
def test_a_wrong_value_is_an_error_with_code_2(cache: Path, value: str, fix: str) -> None:
    process = start(variable=value)
    output = process.communicate()[1]
    assert process.returncode == 2
    assert f"{VARIABLE}: found '{value}'" in output
    assert "allowed: build, the absolute path of a folder with the programs, or the http(s) URL" in output
    assert fix in output


# A folder with binaries, named by the environment variable.


@pytest.fixture
def named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    install(folder, KUBERNETES, PROGRAMS)
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


def install(folder: Path, version: str, programs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in programs:
        (folder / name).write_bytes(program(version))
        (folder / name).chmod(0o755)


def test_programs_of_a_named_folder_are_used_in_place(named: Path, cache: Path) -> None:
    binaries = build.binaries(QUIET)
    assert {binaries.path(name).parent for name in PROGRAMS} == {named}
    assert build.is_built()
    assert not cache.exists()


def test_the_version_of_a_named_folder_is_reported(named: Path) -> None:
    minor = KUBERNETES.rpartition(".")[0]
    install(named, f"{minor}.99", KUBE)
    assert build.installed_version() == f"{minor}.99"


def test_missing_programs_of_a_named_folder_are_listed(named: Path) -> None:
    (named / "etcd").unlink()
    (named / "kwok").chmod(0o644)
    with pytest.raises(BadInput) as failure:
        build.binaries(QUIET)
    assert [problem.path for problem in failure.value.problems] == [str(named / "etcd"), str(named / "kwok")]
    assert f"or in {named / DEFAULT.kubernetes}" in str(failure.value)


def test_a_named_folder_of_another_minor_version_is_refused(named: Path) -> None:
    install(named, "v1.30.2", ["kube-scheduler"])
    with pytest.raises(BadInput) as failure:
        build.binaries(QUIET)
    (problem,) = failure.value.problems
    assert (problem.path, problem.found) == (str(named / "kube-scheduler"), "Kubernetes v1.30.2")
    assert problem.allowed == f"Kubernetes {DEFAULT.kubernetes}"


def test_a_program_for_another_machine_is_refused(named: Path) -> None:
    (named / "kube-apiserver").write_bytes(b"\x7fELF")
    with pytest.raises(BadInput, match=r"kube-apiserver: found .*Exec format error"):
        build.binaries(QUIET)


def test_a_subfolder_of_a_named_folder_has_another_version(named: Path) -> None:
    older = kubernetes_versions()[0]
    install(named / older, f"v{older}.1", KUBE)
    binaries = build.binaries(QUIET, older)
    assert {binaries.path(name).parent for name in KUBE} == {named / older}
    assert binaries.path("etcd").parent == named
    assert build.binaries(QUIET).path("kube-apiserver").parent == named


def test_kueue_of_a_named_folder_is_used_with_its_manifests(named: Path) -> None:
    install(named, KUBERNETES, ["kueue"])
    for name in KUEUE.copied:
        (named / "manifests" / name).mkdir(parents=True)
    binaries = build.binaries(QUIET, kueue=True)
    assert binaries.path("kueue") == named / "kueue"
    assert binaries.manifests("kueue") == named / "manifests"


def test_kueue_of_a_named_folder_without_manifests_is_refused(named: Path) -> None:
    install(named, KUBERNETES, ["kueue"])
    with pytest.raises(BadInput) as failure:
        build.binaries(QUIET, kueue=True)
    assert [problem.path for problem in failure.value.problems] == [
        str(named / "manifests" / name) for name in KUEUE.copied
    ]
    assert f"of {KUEUE_MODULE} {KUEUE.pinned(KUEUE_MODULE)}" in str(failure.value)


def test_a_named_folder_without_kueue_has_it_built(
    named: Path, go: Go, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(named))  # replaces the value `build`, which the fixture `cache` sets
    go.install(fails_at="build")
    with pytest.raises(UnknownOutcome, match="Building the sandbox's Kueue failed"):
        build.binaries(PLAIN, kueue=True)
    assert f"{named} has no kueue: building from Go modules" in capsys.readouterr().err
    assert built(go) == ["kueue"]


# The first output line of `make up`.


def test_the_plan_of_a_download_names_hosts_and_time(public: Hosts) -> None:
    assert build.plan() == (
        f"Control plane of Kubernetes {KUBERNETES}: downloading release binaries from dl.k8s.io and github.com"
        " (about a minute)"
    )


def test_the_plan_of_a_mirror_names_it(hosts: Hosts) -> None:
    assert f"downloading release binaries from {hosts.url} (about" in str(build.plan())


def test_the_plan_of_a_build_has_the_reason_and_the_time(public: Hosts) -> None:
    public.close()
    host = public.url.removeprefix("http://")
    assert build.plan() == (
        f"Control plane of Kubernetes {KUBERNETES}: building from Go modules, because {host} cannot be reached"
        " (Connection refused) (about 6 minutes on two cores)"
    )


def test_the_plan_names_the_programs_that_are_built(public: Hosts) -> None:
    public.publish_kwok(None)
    line = build.plan() or ""
    assert "downloading release binaries from dl.k8s.io and github.com, and building kwok from Go modules" in line
    assert f"because {public.url}{KWOK_RELEASE} has no SHA-256 sum" in line


def test_the_plan_is_printed_and_downloads_nothing(hosts: Hosts) -> None:
    command = [sys.executable, "-S", "-m", "sandbox.build", "--plan"]
    result = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    assert result.stdout.startswith(f"Control plane of Kubernetes {KUBERNETES}: downloading")
    assert result.stderr == ""
    assert not build.is_built()


def test_a_machine_with_the_programs_has_no_plan(hosts: Hosts) -> None:
    build.binaries(QUIET)
    assert build.plan() is None


def test_the_plan_of_a_named_folder_names_it(named: Path) -> None:
    assert build.plan() == f"Control plane of Kubernetes {KUBERNETES}: the programs in {named}"


def start(*options: str, variable: str | None = None) -> subprocess.Popen[str]:
    """Start `python -m sandbox.build`."""
    environment = {**os.environ, VARIABLE: variable or os.environ[VARIABLE]}
    command = [sys.executable, *options, "-m", "sandbox.build"]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)


def until(condition: object, process: subprocess.Popen[str]) -> None:
    """Wait for a condition while a process is running."""
    assert callable(condition)
    while not condition():
        assert process.poll() is None
        time.sleep(0.01)
