"""Paths of the code, the project, the build cache and the data of sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_BUNDLE = PACKAGE / "_bundle"
CODE_ROOT = _BUNDLE if _BUNDLE.is_dir() else PACKAGE.parent
"""The folder with the Pulumi program, components, policies, sandbox, validators and extensions.

In a checkout, it is the root. In a wheel, it is below `gpu_platform`, because the names of these folders are too
common for the top level.
"""
PACKAGES = ("components", "extensions", "gpu_platform", "policies", "sandbox", "validators")
"""Names that the modules of a project must not have."""
POLICY_PACK = CODE_ROOT / "policies"
STACKS_DIR_VARIABLE = "GPU_PLATFORM_STACKS_DIR"
_PROGRAM = "components.program"  # module that the program of every project calls


def is_checkout(folder: Path) -> bool:
    """Return whether `folder` is the root of a checkout of this project. The folder's name does not matter."""
    return (folder / "Pulumi.yaml").is_file() and (folder / "gpu_platform" / "base" / "paths.py").is_file()


def is_project(folder: Path) -> bool:
    """Return whether `folder` is a checkout, or has a Pulumi program that calls `components.program`."""
    if not (folder / "Pulumi.yaml").is_file():
        return False
    try:
        return is_checkout(folder) or _PROGRAM in (folder / "__main__.py").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def project_around(folder: Path) -> Path | None:
    """Return the root of the project that `folder` is in, or None if it is not in a project."""
    return next((root for root in (folder, *folder.parents) if is_project(root)), None)


def current_folder() -> Path:
    """Return the current folder, or the file system's root if the current folder was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def _project_root() -> Path:
    """Return the root of the project around the current folder, or else the root of the code.

    Later, `stack.project.check_project` raises an error if the code belongs to a different checkout.
    """
    around = project_around(current_folder())
    return CODE_ROOT if around is None or is_checkout(around) else around


PROJECT_ROOT = _project_root()
"""The folder with Pulumi.yaml and `__main__.py`."""
STACKS_DIR = (current_folder() if PROJECT_ROOT == _BUNDLE else PROJECT_ROOT) / "stacks"


def stacks_dir() -> Path:
    """Return the folder of stack files: `$GPU_PLATFORM_STACKS_DIR`, or else `stacks/` in the project."""
    return Path(os.environ.get(STACKS_DIR_VARIABLE) or STACKS_DIR)


def cache_dir() -> Path:
    """Return the folder of the build cache. It has a subfolder for each version.

    It is `$GPU_PLATFORM_CACHE`, or else `$XDG_CACHE_HOME/gpu-platform`, or else `~/.cache/gpu-platform`.
    """
    if explicit := os.environ.get("GPU_PLATFORM_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpu-platform"


def sandbox_dir(name: str) -> Path:
    """Return the data folder of the sandbox `name`, which contains etcd data, certificates, logs and the
    kubeconfig.

    It is in `$GPU_PLATFORM_SANDBOX_DIR`, or else `$XDG_STATE_HOME/gpu-platform/sandbox`, or else
    `~/.local/state/gpu-platform/sandbox`.
    """
    if explicit := os.environ.get("GPU_PLATFORM_SANDBOX_DIR"):
        return Path(explicit) / name
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gpu-platform" / "sandbox" / name


def sandbox_kubeconfig(name: str) -> Path:
    """Return the path of the admin kubeconfig of the sandbox `name`. The sandbox need not be running."""
    return sandbox_dir(name) / "kubeconfig"
