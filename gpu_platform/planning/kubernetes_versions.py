"""Read Kubernetes versions, as the stack file, the catalogue and the clouds write them."""

from __future__ import annotations


def minor(version: str) -> int:
    """Return the minor version as a number: 36 of 1.36, 34 of 1.34.1-gke.1829001."""
    return int(version.split(".")[1])
