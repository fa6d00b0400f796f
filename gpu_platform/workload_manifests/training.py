"""Manifests of a training job: a TrainJob of Kubeflow Trainer, a JobSet, or an indexed Job.

All pods have torchrun's variables. torchrun reads PET_<OPTION> for each of its options (PyTorch docs, torchrun;
torch distributed/argparse_util.py). In an indexed Job and a JobSet, the pods meet at the first pod through c10d.
In a TrainJob, the controller sets the variables.

A pod that a job loses to a disruption or to Kueue (`lost_pods.LOST_CONDITIONS`) costs no attempt. The same applies
to a pod whose exit code means that it was interrupted with its work saved. Any other failure of a pod costs an
attempt, unless its exit code means that another attempt would fail as well. A JobSet restarts all pods, because
training waits for the missing pods. In an indexed Job, only the failed pod is restarted, and torchrun in the other
pods reconnects to it.

Sources: Kubernetes docs, Jobs (pod failure policy, indexed completion, reasons and messages of failed Jobs);
JobSet 0.12, failure policy and its rules; Kubeflow Trainer 2.3, TrainJob and TrainingRuntime; read 2026-11-23.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from gpu_platform.catalog.lost_pods import LOST_CONDITIONS
from gpu_platform.planning.workloads.section import TrainingJobPlan
from gpu_platform.workload_manifests.pods import Manifest, TeamPods, failure_rules

RENDEZVOUS_PORT: Final = 29500
_GROUP: Final = "node"  # name of the replicated Job in a JobSet; Trainer gives its pods the same name
_STEP: Final = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
# These patterns match the Job controller's messages about a pod that matched a failure rule.
_LOST_MESSAGE: Final = f".*has condition ({'|'.join(LOST_CONDITIONS)}) matching FailJob rule.*"
_EXIT_MESSAGE: Final = ".*failed with exit code {codes} matching FailJob rule.*"


def training_job(team: TeamPods, job: TrainingJobPlan) -> list[Manifest]:
    """Return the objects of a training job in their order of creation."""
    build = {"job": _job, "jobset": _job_set, "trainjob": _train_job}[job.api]
    return [*team.claim(job.claim), *team.compute_domain(job.pod), *build(team, job)]


def _job(team: TeamPods, job: TrainingJobPlan) -> list[Manifest]:
    name, pods = job.pod.workload.name, job.pod.workload.replicas
    first = f"{name}-0.{name}"
    template = team.template(
        job.pod, {"env": _rendezvous(job, first)}, restartPolicy="Never", subdomain=name if pods > 1 else None
    )
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": team.metadata(name, queued=True, pod=job.pod),
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            # If the first pod is lost, all pods fail. One attempt can therefore cause one failure per pod.
            "backoffLimit": job.retries * pods,
            "activeDeadlineSeconds": job.deadline_seconds,
            "podFailurePolicy": {"rules": failure_rules("Ignore", job.stop_on, job.interrupted_on)},
            # The new pod waits until the old pod has terminated, because both have the same DNS name.
            "podReplacementPolicy": "Failed",
            "template": template,
        },
    }
    if pods == 1:
        return [manifest]
    selector = {"batch.kubernetes.io/job-name": name}
    return [team.service(name, selector, RENDEZVOUS_PORT, headless=True), manifest]


def _rendezvous(job: TrainingJobPlan, first: str) -> list[Manifest]:
    """Return torchrun's variables. `first` is the address of the first pod, where all pods meet."""
    pods = job.pod.workload.replicas
    values: dict[str, str] = {"PET_NNODES": str(pods), "PET_NPROC_PER_NODE": str(job.processes)}
    if pods == 1:
        values["PET_STANDALONE"] = "1"
    else:
        values |= {
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{first}:{RENDEZVOUS_PORT}",
            "PET_RDZV_ID": job.pod.workload.name,
            "PET_MAX_RESTARTS": str(job.retries),
        }
    return [{"name": name, "value": value} for name, value in values.items()]


def _job_set(team: TeamPods, job: TrainingJobPlan) -> list[Manifest]:
    name = job.pod.workload.name
    # Pods of a JobSet are named <jobset>-<replicated job>-<job>-<pod>, in the subdomain of the JobSet.
    template = team.template(
        job.pod, {"env": _rendezvous(job, f"{name}-{_GROUP}-0-0.{name}")}, restartPolicy="Never"
    )
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": team.metadata(name, queued=True, pod=job.pod),
            "spec": _job_set_spec(job, {"name": _GROUP, "template": {"spec": _group(job, template)}}),
        }
    ]


def _job_set_spec(job: TrainingJobPlan, group: Manifest) -> Manifest:
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {
            "maxRestarts": job.retries,
            # The next attempt needs the GPUs that the last attempt used.
            "restartStrategy": "BlockingRecreate",
            "rules": [
                {
                    "name": "nodeLost",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                    "onJobFailureMessagePatterns": [_LOST_MESSAGE],
                },
                *_interrupted(job),
                {
                    "name": "noOtherAttempt",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                    "onJobFailureMessagePatterns": [_EXIT_MESSAGE.format(codes="[0-9]+")],
                },
                {
                    "name": "deadline",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["DeadlineExceeded"],
                },
            ],
        },
        "replicatedJobs": [{**group, "replicas": 1}],
    }


def _interrupted(job: TrainingJobPlan) -> list[Manifest]:
    """Return the rule for exit codes that cost no attempt.

    The rule precedes the rule for all exit codes, because the first match counts.
    """
    if not job.interrupted_on:
        return []
    codes = "(" + "|".join(str(code) for code in job.interrupted_on) + ")"
    return [
        {
            "name": "interrupted",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [_EXIT_MESSAGE.format(codes=codes)],
        }
    ]


def _group(job: TrainingJobPlan, template: Manifest) -> Manifest:
    """Return the spec of the Job that a JobSet creates. Any failed pod fails the Job."""
    pods = job.pod.workload.replicas
    return {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "activeDeadlineSeconds": job.deadline_seconds,
        "podFailurePolicy": {"rules": failure_rules("FailJob", job.stop_on, job.interrupted_on)},
        "template": template,
    }


def _train_job(team: TeamPods, job: TrainingJobPlan) -> list[Manifest]:
    """Return a TrainingRuntime that contains the job's complete pod template, and the TrainJob that uses it."""
    name, workload = job.pod.workload.name, job.pod.workload
    template = team.template(job.pod, {}, name=_GROUP, restartPolicy="Never")
    group = {"name": _GROUP, "template": {"metadata": {"labels": dict(_STEP)}, "spec": _group(job, template)}}
    spec: Manifest = {
        "mlPolicy": {"numNodes": workload.replicas, "torch": {}},
        "template": {"spec": _job_set_spec(job, group)},
    }
    # A started TrainJob ignores changes to its runtime, so a changed pod template requires a new runtime.
    own = f"{name}-{hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]}"
    runtime: Manifest = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": team.metadata(own),
        "spec": spec,
    }
    train: Manifest = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": team.metadata(name, queued=True, pod=job.pod),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "TrainingRuntime",
                "name": own,
            },
            "activeDeadlineSeconds": job.deadline_seconds,
            "trainer": {"numNodes": workload.replicas, "numProcPerNode": job.processes},
        },
    }
    return [runtime, train]
