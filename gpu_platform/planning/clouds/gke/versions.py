"""Compare GKE versions such as 1.34.1-gke.1829001, which consist of a Kubernetes minor version, a patch and a
Google build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r"1\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")


def order(version: str) -> tuple[int, int, int]:
    """Return a sort key for a version. Missing numbers count as 0. Raise ValueError if the format is invalid."""
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(version)
    minor, patch, build = (int(part or 0) for part in match.groups())
    return minor, patch, build


def highest(versions: Iterable[str | None]) -> str | None:
    """Return the newest of the versions, or None if no versions are given."""
    return max((version for version in versions if version is not None), key=order, default=None)
