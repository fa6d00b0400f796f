"""Finds controllers on a cluster, whoever installed them and under whatever name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_platform.engine.client import KubernetesClient
from gpu_platform.engine.objects import items_at, mapping_at
from gpu_platform.planning.clouds.parts import FoundPart, HelmRelease, PartPlan

_NAME_LABEL = "app.kubernetes.io/name"
_VERSION_LABEL = "app.kubernetes.io/version"
_RELEASE = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")


def find_parts(client: KubernetesClient, parts: Iterable[PartPlan]) -> tuple[FoundPart, ...]:
    """Return the controllers of these parts in all namespaces; raises Refused and UnknownOutcome."""
    return tuple(
        _found(part, live)
        for part in parts
        for live in client.objects("apps/v1", part.kind)
        if mapping_at(live, "metadata", "labels").get(_NAME_LABEL) == part.label
        or any(part.image in image for image in _images(live))
    )


def _images(live: Mapping[str, Any]) -> Iterator[str]:
    for container in items_at(live, "spec", "template", "spec", "containers"):
        yield str(container.get("image", ""))


def _found(part: PartPlan, live: Mapping[str, Any]) -> FoundPart:
    metadata = live["metadata"]
    annotations = mapping_at(live, "metadata", "annotations")
    namespace, name = (annotations.get(key) for key in _RELEASE)
    release: HelmRelease | None = (str(namespace), str(name)) if namespace and name else None
    return FoundPart(
        part=part.name,
        kind=part.kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        version=str(mapping_at(live, "metadata", "labels").get(_VERSION_LABEL, "")),
        release=release,
    )
