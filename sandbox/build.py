"""Builds the control plane's programs from the Go modules that `go.mod` pins, once per machine and pin.

`python -m sandbox.build` builds those of the default Kubernetes version ahead of the first `up`, with `--all`
those of every version, which tests of upgrades need; otherwise another version is built when a sandbox asks for
it. With `--karpenter`, `--keda` or `--prometheus` it builds these, too. It needs the standard library only, so
that it runs while pip still installs the rest.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.errors import GpuPlatformError, UnknownOutcome
from gpu_platform.paths import cache_dir
from gpu_platform.progress import Progress
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
    kubernetes_versions,
    module_of,
)

GO_MODULE: Final = DEFAULT.folder


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
                    build_programs(module, folder, progress)
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
