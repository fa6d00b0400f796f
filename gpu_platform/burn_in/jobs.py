"""Jobs for active checks, on one node or on a pair of nodes.

Their pods have the same resources, networks, sidecars and rendezvous as the pods of a training job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog.lost_pods import LOST_CONDITIONS
from gpu_platform.planning.burn_in.program import SERVICE_ACCOUNT
from gpu_platform.planning.burn_in.section import BurnInPlan
from gpu_platform.planning.teams.section import ServiceAccountPlan, TeamPlan
from gpu_platform.planning.workloads.section import PodPlan, TrainingJobPlan
from gpu_platform.workload_manifests.pods import Manifest, TeamPods
from gpu_platform.workload_manifests.training import training_job

# A run deletes its Jobs. If the run is killed, Kubernetes deletes finished Jobs after this time.
_KEPT_SECONDS: Final = 3600


def job_of(
    plan: BurnInPlan, pod: PodPlan, nodes: Sequence[str], run: str, labels: Mapping[str, str] | None = None
) -> list[Manifest]:
    """Return the objects of one Job with a pod on each node. `run` is the value of the objects' run label."""
    name = _name(pod.workload.name, nodes)
    named = replace(
        pod,
        workload=replace(
            pod.workload,
            name=name,
            replicas=len(nodes),
            compute_domain=None if pod.workload.compute_domain is None else f"{name}-channel",
        ),
    )
    job = TrainingJobPlan(
        pod=named,
        api="job",
        processes=pod.workload.units,
        retries=0,
        stop_on=(),
        deadline_seconds=plan.timeout_seconds,
    )
    team_plan = TeamPlan(
        namespace=plan.namespace,
        quota={},
        members=(),
        pod_security="restricted",
        service_account=ServiceAccountPlan(name=SERVICE_ACCOUNT),
    )
    team = TeamPods(
        team_plan, None, {**(labels or {}), names.BURN_IN_LABEL: run}, restricted=plan.pod_security == "restricted"
    )
    return [
        _bound(manifest, nodes) if manifest["kind"] == "Job" else manifest for manifest in training_job(team, job)
    ]


def _name(prefix: str, nodes: Sequence[str]) -> str:
    """Return the name of a Job, its pods and its Service. It contains a digest, because node names are too long
    and contain dots.
    """
    digest = hashlib.sha256("\n".join(nodes).encode()).hexdigest()[:8]
    return f"{prefix[:40]}-{digest}"


def _bound(manifest: Manifest, nodes: Sequence[str]) -> Manifest:
    """Return a Job with one pod on each of these nodes. Each pod uses all GPUs of its node."""
    spec: dict[str, Any] = manifest["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [nodes[0]]}]}
    # A field selector accepts only one value, so there is one term for each node.
    terms = [{"matchFields": [{**field["matchFields"][0], "values": [node]}]} for node in nodes]
    pod["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    for container in pod["containers"]:
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    # If a team's pods preempt this pod, the Job does not restart it, because its node is now busy.
    spec["podFailurePolicy"] = {
        "rules": [{"action": "FailJob", "onPodConditions": [{"type": one} for one in LOST_CONDITIONS]}]
    }
    spec["ttlSecondsAfterFinished"] = _KEPT_SECONDS
    return manifest
