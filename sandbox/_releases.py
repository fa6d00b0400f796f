"""Downloads release binaries of the control plane and verifies them against their published checksums.

The module uses only the standard library, because it runs before other packages are installed. It reads every URL
through urllib, which uses the environment's proxies.
"""

from __future__ import annotations

import hashlib
import http
import http.client
import json
import platform
import queue
import re
import shutil
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.progress import Progress
from sandbox._modules import ETCD, KUBERNETES, KUBERNETES_PROGRAMS, KWOK, GoModule
from sandbox._origin import BUILD, VARIABLE

ROOT: Final = "https://"
ANSWER_SECONDS: Final = 3.0
"""A host counts as unreachable if it does not answer a request for a checksum within this time."""
_NO_ANSWER: Final = f"cannot be reached (no answer within {ANSWER_SECONDS:g} s)"
_STALL_SECONDS: Final = 30.0
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 1.0
_TRANSIENT: Final = (408, 416, 429)
"""HTTP status codes below 500 after which a transfer is retried."""
_CHUNK: Final = 1 << 18
_MEGABYTE: Final = 1_000_000
_LIMIT: Final = 4 * _MEGABYTE
"""Maximum size of a checksum file."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_SUM: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _Publication:
    """Where a project publishes a binary. The URLs have no scheme, and contain the placeholders {version},
    {architecture} and {program}.
    """

    module: str
    """Go module with the same version as the release."""
    file: str
    sums: str
    """URL of the checksum: a single checksum, a list of checksums, or a release in GitHub's API."""
    member: str = ""
    """Path of the binary in the archive. Empty if the file is the binary itself."""


_DL: Final = "dl.k8s.io/release/{version}/bin/linux/{architecture}/{program}"
_ETCD: Final = "github.com/etcd-io/etcd/releases/download/{version}"
_KWOK: Final = "kubernetes-sigs/kwok/releases"
# Sources, read on 2026-11-28:
# - Kubernetes publishes server programs only for Linux: https://kubernetes.io/releases/download/.
# - The CHANGELOG of each Kubernetes minor version lists the same programs.
# - URL of a Kubernetes checksum: https://kubernetes.io/docs/tasks/tools/install-kubectl-linux/.
# - etcd: scripts/release.sh of etcd-io/etcd writes SHA256SUMS of the archives.
# - KWOK: hack/releases.sh of kubernetes-sigs/kwok uploads the binaries without checksums.
#   GitHub computes a digest of each uploaded release file. Its API has returned the digest since 2025-06-03:
#   https://github.blog/changelog/2025-06-03-releases-now-expose-digests-for-release-assets/
# - Kueue, Karpenter and KEDA publish their controllers only as container images, so the sandbox builds them.
_PUBLICATIONS: Final = {
    **{program: _Publication(KUBERNETES, _DL, f"{_DL}.sha256") for program in KUBERNETES_PROGRAMS},
    "etcd": _Publication(
        ETCD,
        f"{_ETCD}/etcd-{{version}}-linux-{{architecture}}.tar.gz",
        f"{_ETCD}/SHA256SUMS",
        "etcd-{version}-linux-{architecture}/etcd",
    ),
    "kwok": _Publication(
        KWOK,
        f"github.com/{_KWOK}/download/{{version}}/kwok-linux-{{architecture}}",
        f"api.github.com/repos/{_KWOK}/tags/{{version}}",
    ),
}


@dataclass(frozen=True, slots=True)
class Release:
    """One binary of a release. Its URLs have no scheme."""

    program: str
    file: str
    sums: str
    member: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.file.rpartition("/")[2]

    @property
    def host(self) -> str:
        """Host that publishes the file."""
        return self.file.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a binary cannot be downloaded: a subject, such as `dl.k8s.io`, and a fault (`cannot be reached`)."""

    subject: str
    fault: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The hosts' answers: the checksums of releases, and why other binaries cannot be downloaded."""

    sums: Mapping[Release, str] = field(default_factory=dict[Release, str])
    reasons: Mapping[str, Reason] = field(default_factory=dict[str, Reason])


class _Failure(Exception):
    """A file cannot be downloaded from its host."""

    def __init__(self, subject: str, fault: str) -> None:
        self.reason = Reason(subject, fault)
        super().__init__(f"{subject} {fault}")


class _Cut(Exception):
    """A transfer ended before the end of the file."""


class _WrongSum(Exception):
    """A file does not have the published checksum."""


def published(module: GoModule) -> bool:
    """Return whether any binary of a Go module is published as a release on some platform."""
    return any(program in _PUBLICATIONS for program in module.packages)


def releases_of(module: GoModule) -> tuple[Release, ...]:
    """Return the releases of a Go module's binaries for this machine, or an empty tuple if there are none."""
    architecture = _ARCHITECTURES.get(platform.machine())
    if platform.system() != "Linux" or architecture is None:
        return ()
    releases: list[Release] = []
    for program in module.packages:
        if publication := _PUBLICATIONS.get(program):
            version = module.pinned(publication.module)
            parts = {"version": version, "architecture": architecture, "program": program}
            urls = (publication.file, publication.sums, publication.member)
            releases.append(Release(program, *(url.format(**parts) for url in urls)))
    return tuple(releases)


def release_key(releases: Iterable[Release]) -> str:
    """Return the folder name for downloaded binaries: a hash of versions and platform. It does not depend on the
    mirror.
    """
    return "release-" + hashlib.sha256("\0".join(release.file for release in releases).encode()).hexdigest()[:16]


def survey(module: GoModule, mirror: str = "") -> Survey:
    """Request the checksums of a module's binaries from all hosts at once. This takes 3 s if no host answers."""
    releases = releases_of(module)
    if not releases:
        reason = Reason("", f"there are no release binaries for {platform.system()} on {platform.machine()}")
        return Survey(reasons=dict.fromkeys(module.packages, reason))
    urls = tuple(dict.fromkeys(_url(release.sums, mirror) for release in releases))
    answers: dict[str, str | _Failure] = {}
    threads = [_start(lambda url=url: answers.update({url: _read_sums(url)})) for url in urls]
    for thread in threads:
        thread.join()
    sums: dict[Release, str] = {}
    reasons: dict[str, Reason] = {}
    for release in releases:
        url = _url(release.sums, mirror)
        answer = answers[url]
        checksum = _sum_of(release.name, answer) if isinstance(answer, str) else None
        if isinstance(answer, _Failure):
            reasons[release.program] = answer.reason
        elif checksum is None:
            reasons[release.program] = Reason(url, f"has no SHA-256 sum of {release.name}")
        else:
            sums[release] = checksum
    return Survey(sums, reasons)


def download(sums: Mapping[Release, str], mirror: str, folder: Path, progress: Progress) -> dict[str, Reason]:
    """Download releases in parallel into an existing folder, and return why downloads failed, by binary.

    Raises UnknownOutcome if a file does not have its published checksum. Such a file is deleted.
    """
    events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
    gate = _Gate()
    failures: dict[str, Reason] = {}
    running, received, shown = len(sums), 0, 0
    with progress.count("Downloading release binaries", "MB") as advance:
        try:
            for release, checksum in sums.items():
                transfer = _Transfer(release, _url(release.file, mirror), checksum, folder, gate, events.put)
                _start(transfer.run)
            while running:
                event = events.get()
                received += event.size
                for _ in range(received // _MEGABYTE - shown):
                    advance()
                shown = max(shown, received // _MEGABYTE)
                running -= event.ended
                if isinstance(event.error, _WrongSum):
                    raise UnknownOutcome(str(event.error))
                if event.error is not None:
                    failures[event.program] = _reason_of(event.error)
        finally:
            gate.close()
    return failures


@dataclass(frozen=True, slots=True)
class _Event:
    """Progress of a transfer: the number of received bytes, or its end."""

    program: str
    size: int = 0
    ended: bool = False
    error: Exception | None = None


class _Gate:
    """Allows threads to create files in a temporary folder until the gate is closed. The folder can then be
    removed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.closed = threading.Event()

    @contextmanager
    def open(self) -> Generator[None]:
        """Keep the gate open while the body creates files. Raises _Cut if the gate is already closed."""
        with self._lock:
            if self.closed.is_set():
                raise _Cut("the file is no longer needed")
            yield

    def close(self) -> None:
        """Wait until no thread is creating a file, and close the gate, so that no thread can create another."""
        with self._lock:
            self.closed.set()


class _Transfer:
    """The transfer of one file into a folder. Each transfer runs in a separate thread."""

    def __init__(
        self,
        release: Release,
        url: str,
        checksum: str,
        folder: Path,
        gate: _Gate,
        report: Callable[[_Event], None],
    ) -> None:
        self._release = release
        self._url = url
        self._checksum = checksum
        self._path = folder / f".{release.name}"
        self._program = folder / release.program
        self._gate = gate
        self._report = report
        self._digest = hashlib.sha256()

    def run(self) -> None:
        """Transfer, verify and unpack the file, and report the end of the transfer in every case."""
        try:
            self._transfer()
            with self._gate.open():
                self._unpack()
        except Exception as error:
            self._path.unlink(missing_ok=True)
            self._program.unlink(missing_ok=True)
            self._report(_Event(self._release.program, ended=True, error=error))
        else:
            self._report(_Event(self._release.program, ended=True))

    def _transfer(self) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                self._receive()
                break
            except urllib.error.HTTPError as error:
                fault = f"responded with {error.code} {error.reason}"
                if error.code < 500 and error.code not in _TRANSIENT:
                    raise _Failure(self._url, fault) from error
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    self._path.unlink(missing_ok=True)
            except (OSError, http.client.HTTPException, _Cut) as error:
                fault = f"could not be transferred ({_describe(error)})"
            if attempt == _TRIES or self._gate.closed.wait(_PAUSE_SECONDS):
                raise _Failure(self._url, f"{fault} in {_TRIES} tries")
        checksum = self._digest.hexdigest()
        if checksum != self._checksum:
            raise _WrongSum(
                f"{self._url} has the SHA-256 sum {checksum}, but the published sum is {self._checksum}."
                " The file was damaged or replaced, and was deleted. Run the command again, or set"
                f" {VARIABLE}={BUILD} to build the programs from Go modules."
            )

    def _receive(self) -> None:
        """Receive the file, or what is missing since the last attempt."""
        size = self._path.stat().st_size if self._path.exists() else 0
        headers = {"Range": f"bytes={size}-"} if size else {}
        with _open(self._url, _STALL_SECONDS, headers) as response:
            resumed = size > 0 and response.headers.get("Content-Range", "").startswith(f"bytes {size}-")
            if not resumed:
                self._digest = hashlib.sha256()
            length, received = response.headers.get("Content-Length"), 0
            with self._gate.open():
                file = self._path.open("ab" if resumed else "wb")
            with file:
                while chunk := response.read1(_CHUNK):
                    if self._gate.closed.is_set():
                        raise _Cut("the file is no longer needed")
                    file.write(chunk)
                    self._digest.update(chunk)
                    received += len(chunk)
                    self._report(_Event(self._release.program, len(chunk)))
        if length is not None and received < int(length):
            raise _Cut(f"{received} of {length} bytes arrived")

    def _unpack(self) -> None:
        """Extract the binary if the verified file is an archive, and make the binary executable for everybody."""
        if not self._release.member:
            self._path.rename(self._program)
        else:
            with tarfile.open(self._path) as archive:
                try:
                    member = archive.extractfile(self._release.member)
                except KeyError:
                    member = None
                if member is None:
                    raise _Failure(self._url, f"has no file {self._release.member}")
                with member, self._program.open("wb") as program:
                    shutil.copyfileobj(member, program)
            self._path.unlink()
        self._program.chmod(0o755)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted to an unencrypted URL."""

    def __init__(self, on_redirect: Callable[[], None]) -> None:
        self._on_redirect = on_redirect

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request for the new URL. Raises HTTPError if the URL is not encrypted."""
        self._on_redirect()
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.HTTPError(newurl, code, "redirects to an unencrypted address", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(
    url: str,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    on_redirect: Callable[[], None] = lambda: None,
) -> http.client.HTTPResponse:
    """Open a URL. `seconds` is the timeout for the connection and for each part of the response."""
    request = urllib.request.Request(url, headers={"User-Agent": "gpu-platform", **(headers or {})})  # noqa: S310
    opener = urllib.request.build_opener(_Redirects(on_redirect))
    return cast("http.client.HTTPResponse", opener.open(request, timeout=seconds))


def _read_sums(url: str) -> str | _Failure:
    """Return the contents of a checksum file, or why it cannot be read.

    A separate thread reads the file, because a socket timeout does not cover DNS resolution.
    """
    host = urllib.parse.urlsplit(url).netloc
    # None means that the host has answered.
    answers: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            with _open(url, ANSWER_SECONDS, on_redirect=lambda: answers.put(None)) as response:
                answers.put(None)
                answers.put(response.read(_LIMIT).decode("utf-8", "replace"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            answers.put(error)

    _start(read)
    while True:
        try:
            answer = answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            return _Failure(host, _NO_ANSWER)
        if isinstance(answer, urllib.error.HTTPError):
            return _Failure(host, f"responded with {answer.code} {answer.reason} for {url.rpartition('/')[2]}")
        if isinstance(answer, Exception):
            is_timeout = isinstance(getattr(answer, "reason", answer), TimeoutError)
            return _Failure(host, _NO_ANSWER if is_timeout else f"cannot be reached ({_describe(answer)})")
        if answer is not None:
            return answer


def _sum_of(name: str, text: str) -> str | None:
    """Return the checksum of a file from a list of checksums or from a release in GitHub's API, or None."""
    if text.lstrip().startswith("{"):
        return _digest_of(name, text)
    for line in text.splitlines():
        checksum, *names = line.split() or [""]
        if _SUM.fullmatch(checksum) and names in ([], [name], [f"*{name}"]):
            return checksum
    return None


def _digest_of(name: str, text: str) -> str | None:
    try:
        assets: Any = json.loads(text).get("assets", [])
    except json.JSONDecodeError:
        return None
    digests = (asset.get("digest") for asset in assets if asset.get("name") == name)
    checksum = str(next(digests, "")).removeprefix("sha256:")
    return checksum if _SUM.fullmatch(checksum) else None


def _reason_of(error: Exception) -> Reason:
    return error.reason if isinstance(error, _Failure) else Reason("the download", f"failed ({_describe(error)})")


def _describe(error: Exception) -> str:
    """Return the cause of a failure without the words that urllib adds to it."""
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def _url(path: str, mirror: str) -> str:
    return f"{mirror}/{path}" if mirror else f"{ROOT}{path}"


def _start(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)  # A daemon thread does not delay an interrupted command.
    thread.start()
    return thread
