"""Reads the environment variable GPU_PLATFORM_CONTROL_PLANE, which selects the source of the control plane's
binaries.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_platform.base.errors import BadInput, Problem, did_you_mean
from sandbox._modules import DEFAULT, KUBERNETES_PROGRAMS, GoModule

VARIABLE: Final = "GPU_PLATFORM_CONTROL_PLANE"
BUILD: Final = "build"
_ALLOWED: Final = f"{BUILD}, the absolute path of a folder with the programs, or the http(s) URL of a mirror"
_VERSION_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the sandbox gets its binaries. By default, they are downloaded, or built if no download exists."""

    build_only: bool = False
    mirror: str = ""
    """URL of a mirror without a trailing slash, or empty."""
    folder: Path | None = None


def read_origin() -> Origin:
    """Return the origin in the environment variable. Raises BadInput if the value is invalid."""
    value = os.environ.get(VARIABLE, "")
    if not value:
        return Origin()
    if value == BUILD:
        return Origin(build_only=True)
    if re.match(r"https?://[^/\s]+", value):
        return Origin(mirror=value.rstrip("/"))
    path = Path(value)
    if path.is_absolute() and path.is_dir():
        return Origin(folder=path)
    if path.is_absolute():
        fix = "create it and put the programs there, or unset the variable to download them"
        raise BadInput(VARIABLE, [Problem(VARIABLE, f"{value!r}, which is not a folder", _ALLOWED, fix)])
    if path.is_dir():
        fix = f"write the absolute path {path.resolve()}"
    else:
        fix = did_you_mean(value, [BUILD]) or "unset it to download the programs"
    raise BadInput(VARIABLE, [Problem(VARIABLE, repr(value), _ALLOWED, fix)])


def named_folders(folder: Path, kubernetes: str) -> tuple[Path, ...]:
    """Return the folders that contain the control plane of a minor version.

    These are `folder`, which the environment variable names, and its subfolder for the version, such as `1.36`.
    Raises BadInput, which lists every binary that is missing or has another minor version.
    """
    folders = _search_path(folder, kubernetes)
    programs = {program: _find(folders, program) for program in DEFAULT.packages}
    allowed = f"an executable program here or in {folder / kubernetes}"
    missing = [
        Problem(str(folder / program), "no executable program", allowed)
        for program, path in sorted(programs.items())
        if path is None
    ]
    if missing:
        raise BadInput(VARIABLE, missing)
    versions = (
        _version_problem(path, folder, kubernetes)
        for program, path in sorted(programs.items())
        if path is not None and program in KUBERNETES_PROGRAMS
    )
    if problems := [problem for problem in versions if problem is not None]:
        raise BadInput(VARIABLE, problems)
    return folders


def has_programs(folder: Path, module: GoModule) -> bool:
    """Return whether a folder from the environment variable has the binaries of an optional module, such as Kueue.

    Raises BadInput if the manifests of these binaries are missing.
    """
    if any(_find((folder,), program) is None for program in module.packages):
        return False
    manifests = folder / "manifests"
    missing = [
        Problem(
            str(manifests / name), "nothing", f"{name} of {module.copied_from} {module.pinned(module.copied_from)}"
        )
        for name in module.copied
        if not (manifests / name).exists()
    ]
    if missing:
        raise BadInput(VARIABLE, missing)
    return True


def named_version(folder: Path, kubernetes: str) -> str | None:
    """Return the version of the API server in a folder from the environment variable, such as `v1.36.3`, or None
    if the folder contains no API server.
    """
    path = _find(_search_path(folder, kubernetes), "kube-apiserver")
    return _read_version(path)[0] if path is not None else None


def _search_path(folder: Path, kubernetes: str) -> tuple[Path, ...]:
    return folder / kubernetes, folder


def _find(folders: Iterable[Path], program: str) -> Path | None:
    paths = (folder / program for folder in folders)
    return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)


def _version_problem(path: Path, folder: Path, kubernetes: str) -> Problem | None:
    version, failure = _read_version(path)
    if version is None:
        allowed = "a Kubernetes program for this machine that answers --version"
        return Problem(str(path), failure, allowed)
    if version.removeprefix("v").startswith(f"{kubernetes}."):
        return None
    fix = f"put the programs of {kubernetes} into {folder / kubernetes}"
    return Problem(str(path), f"Kubernetes {version}", f"Kubernetes {kubernetes}", fix)


def _read_version(path: Path) -> tuple[str | None, str]:
    """Return the version that a Kubernetes binary reports, or None and the reason why it reports none."""
    try:
        answer = subprocess.run(
            [str(path), "--version"],
            text=True,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    match = re.search(r"Kubernetes (v\d+\.\d+\.\S+)", answer.stdout)
    return (match[1], "") if match else (None, f"exit code {answer.returncode} and no version")
