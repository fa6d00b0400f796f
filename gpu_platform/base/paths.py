"""Paths of the project, of the build cache and of the data of sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
STACKS_DIR = PROJECT_ROOT / "stacks"
STACKS_DIR_VARIABLE = "GPU_PLATFORM_STACKS_DIR"
POLICY_PACK = PROJECT_ROOT / "policies"


def stacks_dir() -> Path:
    """Return the folder of stack files: `$GPU_PLATFORM_STACKS_DIR`, else `stacks/` of the project."""
    return Path(os.environ.get(STACKS_DIR_VARIABLE) or STACKS_DIR)


def cache_dir() -> Path:
    """Return the build cache, which has a subfolder per version.

    `$GPU_PLATFORM_CACHE`, else `$XDG_CACHE_HOME/gpu-platform`, else `~/.cache/gpu-platform`.
    """
    if explicit := os.environ.get("GPU_PLATFORM_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpu-platform"


def sandbox_dir(name: str) -> Path:
    """Return the data folder of the sandbox `name`, with etcd data, certificates, logs and kubeconfig.

    It is in `$GPU_PLATFORM_SANDBOX_DIR`, else `$XDG_STATE_HOME/gpu-platform/sandbox`, else
    `~/.local/state/gpu-platform/sandbox`.
    """
    if explicit := os.environ.get("GPU_PLATFORM_SANDBOX_DIR"):
        return Path(explicit) / name
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gpu-platform" / "sandbox" / name


def sandbox_kubeconfig(name: str) -> Path:
    """Return the path of the admin kubeconfig of the sandbox `name`, even if the sandbox does not run."""
    return sandbox_dir(name) / "kubeconfig"
