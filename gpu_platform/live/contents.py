"""Lists the objects of all served kinds that members of a team created in a namespace.

The list leaves out objects of the platform, objects that a controller created from another object (such as pods of
a StatefulSet), and objects that Kubernetes creates in each namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from gpu_platform.base.quantity import bytes_text, counted, parse_quantity
from gpu_platform.catalog.csi_drivers import KEEPS_FILES
from gpu_platform.live.client import KubernetesClient, Refused
from gpu_platform.live.objects import ObjectKey, items_at, mapping_at, object_key
from gpu_platform.live.usage import gpu_units

KEPT_KINDS: Final = ("NetworkPolicy.networking.k8s.io", "ResourceQuota", "LimitRange")
"""Kinds of platform objects that isolate a namespace and limit its usage. Members cannot write them."""
_ACCESS_KINDS: Final = ("Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io")
# Controllers create these records about other objects, without an owner reference.
_DERIVED_KINDS: Final = ("Event", "Event.events.k8s.io", "Endpoints", "EndpointSlice.discovery.k8s.io")
_IN_EACH_NAMESPACE: Final = (("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"))
_ENDED: Final = ("Succeeded", "Failed")
_SHOWN_FIRST: Final = (
    "PersistentVolumeClaim",
    "StatefulSet.apps",
    "Deployment.apps",
    "Job.batch",
    "CronJob.batch",
)
_SHOWN_AS: Final = {"PersistentVolumeClaim": "volume claim"}


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim with its size and, if it is bound, its volume.

    `size` is the size that the spec requests. `policy` is the reclaim policy of the volume, which decides what
    happens to the volume when the claim is deleted. `driver` is the CSI driver of the volume, or empty if unknown.
    """

    name: str
    size: str
    volume: str = ""
    policy: str = ""
    driver: str = ""

    @property
    def is_bound(self) -> bool:
        """Whether the claim has a volume."""
        return bool(self.volume)

    def __str__(self) -> str:
        if not self.is_bound:
            return f"{self.name} ({self.size}, not bound)"
        fate = {"Delete": " is deleted with the claim", "Retain": " is kept"}.get(self.policy, "")
        if self.policy == "Delete" and self.driver in KEEPS_FILES:
            fate += ", but its files stay on the file system"
        return f"{self.name} ({self.size}, volume {self.volume}{fate})"


@dataclass(frozen=True, slots=True)
class Contents:
    """Objects that team members created in a namespace.

    `objects` are live objects without an owner, except pods. `pods` is the number of pods that have not ended, and
    `gpus` are the GPU resources of these pods. `bare_pods` are pods without an owner, including ended pods.
    `unread` contains the errors for kinds that could not be listed. If there are any, more objects may exist.
    """

    namespace: str
    objects: tuple[Mapping[str, Any], ...] = ()
    claims: tuple[VolumeClaim, ...] = ()
    pods: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict[str, int])
    bare_pods: tuple[Mapping[str, Any], ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether team members created nothing and all kinds could be read."""
        return not (self.objects or self.pods or self.bare_pods or self.unread)

    @property
    def kinds(self) -> Mapping[str, int]:
        """Number of objects by `Kind.group`. Claims and workloads come first, and the other kinds are sorted by
        name.
        """
        counts = Counter(object_key(live).group_kind for live in self.objects)
        rank = {kind: index for index, kind in enumerate(_SHOWN_FIRST)}
        return dict(sorted(counts.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0])))

    def __str__(self) -> str:
        """Return a summary for use in a sentence, such as `1 volume claim (2 TiB), 1 StatefulSet, 3 pods`."""
        parts = [_counted(count, kind) + self._size(kind) for kind, count in self.kinds.items()]
        if self.pods:
            held = ", ".join(f"{count} {resource}" for resource, count in self.gpus.items())
            parts.append(_counted(self.pods, "pod") + (f" ({held})" if held else ""))
        elif self.bare_pods:
            parts.append(_counted(len(self.bare_pods), "ended pod"))
        if self.unread:
            parts.append("objects that could not be listed")
        return ", ".join(parts) or "no objects that members created"

    def _size(self, kind: str) -> str:
        if kind != "PersistentVolumeClaim":
            return ""
        return f" ({bytes_text(sum((parse_quantity(claim.size) for claim in self.claims), Decimal(0)))})"

    def to_json(self) -> dict[str, Any]:
        """Return the contents for a JSON report: names, sizes and counts, but never the data of an object."""
        return {
            "namespace": self.namespace,
            "claims": [
                {"name": claim.name, "size": claim.size, "volume": claim.volume, "reclaim_policy": claim.policy}
                for claim in self.claims
            ],
            "objects": [{"kind": key.group_kind, "name": key.name} for key in map(object_key, self.objects)],
            "kinds": dict(self.kinds),
            "pods": self.pods,
            "gpus": dict(self.gpus),
            "unread": list(self.unread),
        }


def namespace_contents(
    client: KubernetesClient, namespace: str, *, is_platform: Callable[[Mapping[str, Any]], bool] = lambda _: False
) -> Contents:
    """Return the objects that team members created in a namespace.

    `is_platform` returns whether an object belongs to the platform, and is needed if the namespace still contains
    objects of the platform. Kinds that the cluster does not allow this user to list are named in `unread`.
    """
    lives, unread = _all_objects(client, namespace)
    roots = _Owners(lives)
    own = [live for live in lives if not is_platform(roots.of(live))]
    pods = [live for live in own if _kind(live) == "Pod"]
    running = [pod for pod in pods if mapping_at(pod, "status").get("phase") not in _ENDED]
    # Claims are always listed, because claims that a StatefulSet owns also contain data.
    objects = [
        live
        for live in own
        if _kind(live) != "Pod" and (roots.of(live) is live or _kind(live) == "PersistentVolumeClaim")
    ]
    return Contents(
        namespace,
        tuple(sorted(objects, key=lambda live: (_kind(live), str(live["metadata"]["name"])))),
        tuple(_volume_claim(client, live) for live in objects if _kind(live) == "PersistentVolumeClaim"),
        len(running),
        _gpus(running),
        tuple(pod for pod in pods if roots.of(pod) is pod),
        tuple(unread),
    )


def held_by_finalizers(client: KubernetesClient, namespace: str) -> tuple[str, ...]:
    """Return the objects that keep a namespace from being deleted, each with its finalizers."""
    lives, _ = _all_objects(client, namespace)
    found = [(object_key(live), live["metadata"]) for live in lives if "deletionTimestamp" in live["metadata"]]
    return tuple(
        f"{key.group_kind} {key.name} (finalizers {', '.join(metadata['finalizers'])})"
        for key, metadata in sorted(found, key=lambda one: str(one[0]))
        if metadata.get("finalizers")
    )


def _all_objects(client: KubernetesClient, namespace: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the objects of all kinds that can belong to members, and the reasons why kinds could not be read."""
    found: dict[str, dict[str, Any]] = {}  # by uid, because two API groups may serve the same objects
    unread: list[str] = []
    for api_version in client.api_versions():
        try:
            for kind in client.namespaced_kinds(api_version):
                for live in _of_kind(client, api_version, kind, namespace, unread):
                    found.setdefault(str(live["metadata"]["uid"]), live)
        except Refused as refusal:
            unread.append(str(refusal))
    return [live for live in found.values() if not _says_nothing(object_key(live))], unread


def _of_kind(
    client: KubernetesClient, api_version: str, kind: str, namespace: str, unread: list[str]
) -> list[dict[str, Any]]:
    try:
        return list(client.objects(api_version, kind, namespace=namespace))
    except Refused as refusal:
        if refusal.status not in (404, 405):  # the kind has just been removed, or cannot be listed
            unread.append(str(refusal))
        return []


def _says_nothing(key: ObjectKey) -> bool:
    skipped = (*KEPT_KINDS, *_ACCESS_KINDS, *_DERIVED_KINDS)
    return key.group_kind in skipped or (key.group_kind, key.name) in _IN_EACH_NAMESPACE


class _Owners:
    """Finds the topmost owner of an object that controllers created."""

    def __init__(self, lives: Collection[Mapping[str, Any]]) -> None:
        self._by_uid = {str(live["metadata"]["uid"]): live for live in lives}

    def of(self, live: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the topmost owner in the namespace, or the object itself if it has no owner."""
        seen: set[str] = set()
        while (owner := self._owner(live)) is not None and str(owner["metadata"]["uid"]) not in seen:
            seen.add(str(owner["metadata"]["uid"]))
            live = owner
        return live

    def _owner(self, live: Mapping[str, Any]) -> Mapping[str, Any] | None:
        owners = items_at(live, "metadata", "ownerReferences")
        controlling = [owner for owner in owners if owner.get("controller")]
        found = (self._by_uid.get(str(owner["uid"])) for owner in controlling)
        return next((owner for owner in found if owner is not None), None)


def _volume_claim(client: KubernetesClient, live: Mapping[str, Any]) -> VolumeClaim:
    name = str(live["metadata"]["name"])
    size = str(mapping_at(live, "spec", "resources", "requests").get("storage") or "0")
    if mapping_at(live, "status").get("phase") != "Bound":
        return VolumeClaim(name, size)
    volume = str(mapping_at(live, "spec").get("volumeName") or "unknown")
    try:
        spec = mapping_at(client.get("v1", "PersistentVolume", volume) or {}, "spec")
    except Refused:  # volumes are cluster-scoped, and not every user may read them
        return VolumeClaim(name, size, volume)
    policy, driver = spec.get("persistentVolumeReclaimPolicy"), mapping_at(spec, "csi").get("driver")
    return VolumeClaim(name, size, volume, str(policy or ""), str(driver or ""))


def _gpus(pods: Collection[Mapping[str, Any]]) -> dict[str, int]:
    units: Counter[str] = Counter()
    for pod in pods:
        units.update(gpu_units(pod))
    return dict(sorted(units.items()))


def _kind(live: Mapping[str, Any]) -> str:
    return object_key(live).group_kind


def _counted(count: int, kind: str) -> str:
    word = _SHOWN_AS.get(kind, kind.partition(".")[0])
    return counted(count, word)


def names_by_kind(contents: Contents) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each kind with the names of its objects. Names of claims include size and volume."""
    for kind in contents.kinds:
        if kind == "PersistentVolumeClaim":
            yield kind, tuple(str(claim) for claim in contents.claims)
        else:
            yield kind, tuple(str(live["metadata"]["name"]) for live in contents.objects if _kind(live) == kind)
    if contents.bare_pods:
        yield "Pod", tuple(str(pod["metadata"]["name"]) for pod in contents.bare_pods)
