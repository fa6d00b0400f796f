"""Provides the control plane's binaries in the versions that `go.mod` pins, once per machine and version.

The binaries come from releases. If a binary cannot be downloaded, it is built from its Go module. The environment
variable GPU_PLATFORM_CONTROL_PLANE can forbid downloads, or name a mirror or a folder with the binaries.

`python -m sandbox.build` provides the default Kubernetes version before the first `up`. `--all` provides every
version, for tests of upgrades. Otherwise, another version is provided when a sandbox needs it. `--karpenter`,
`--keda` and `--prometheus` build these projects, too. `--plan` only prints what a first run will do and how long
that takes. The module uses only the standard library, so that it runs before other packages are installed.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import GpuPlatformError, UnknownOutcome
from gpu_platform.base.paths import cache_dir
from gpu_platform.base.progress import Progress
from sandbox._go_build import GO_WHEEL as GO_WHEEL
from sandbox._go_build import build_programs
from sandbox._locks import file_lock
from sandbox._modules import (
    DEFAULT,
    KARPENTER,
    KEDA,
    KUBERNETES,
    KUEUE,
    PROMETHEUS,
    GoModule,
    join_words,
    kubernetes_versions,
    module_of,
)
from sandbox._origin import BUILD, VARIABLE, Origin, has_programs, named_folders, named_version, read_origin
from sandbox._releases import Reason, Survey, download, published, release_key, releases_of, survey

GO_MODULE: Final = DEFAULT.folder


@dataclass(frozen=True, slots=True)
class Binaries:
    """Binaries of the control plane, in one or more folders."""

    folders: tuple[Path, ...]

    def path(self, program: str) -> Path:
        """Return the executable of `program`, from the first folder that contains it."""
        found = (folder / program for folder in self.folders if (folder / program).exists())
        return next(found, self.folders[0] / program)

    def manifests(self, program: str) -> Path:
        """Return the folder with a binary's manifests, which is next to the binary."""
        return self.path(program).parent / "manifests"


def pinned_version(module: str, kubernetes: str | None = None) -> str:
    """Return the pinned version of a Go module, such as `v1.36.3`. The default is the module for the newest
    Kubernetes.
    """
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
    """Return the binaries for a Kubernetes version, by default the newest. Missing binaries are downloaded or
    built.

    `kueue`, `karpenter`, `keda` and `prometheus` add the binaries of that project, which are always built.

    Raises:
        LookupError: a sandbox cannot run this version.
        BadInput: the environment variable has an invalid value, or its folder lacks binaries.
        UnknownOutcome: a download has a wrong checksum, the mirror in the environment variable lacks binaries,
            Go is missing and cannot be installed, the build failed, or the cache is not writable.
    """
    origin = read_origin()
    module = module_of(kubernetes) if kubernetes is not None else DEFAULT
    requested = ((KUEUE, kueue), (KARPENTER, karpenter), (KEDA, keda), (PROMETHEUS, prometheus))
    optional = [each for each, is_requested in requested if is_requested]
    if origin.folder is not None:
        return _named_binaries(origin.folder, module, optional, progress)
    modules = (module,) if module == DEFAULT else (module, DEFAULT)
    return Binaries(tuple(folder for each in (*modules, *optional) for folder in _provide(each, origin, progress)))


def plan() -> str | None:
    """Return how the default version is obtained and how long that takes, or None if it is already installed."""
    origin = read_origin()
    if origin.folder is not None:
        named_folders(origin.folder, DEFAULT.kubernetes)
        return f"Control plane of Kubernetes {version_of(None)}: the programs in {origin.folder}"
    if _existing(DEFAULT, origin) is not None:
        return None
    answers = _survey(_missing(DEFAULT), origin)
    head = f"Control plane of Kubernetes {pinned_version(KUBERNETES)}"
    if not answers.reasons:
        return f"{head}: downloading {_binaries_of(answers, origin)} (about a minute)"  # 350 MB at 50 Mbit/s
    because = f"from Go modules, because {_because(answers.reasons)}"
    if not answers.sums:
        return f"{head}: building {because} (about 6 minutes on two cores)"
    built = join_words(answers.reasons)
    return f"{head}: downloading {_binaries_of(answers, origin)}, and building {built} {because} (some minutes)"


def installed_version() -> str | None:
    """Return the Kubernetes version of the binaries on this machine, or None if there are none."""
    return version_of(None) if is_built() else None


def version_of(kubernetes: str | None) -> str:
    """Return the release that sandboxes with a minor version run, such as `v1.36.3`. The default is the newest
    minor version.
    """
    folder = read_origin().folder
    named = named_version(folder, kubernetes or DEFAULT.kubernetes) if folder is not None else None
    return named or pinned_version(KUBERNETES, kubernetes)


def is_built(kubernetes: str | None = None) -> bool:
    """Return whether this machine has the binaries for a Kubernetes version, by default the newest."""
    origin = read_origin()
    module = module_of(kubernetes) if kubernetes is not None else DEFAULT
    if origin.folder is not None:
        return bool(named_folders(origin.folder, module.kubernetes))
    return _existing(module, origin) is not None


def has_karpenter() -> bool:
    """Return whether this machine has built Karpenter."""
    return _folder(KARPENTER).exists()


def has_keda() -> bool:
    """Return whether this machine has built KEDA."""
    return _folder(KEDA).exists()


def built_prometheus(program: str) -> Path | None:
    """Return the path of `prometheus` or `promtool` if this machine has built it, otherwise None."""
    found = _folder(PROMETHEUS) / program
    return found if found.exists() else None


def _folder(module: GoModule) -> Path:
    return cache_dir() / "control-plane" / module.build_key


def _release_folder(module: GoModule) -> Path:
    return cache_dir() / "control-plane" / release_key(releases_of(module))


def _named_binaries(folder: Path, module: GoModule, optional: Iterable[GoModule], progress: Progress) -> Binaries:
    """Return the binaries in a folder from the environment variable. Missing optional binaries are built."""
    folders = [*named_folders(folder, module.kubernetes)]
    for each in optional:
        if not has_programs(folder, each):
            if not _folder(each).exists():
                progress.line(f"{folder} has no {join_words(each.packages)}: building from Go modules")
            folders += _provide(each, Origin(build_only=True), progress)
    return Binaries(tuple(folders))


def _existing(module: GoModule, origin: Origin) -> tuple[Path, ...] | None:
    """Return the cache folders that together contain a module's binaries, or None if a binary is missing."""
    if _folder(module).exists():
        return (_folder(module),)
    downloaded = _release_folder(module)
    if origin.build_only or not downloaded.exists():
        return None
    rest = _missing(module)
    if not rest.packages:
        return (downloaded,)
    return (downloaded, _folder(rest)) if _folder(rest).exists() else None


def _missing(module: GoModule) -> GoModule:
    """Return the Go module with only the binaries that were not downloaded and must therefore be built."""
    downloaded = _release_folder(module)
    return module.only([program for program in module.packages if not (downloaded / program).exists()])


def _provide(module: GoModule, origin: Origin, progress: Progress) -> tuple[Path, ...]:
    """Return the folders with a module's binaries. If the cache lacks binaries, they are downloaded or built."""
    folders = _existing(module, origin)
    if folders is not None:
        return folders
    folder = _folder(module)
    waiting = "Waiting for another process that provides the sandbox's control plane"
    try:
        with file_lock(folder.parent / "build.lock", on_wait=lambda: progress.waiting(waiting)):
            folders = _existing(
                module, origin
            )  # Another process may have provided the folders while this one waited.
            return folders if folders is not None else _download_or_build(module, origin, progress)
    except OSError as error:
        raise UnknownOutcome(f"Building the sandbox's control plane into {folder} failed: {error}") from error


def _download_or_build(module: GoModule, origin: Origin, progress: Progress) -> tuple[Path, ...]:
    if origin.build_only or not published(module):
        build_programs(module, _folder(module), progress)
        return (_folder(module),)
    if reasons := _download(_missing(module), _release_folder(module), origin, progress):
        progress.line(f"Building {join_words(reasons)} from Go modules, because {_because(reasons)}")
    rest = _missing(module)
    if rest.packages and not _folder(rest).exists():
        build_programs(rest, _folder(rest), progress)
    return tuple(folder for folder in (_release_folder(module), _folder(rest)) if folder.exists())


def _download(module: GoModule, folder: Path, origin: Origin, progress: Progress) -> Mapping[str, Reason]:
    """Download the available binaries into a folder, and return why the other binaries have to be built."""
    answers = _survey(module, origin)
    if not answers.sums:
        return answers.reasons
    for leftover in folder.parent.glob(".downloading-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    programs = join_words(release.program for release in answers.sums)
    progress.line(f"Downloading {programs} into {folder}. This happens only once and takes about a minute")
    prefix = ".downloading-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True) as temporary:
        complete = Path(temporary) / "bin"
        complete.mkdir()
        failures = download(answers.sums, origin.mirror, complete, progress)
        if origin.mirror and failures:
            raise _mirror_error(origin, failures)
        # An interrupted download changes nothing.
        # If the folder already exists, the new binaries are added to it.
        if folder.exists():
            for program in complete.iterdir():
                program.rename(folder / program.name)
        elif len(failures) < len(answers.sums):
            complete.rename(folder)
    return {**answers.reasons, **failures}


def _survey(module: GoModule, origin: Origin) -> Survey:
    """Return which binaries can be downloaded, and why other binaries cannot. Raises UnknownOutcome if the
    mirror in the environment variable lacks a binary.
    """
    if origin.build_only:
        return Survey(reasons=dict.fromkeys(module.packages, Reason(f"{VARIABLE}={BUILD}", "is set")))
    answers = survey(module, origin.mirror)
    if origin.mirror and answers.reasons and releases_of(module):
        raise _mirror_error(origin, answers.reasons)
    return answers


def _mirror_error(origin: Origin, reasons: Mapping[str, Reason]) -> UnknownOutcome:
    return UnknownOutcome(
        f"{VARIABLE} names the mirror {origin.mirror}, which does not provide {join_words(reasons)}:"
        f" {_because(reasons)}. Correct the mirror, unset the variable to download from the original hosts, or set"
        f" it to {BUILD} to build the programs from Go modules."
    )


def _because(reasons: Mapping[str, Reason]) -> str:
    """Return why binaries cannot be downloaded, as a clause. Reasons with the same fault are combined."""
    subjects: dict[str, dict[str, None]] = {}
    for reason in reasons.values():
        subjects.setdefault(reason.fault, {})[reason.subject] = None
    return "; ".join(f"{join_words(names)} {fault}".strip() for fault, names in subjects.items())


def _binaries_of(answers: Survey, origin: Origin) -> str:
    hosts = origin.mirror or join_words(dict.fromkeys(release.host for release in answers.sums))
    return f"release binaries from {hosts}"


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Provide the missing binaries, and return the exit code."""
    # A shell's background job ignores SIGINT by default, but a build that make started must end with make.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if "--plan" in arguments:
            if line := plan():
                print(line)
            return 0
        for version in kubernetes_versions() if "--all" in arguments else (DEFAULT.kubernetes,):
            # Rich is not used, because an installer may be replacing it.
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
        print("building the sandbox's control plane: interrupted; compiled packages are kept", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
