"""Kinds of objects that are cleaned up, and the conditions that mark an object of each kind as finished.

Sources: Kubernetes API, PodStatus and JobStatus; JobSet v1alpha2, conditions Completed and Failed; Kubeflow
Trainer v1alpha1, conditions Complete and Failed; KubeRay v1, RayJob jobDeploymentStatus and endTime; 2026-11-25.
kubeflow/trainer v1.9.3 and kubeflow/mpi-operator v0.8.0, conditions Succeeded and Failed; 2026-11-30.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    `ends` are the types of the conditions that mark an object as finished. The tuple is empty if objects of
    this kind never finish by themselves.
    """

    name: str
    group: str
    version: str
    plural: str
    ends: tuple[str, ...] = ()

    def path(self, namespace: str, name: str = "") -> str:
        """Return the API path of a namespace's objects of this kind, or of the object `name`."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")

    @property
    def api_version(self) -> str:
        """API version of the kind, as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


POD = Kind("Pod", "", "v1", "pods")
REPLICA_SET = Kind("ReplicaSet", "apps", "v1", "replicasets")
JOB = Kind("Job", "batch", "v1", "jobs", ("Complete", "Failed"))
RAY_JOB = Kind("RayJob", "ray.io", "v1", "rayjobs")
KINDS: tuple[Kind, ...] = (
    POD,
    JOB,
    Kind("Deployment", "apps", "v1", "deployments"),
    Kind("StatefulSet", "apps", "v1", "statefulsets"),
    Kind("JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets", ("Completed", "Failed")),
    Kind("TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs", ("Complete", "Failed")),
    Kind("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", ("Succeeded", "Failed")),
    Kind("MPIJob", "kubeflow.org", "v2beta1", "mpijobs", ("Succeeded", "Failed")),
    Kind("RayCluster", "ray.io", "v1", "rayclusters"),
    RAY_JOB,
    Kind("RayService", "ray.io", "v1", "rayservices"),
    Kind("LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
)


def time_of(text: str) -> datetime:
    """Return a timestamp of the API server as a time in UTC. Raises ValueError if the format is invalid."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def status_of(live: Object) -> Object:
    """Return the status of an object, or an empty mapping if it has none yet."""
    found: Object = live.get("status") or {}
    return found


def ended_at(kind: Kind, live: Object) -> datetime | None:
    """Return the time when an object finished, or None if it has not finished."""
    status = status_of(live)
    if kind == POD:
        return _pod_ended_at(live, status)
    if kind == RAY_JOB:
        ended = status.get("jobDeploymentStatus") in ("Complete", "Failed")
        return time_of(status.get("endTime") or live["metadata"]["creationTimestamp"]) if ended else None
    for condition in status.get("conditions") or ():
        if condition.get("type") in kind.ends and condition.get("status") == "True":
            return time_of(condition["lastTransitionTime"])
    return None


def _pod_ended_at(live: Object, status: Object) -> datetime | None:
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    ends: list[str] = []
    for container in status.get("containerStatuses") or ():
        terminated: Object = container.get("state", {}).get("terminated") or {}
        ends.append(terminated.get("finishedAt") or "")
    if not any(ends):
        ends = [one.get("lastTransitionTime") or "" for one in status.get("conditions") or ()]
    return time_of(max(ends, default="") or live["metadata"]["creationTimestamp"])
