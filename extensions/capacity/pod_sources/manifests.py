"""Reads pods from Kubernetes manifests: which kinds contain pods, and how many of the pods run at the same time.

Kinds and fields are from the Kubernetes 1.36 API, JobSet v1alpha2 and LeaderWorkerSet v1, read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from extensions.capacity.pod_sources.manifest_mapping import ManifestMapping
from extensions.capacity.pod_sources.pod_spec import Claims, Cluster, Skipped, devices_of, read_pod
from extensions.capacity.scheduling.model import PodGroup
from gpu_platform.base.errors import Problem, did_you_mean

_Pods = Iterator[tuple[str, ManifestMapping, int]]
"""Tuples: the suffix of a workload's name, a pod spec, and the number of pods."""


def read_manifests(
    documents: Sequence[object], cluster: Cluster, problems: list[Problem], *, any_team: bool
) -> list[PodGroup | Skipped]:
    """Return the pods in the manifests. Objects without pods are ignored. Problems are appended to `problems`.

    With `any_team`, namespaces that belong to no team of the stack are also allowed, because quotas are read from
    the cluster.
    """
    places = list(_objects(documents, problems))
    known = Cluster(cluster.plan, _claims(places))
    return [found for place in places for found in _pods_of(place, known, any_team=any_team)]


def _objects(documents: Sequence[object], problems: list[Problem]) -> Iterator[ManifestMapping]:
    """Yield the objects of all documents, including the items of lists."""
    for index, document in enumerate(documents):
        if document is None:
            continue
        place = ManifestMapping(document, f"document {index + 1}", problems)
        if str(place.value.get("kind")).endswith("List") and "items" in place.value:
            yield from place.items("items")
        else:
            yield place


def _pods_of(place: ManifestMapping, cluster: Cluster, *, any_team: bool) -> Iterator[PodGroup | Skipped]:
    kind = str(place.value.get("kind"))
    reader = _READERS.get(kind)
    if reader is None:
        if _has_containers(place.value):
            allowed = f"a supported kind: {', '.join(_READERS)}"
            place.problem(
                "kind",
                repr(kind),
                allowed,
                did_you_mean(kind, _READERS) or "declare its pods as objects of kind Pod",
            )
        return
    name = place.at("metadata").text("name") or place.at("metadata").text("generateName").rstrip("-")
    if not name:
        place.problem("metadata.name", "nothing", "a name", "name the object")
    team = place.at("metadata").text("namespace")
    _check_team(place, team, cluster, any_team=any_team)
    for suffix, spec, count in reader(place):
        if not spec.value.get("containers"):
            spec.problem(
                "containers", "none", "at least one container", f"check the pod template of {kind} {name}"
            )
        if count:
            yield read_pod(spec, cluster, team=team, name=name + suffix, kind=kind, count=count)


def _check_team(place: ManifestMapping, team: str, cluster: Cluster, *, any_team: bool) -> None:
    teams = [one.namespace for one in cluster.plan.teams]
    if team and (any_team or team in teams):
        return
    place.problem(
        "metadata.namespace",
        repr(team) if team else "nothing",
        f"a team of the stack: {', '.join(teams) or 'it has none'}",
        did_you_mean(team, teams) or "name the team whose quota the pods use",
    )


def _has_containers(value: object) -> bool:
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        return isinstance(inner.get("containers"), list) or any(map(_has_containers, inner.values()))
    return isinstance(value, list) and any(map(_has_containers, cast("list[object]", value)))


def _claims(places: Sequence[ManifestMapping]) -> dict[str, Claims]:
    """Return the claims and claim templates of the file by namespace."""
    found: dict[str, dict[str, Mapping[str, int] | str]] = {}
    for place in places:
        kind = str(place.value.get("kind"))
        if kind in {"ResourceClaim", "ResourceClaimTemplate"}:
            spec = place.at("spec", "spec") if kind == "ResourceClaimTemplate" else place.at("spec")
            metadata = place.at("metadata")
            found.setdefault(metadata.text("namespace"), {})[metadata.text("name")] = claimed(spec)
    return cast("dict[str, Claims]", found)


def claimed(spec: ManifestMapping) -> Mapping[str, int] | str:
    """Return the devices of a claim's spec by device class, or the reason why the claim is not simulated."""
    total: dict[str, int] = {}
    for request in spec.at("devices").items("requests"):
        exactly = request.at("exactly")
        if not exactly.value:
            return "claims with alternatives are not simulated"
        devices = devices_of(
            exactly.text("deviceClassName"), exactly.number("count", 1), exactly.value.get("selectors") or ()
        )
        if isinstance(devices, str):
            return devices
        for name, count in devices.items():
            total[name] = total.get(name, 0) + count
    return total


def _pod(place: ManifestMapping) -> _Pods:
    yield "", place.at("spec"), 1


def _replicas(place: ManifestMapping) -> _Pods:
    spec = place.at("spec")
    yield "", spec.at("template", "spec"), spec.number("replicas", 1)


def _job(place: ManifestMapping) -> _Pods:
    yield "", place.at("spec", "template", "spec"), _parallel(place.at("spec"))


def _cron_job(place: ManifestMapping) -> _Pods:
    spec = place.at("spec", "jobTemplate", "spec")
    yield "", spec.at("template", "spec"), _parallel(spec)


def _job_set(place: ManifestMapping) -> _Pods:
    for job in place.at("spec").items("replicatedJobs"):
        spec = job.at("template", "spec")
        yield f"-{job.text('name')}", spec.at("template", "spec"), job.number("replicas", 1) * _parallel(spec)


def _leader_worker_set(place: ManifestMapping) -> _Pods:
    spec = place.at("spec")
    templates = spec.at("leaderWorkerTemplate")
    replicas, size = spec.number("replicas", 1), templates.number("size", 1)
    worker = templates.at("workerTemplate", "spec")
    leader = templates.at("leaderTemplate", "spec") if "leaderTemplate" in templates.value else worker
    yield "-leader", leader, replicas
    yield "-worker", worker, replicas * max(0, size - 1)


def _parallel(spec: ManifestMapping) -> int:
    """Return the number of pods of a Job that run at the same time."""
    parallel = spec.number("parallelism", 1)
    return min(parallel, spec.number("completions", parallel))


_READERS: Final[Mapping[str, Callable[[ManifestMapping], _Pods]]] = {
    "Pod": _pod,
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "StatefulSet": _replicas,
    "ReplicationController": _replicas,
    "Job": _job,
    "CronJob": _cron_job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
}
