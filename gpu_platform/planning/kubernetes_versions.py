"""Parsing of Kubernetes versions in the formats of the stack file, the catalogue, API servers and the clouds."""

from __future__ import annotations

import re
from collections.abc import Mapping


def minor(version: str) -> int:
    """Return the minor version as a number, such as 36 for 1.36 and 34 for 1.34.1-gke.1829001."""
    return int(re.split(r"[.+-]", version)[1])


def minor_version(git_version: str) -> str | None:
    """Return the minor version of an API server version, such as 1.35 for v1.35.2-eks-4f4795d.

    Return None if the version cannot be parsed.
    """
    match = re.match(r"v?(\d+\.\d+)", git_version)
    return match[1] if match else None


def operator_fix(
    kubernetes: str, supported: tuple[str, str], releases: Mapping[str, tuple[str, str]] | None = None
) -> str:
    """Return the fix for an operator release that does not support the Kubernetes version of a cluster.

    `supported` contains the lowest and the highest Kubernetes version that the release supports. `releases`
    contains the same pair for each release that can be used instead, or is None if these releases are not known.
    The fix never downgrades a control plane.
    """
    lowest, highest = supported
    newer = minor(kubernetes) > minor(highest)
    if releases is None:
        choice = f"use {'a newer' if newer else 'an older'} operator release"
    else:
        fitting = [
            name for name, (low, high) in releases.items() if minor(low) <= minor(kubernetes) <= minor(high)
        ]
        choice = f"use {' or '.join(fitting)}" if fitting else ""
    if newer:
        return choice or f"use Kubernetes {lowest} to {highest}; no release supports {kubernetes} yet"
    upgrade = f"upgrade the cluster to {lowest} first, one minor version at a time"
    return f"{choice}, or {upgrade}" if choice else upgrade
