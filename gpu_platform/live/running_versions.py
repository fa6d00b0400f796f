"""Reads the versions that run on a cluster: API server, kubelets, drivers, GPU Operator and platform images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_platform.base import names
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.upgrades.report import RunningVersions

_OPERATOR = "gpu-operator"  # name of the chart's Deployment and its container
_WORKLOADS = (("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"))


def read_running_versions(
    client: KubernetesClient, plan: EnvironmentPlan, nodes_of: Mapping[str, Sequence[str]]
) -> RunningVersions:
    """Return the versions on a cluster. `nodes_of` contains the names of nodes by pool.

    Raises UnknownOutcome and Refused.
    """
    nodes = {node["metadata"]["name"]: node for node in client.objects("v1", "Node")}
    workloads = [one for version, kind in _WORKLOADS for one in client.objects(version, kind)]
    kubelets: dict[str, tuple[str, ...]] = {}
    drivers: dict[str, tuple[str, ...]] = {}
    for pool in plan.pools:
        members = [nodes[name] for name in nodes_of.get(pool.name, ()) if name in nodes]
        kubelets[pool.name] = _distinct(
            mapping_at(node, "status", "nodeInfo").get("kubeletVersion") for node in members
        )
        drivers[pool.name] = _distinct(
            mapping_at(node, "metadata", "labels").get(names.DRIVER_VERSION_LABEL) for node in members
        )
    return RunningVersions(
        kubernetes=client.kubernetes_version(),
        operator=next(iter((*_of_object(client), *_operator(workloads))), None),
        kubelets=kubelets,
        drivers=drivers,
        images=dict(_images(workloads)),
    )


def _distinct(texts: Iterator[object]) -> tuple[str, ...]:
    return tuple(sorted({str(text) for text in texts if text}))


def _of_object(client: KubernetesClient) -> Iterator[str]:
    """Yield the release from the label that the chart sets on the operator's custom resource."""
    for api_version, kind in (("nvidia.com/v1", "ClusterPolicy"), ("nvidia.com/v1alpha1", "GPUCluster")):
        for one in client.objects(api_version, kind):
            if release := mapping_at(one, "metadata", "labels").get(names.VERSION_LABEL):
                yield str(release)


def _operator(workloads: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the release of the operator, which is the image tag of its Deployment."""
    for one in workloads:
        metadata = one["metadata"]
        if (metadata.get("namespace"), metadata["name"]) == (names.OPERATOR_NAMESPACE, _OPERATOR):
            for container in items_at(one, "spec", "template", "spec", "containers"):
                tag = str(container.get("image", "")).partition("@")[0].rpartition(":")[2]
                if tag.startswith("v"):
                    yield tag


def _images(workloads: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the images of each workload, by `Kind namespace/name`."""
    for one in workloads:
        pod = mapping_at(one, "spec", "template", "spec")
        containers = [*items_at(pod, "initContainers"), *items_at(pod, "containers")]
        images = _distinct(container.get("image") for container in containers)
        yield f"{one['kind']} {one['metadata']['namespace']}/{one['metadata']['name']}", images
