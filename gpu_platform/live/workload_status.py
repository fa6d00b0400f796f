"""State of the workloads that a stack declares for its teams.

`up` reports this state and does not fail because of it. A pod that cannot start is the responsibility of its team,
because it may be preempted, exceed a quota, or wait for a colleague's GPUs. `up` waits for the pods of
Deployments. A job may wait in a queue or run for days, so it is only reported if it failed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_platform.base.quantity import counted
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.objects import items_at, mapping_at
from gpu_platform.live.readiness import pod_trouble, unready_reason
from gpu_platform.planning import Plan
from gpu_platform.planning.workloads import workloads_of

_POLL_SECONDS: Final = 0.5
_MAX_DETAILS: Final = 2
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "job": ("batch/v1", "Job"),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "trainjob": ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
}


@dataclass(frozen=True, slots=True)
class UnreadyWorkload:
    """A failed job, or a Deployment whose pods are not all running, with the reason and the pods' problems."""

    namespace: str
    name: str
    reason: str
    pods: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([f"{self.namespace}/{self.name}: {self.reason}", *self.pods])

    def to_json(self) -> dict[str, Any]:
        """Return the workload for a JSON report."""
        return {"namespace": self.namespace, "name": self.name, "reason": self.reason, "pods": list(self.pods)}


def wait_for_workloads(client: KubernetesClient, plan: Plan, seconds: float) -> tuple[UnreadyWorkload, ...]:
    """Wait up to `seconds` until all pods of the declared workloads are running.

    Return the workloads that are not ready.
    """
    deadline = time.monotonic() + seconds
    while True:
        unready = list(_unready(client, plan))
        if not unready or time.monotonic() >= deadline:
            explained = (_explained(client, live, reason) for live, reason in unready)
            return (*explained, *_failed_jobs(client, plan))
        time.sleep(_POLL_SECONDS)


def _unready(client: KubernetesClient, plan: Plan) -> Iterator[tuple[Mapping[str, Any], str]]:
    for team in plan.teams:
        run = workloads_of(team.namespace, plan.workloads)
        services = run.inference_services if run is not None else ()
        declared = {one.name for one in team.workloads} | {one.pod.workload.name for one in services}
        for live in client.objects("apps/v1", "Deployment", namespace=team.namespace) if declared else ():
            if live["metadata"]["name"] in declared and (reason := unready_reason(live, lambda: ())):
                yield live, reason


def _failed_jobs(client: KubernetesClient, plan: Plan) -> Iterator[UnreadyWorkload]:
    for run in plan.workloads:
        jobs = [(*_KINDS[job.api], job.pod.workload.name) for job in run.training_jobs]
        jobs += [(*_KINDS["job"], batch.pod.workload.name) for batch in run.batch_jobs if batch.schedule is None]
        for api_version, kind, name in jobs:
            live = client.get(api_version, kind, name, run.namespace)
            for condition in items_at(live or {}, "status", "conditions"):
                if condition["type"] == "Failed" and condition["status"] == "True":
                    told = condition.get("message") or condition.get("reason") or "no reason is given"
                    yield UnreadyWorkload(run.namespace, name, f"failed: {told}")


def _explained(client: KubernetesClient, live: Mapping[str, Any], reason: str) -> UnreadyWorkload:
    metadata = live["metadata"]
    labels = mapping_at(live, "spec", "selector", "matchLabels")
    selector = ",".join(f"{label}={value}" for label, value in labels.items())
    pods = client.objects("v1", "Pod", namespace=metadata["namespace"], label_selector=selector)
    troubles = [f"pod {pod['metadata']['name']} {why}" for pod in pods if (why := pod_trouble(pod))]
    more = [f"and {counted(len(troubles) - _MAX_DETAILS, 'pod')} more"] if len(troubles) > _MAX_DETAILS else []
    return UnreadyWorkload(metadata["namespace"], metadata["name"], reason, (*troubles[:_MAX_DETAILS], *more))
