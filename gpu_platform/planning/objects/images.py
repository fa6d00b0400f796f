"""Replace the registries of the program's container images with the registries in the stack file."""

from __future__ import annotations

import dataclasses

from gpu_platform.catalog import Catalog
from gpu_platform.stack.images import Images

_DEFAULT_REGISTRY = "docker.io"


def mirrored(catalog: Catalog, images: Images) -> Catalog:
    """Return the catalogue with its container images in the stack file's registries.

    The sidecars of a fabric keep their registry, because admission policies trust them by their repository. GKE
    nodes reach that registry without internet access (Private Google Access).
    """
    if images.mirror is None and not images.registries:
        return catalog
    fabrics = catalog.fabric_pods.values()
    kept = {fabric.daemon.release for fabric in fabrics if fabric.daemon is not None}
    moved = {
        name: image
        if name in kept or not image.pulled
        else image.model_copy(update={"reference": _moved(image.reference, images)})
        for name, image in catalog.images.items()
    }
    return dataclasses.replace(catalog, images=moved)


def registries(catalog: Catalog) -> list[str]:
    """Return the registries of the catalogue's images."""
    return sorted({split_registry(image.reference)[0] for image in catalog.images.values() if image.pulled})


def split_registry(reference: str) -> tuple[str, str]:
    """Return the registry and the repository of an image, such as docker.io and library/python:3. The reference is
    resolved as in containerd.
    """
    first, slash, rest = reference.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return first, rest
    return _DEFAULT_REGISTRY, reference if slash else f"library/{reference}"


def _moved(reference: str, images: Images) -> str:
    registry, repository = split_registry(reference)
    if registry in images.registries:
        return f"{images.registries[registry]}/{repository}"
    return reference if images.mirror is None else f"{images.mirror}/{registry}/{repository}"
