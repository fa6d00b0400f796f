"""Checks that a sandbox can run a Kubernetes version.

The version must be available, and must be the sandbox's current minor version or the next one.
"""

from __future__ import annotations

from pathlib import Path

from gpu_platform.base.errors import BadInput, Problem
from sandbox._layout import Layout
from sandbox._modules import kubernetes_versions


def kubernetes_of(home: Path) -> str | None:
    """Return a sandbox's Kubernetes minor version, or None if its data folder does not contain one."""
    settings = Layout(home.resolve()).settings()
    return settings.kubernetes if settings is not None else None


def check_kubernetes(home: Path, name: str, wanted: str | None, place: str) -> None:
    """Raise BadInput if a sandbox cannot run the requested Kubernetes version.

    Args:
        home: Data folder of the sandbox, which may not exist yet.
        name: Name of the sandbox.
        wanted: Minor version, or None to keep the sandbox's version.
        place: Where the input contains the version, for the error message.

    A control plane is upgraded by one minor version at a time and never downgraded. A newer API server may have
    stored objects in a form that an older one cannot read (Kubernetes version skew policy, read 2026-11-22).
    """
    if wanted is None:
        return
    versions = kubernetes_versions()
    if wanted not in versions:
        fix = f'write "{versions[-1]}"'
        allowed = f"a version that a sandbox can run: {', '.join(versions)}"
        raise BadInput("sandbox", [Problem(place, repr(wanted), allowed, fix)])
    current = kubernetes_of(home)
    if current is None:
        return
    found = f"{wanted!r} for sandbox {name} of Kubernetes {current}"
    steps = _minor(wanted) - _minor(current)
    if steps < 0:
        fix = f"delete it with `gpu-platform sandbox down --name {name}`, or use a sandbox with another name"
        allowed = f"{current} or the next version: a control plane cannot be downgraded"
        raise BadInput("sandbox", [Problem(place, found, allowed, fix)])
    if steps > 1:
        fix = f"upgrade to 1.{_minor(current) + 1} first"
        raise BadInput("sandbox", [Problem(place, found, "one minor version at a time", fix)])


def _minor(version: str) -> int:
    return int(version.partition(".")[2])
