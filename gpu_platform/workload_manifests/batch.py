"""Manifest of a batch job: an indexed Job that retries each index separately, or a CronJob that creates the Job.

Source: Kubernetes docs, Jobs (backoff limit per index, pod failure policy) and CronJob; read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.planning.workloads.section import BatchJobPlan, PodPlan
from gpu_platform.workload_manifests.pods import Manifest, TeamPods, failure_rules

_KEPT = 3  # maximum number of successful Jobs, and of failed Jobs, that a CronJob keeps


def batch_job(team: TeamPods, batch: BatchJobPlan) -> list[Manifest]:
    """Return the Job or CronJob of a batch job."""
    name = batch.pod.workload.name
    spec: Manifest = {
        "completionMode": "Indexed",
        "parallelism": min(batch.pod.workload.replicas, batch.parts),
        "completions": batch.parts,
        "backoffLimitPerIndex": batch.retries,
        "maxFailedIndexes": batch.parts,
        "activeDeadlineSeconds": batch.deadline_seconds,
        "podFailurePolicy": {"rules": failure_rules("Ignore", batch.stop_on)},
        "template": team.template(batch.pod, {}, restartPolicy="Never"),
    }
    if batch.schedule is None:
        metadata = team.metadata(name, queued=True, pod=batch.pod)
        return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]
    return [cron_job(team, batch.pod, batch.schedule, spec)]


def cron_job(team: TeamPods, pod: PodPlan, schedule: str, job: Manifest, *, suspended: bool = False) -> Manifest:
    """Return a CronJob, scheduled in UTC, that never starts a Job while the previous Job is running."""
    name = pod.workload.name
    of_jobs = team.metadata(name, queued=True, pod=pod)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": team.metadata(name),
        "spec": {
            "schedule": schedule,
            "timeZone": "Etc/UTC",
            "suspend": suspended,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 600,
            "successfulJobsHistoryLimit": _KEPT,
            "failedJobsHistoryLimit": _KEPT,
            "jobTemplate": {
                "metadata": {key: of_jobs[key] for key in ("labels", "annotations") if key in of_jobs},
                "spec": job,
            },
        },
    }
