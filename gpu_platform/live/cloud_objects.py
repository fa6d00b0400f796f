"""Finds the objects in a cluster for which the cloud has load balancers and volumes.

The cloud keeps these resources if the cluster is deleted before the objects
(see `gpu_platform.planning.clouds.leftovers`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import annotation, items_at, mapping_at

# Gateways come first, because the controller of a Gateway creates the Service of the Gateway again.
_LOAD_BALANCER_KINDS: Final = (
    ("gateway.networking.k8s.io", "Gateway"),
    ("networking.k8s.io", "Ingress"),
    ("", "Service"),
)
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


@dataclass(frozen=True, slots=True)
class CloudVolume:
    """A PersistentVolume whose storage a CSI driver created for a claim. `handle` is the name of the storage in
    the cloud.
    """

    live: Mapping[str, Any]
    namespace: str
    claim: str
    handle: str
    is_deleted_with_claim: bool

    def is_deleted_with(self, namespaces: Collection[str]) -> bool:
        """Whether the volume is deleted when these namespaces are deleted."""
        return self.is_deleted_with_claim and self.namespace in namespaces

    def __str__(self) -> str:
        return f"volume {self.handle} of claim {self.claim} in namespace {self.namespace}"


@dataclass(frozen=True, slots=True)
class CloudObjects:
    """Objects in all namespaces that have load balancers or volumes in the cloud.

    `load_balancers` are the objects with load balancers, in the order of their deletion.
    """

    load_balancers: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[CloudVolume, ...] = ()


def read_cloud_objects(client: KubernetesClient) -> CloudObjects:
    """Return the objects for which the cloud has load balancers and volumes."""
    volumes = map(cloud_volume, client.objects("v1", "PersistentVolume"))
    return CloudObjects(
        tuple(live for wave in load_balancer_objects(client) for live in wave),
        tuple(volume for volume in volumes if volume is not None),
    )


def load_balancer_objects(client: KubernetesClient) -> Iterator[tuple[Mapping[str, Any], ...]]:
    """Yield the objects with load balancers by kind. Each kind is read when it is requested."""
    for group, kind in _LOAD_BALANCER_KINDS:
        served = client.find_served(group, kind)
        lives = client.objects(served.api_version, kind) if served is not None else ()
        yield tuple(live for live in lives if has_load_balancer(live))


def has_load_balancer(live: Mapping[str, Any]) -> bool:
    """Return whether the cloud has, or may be creating, a load balancer for a Gateway, Ingress or Service."""
    if live["kind"] == "Service":
        return mapping_at(live, "spec").get("type") == "LoadBalancer"
    if live["kind"] == "Gateway":
        return True
    # An Ingress that no controller handles has no load balancer.
    return bool(live["metadata"].get("finalizers") or items_at(live, "status", "loadBalancer", "ingress"))


def cloud_volume(live: Mapping[str, Any]) -> CloudVolume | None:
    """Return a PersistentVolume as a CloudVolume, or None if no CSI driver created its storage for a claim."""
    driver, claim = mapping_at(live, "spec", "csi"), mapping_at(live, "spec", "claimRef")
    if not (driver and claim and annotation(live, _PROVISIONED_BY)):
        return None
    return CloudVolume(
        live,
        str(claim["namespace"]),
        str(claim["name"]),
        str(driver["volumeHandle"]),
        mapping_at(live, "spec").get("persistentVolumeReclaimPolicy") == "Delete",
    )
