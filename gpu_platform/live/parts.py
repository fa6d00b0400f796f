"""Finds controllers on a cluster, regardless of who installed them and under which name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.planning.clouds.parts import HelmRelease, InstalledPart, PartPlan

_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_NAME_LABEL = "app.kubernetes.io/name"
_VERSION_LABEL = "app.kubernetes.io/version"
# Prefixes of labels that the operator, Node Feature Discovery and Kubernetes set on GPU nodes.
_OF_EVERY_GPU_NODE = ("nvidia.com/", "feature.node.kubernetes.io/", "kubernetes.io/")
_RELEASE = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")


def find_parts(client: KubernetesClient, parts: Iterable[PartPlan]) -> tuple[InstalledPart, ...]:
    """Return the workloads in all namespaces that run the controllers `parts`, and the custom resources that
    configure these controllers.

    Workloads that another controller created are left out, because the result contains their owner. If a
    controller may be kept off the pools' nodes, workloads whose node selector or affinity may exclude GPU nodes
    are also left out. Raises Refused and UnknownOutcome.
    """
    return tuple(found for part in parts for found in _of_part(client, part))


def find_definitions(client: KubernetesClient, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the CustomResourceDefinitions with these names that exist. Raises Refused and UnknownOutcome."""
    found = ((name, client.get(*_DEFINITION, name)) for name in names)
    return {name: one for name, one in found if one is not None}


def _of_part(client: KubernetesClient, part: PartPlan) -> Iterator[InstalledPart]:
    for live in client.objects("apps/v1", part.kind):
        labelled = mapping_at(live, "metadata", "labels").get(_NAME_LABEL) == part.label
        if not labelled and not any(part.image in image for image in _images(live)):
            continue
        if not _has_controller(live) and not (part.may_keep_off and _keeps_off(live)):
            yield _found(part, part.kind, live)
    for api_version, kind in part.objects:
        for live in client.objects(api_version, kind):
            yield _found(part, kind, live)


def _has_controller(live: Mapping[str, Any]) -> bool:
    return any(owner.get("controller") for owner in items_at(live, "metadata", "ownerReferences"))


def _keeps_off(live: Mapping[str, Any]) -> bool:
    """Return whether a workload's node selector or node affinity may exclude GPU nodes."""
    pod = mapping_at(live, "spec", "template", "spec")
    if any(not key.startswith(_OF_EVERY_GPU_NODE) for key in mapping_at(pod, "nodeSelector")):
        return True
    required = mapping_at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = items_at(required, "nodeSelectorTerms")
    return bool(terms) and all(
        any(not str(one["key"]).startswith(_OF_EVERY_GPU_NODE) for one in items_at(term, "matchExpressions"))
        for term in terms
    )


def _images(live: Mapping[str, Any]) -> Iterator[str]:
    for container in items_at(live, "spec", "template", "spec", "containers"):
        yield str(container.get("image", ""))


def _found(part: PartPlan, kind: str, live: Mapping[str, Any]) -> InstalledPart:
    metadata = live["metadata"]
    annotations = mapping_at(live, "metadata", "annotations")
    namespace, name = (annotations.get(key) for key in _RELEASE)
    release: HelmRelease | None = (str(namespace), str(name)) if namespace and name else None
    return InstalledPart(
        part=part.name,
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        version=str(mapping_at(live, "metadata", "labels").get(_VERSION_LABEL, "")),
        release=release,
    )
