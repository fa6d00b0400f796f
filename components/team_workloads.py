"""Components for the teams' training jobs, inference services, Ray clusters, notebooks and batch jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components._kubernetes_object import KubernetesObject
from components._options import child_options, retained
from gpu_platform.base import names
from gpu_platform.planning.workloads.section import (
    BatchJobPlan,
    InferenceServicePlan,
    NotebookPlan,
    RayClusterPlan,
    TeamWorkloadsPlan,
    TrainingJobPlan,
)
from gpu_platform.workload_manifests import (
    Manifest,
    TeamPods,
    batch_job,
    inference_service,
    notebook,
    ray_cluster,
    training_job,
)

# A queued job or a model that fails to load is the team's problem, and must not fail the deployment.
_NOT_AWAITED: Final = {"pulumi.com/skipAwait": "true"}

# A new workload starts with the declared replicas.
# If an autoscaler is added later, the current replicas stay.
_REPLICAS_OF_AUTOSCALER: Final = pulumi.ResourceOptions(ignore_changes=["spec.replicas"])


class _Manifests(pulumi.ComponentResource):
    """The objects of one declared workload of a team."""

    def __init__(
        self, kind: str, name: str, manifests: Sequence[Manifest], opts: pulumi.ResourceOptions | None
    ) -> None:
        super().__init__(f"gpu-platform:index:{kind}", name, None, opts)
        child = child_options(self, opts)
        scaled = [one["spec"]["scaleTargetRef"] for one in manifests if one["kind"] == "ScaledObject"]
        made: list[pulumi.Resource] = []
        for manifest in manifests:
            after = pulumi.ResourceOptions(depends_on=list(made))
            if manifest["kind"] == "ScaledObject":
                own = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(parent=self), after)
                made.append(KedaScaler(name, manifest, own))
                continue
            if any(target["kind"] == manifest["kind"] for target in scaled):
                after = pulumi.ResourceOptions.merge(after, _REPLICAS_OF_AUTOSCALER)
            made.append(_create(manifest, pulumi.ResourceOptions.merge(child, after)))
        self.register_outputs({})


def _create(manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    kind, metadata = manifest["kind"], dict(manifest["metadata"])
    rest: dict[str, Any] = {
        key: value for key, value in manifest.items() if key not in {"apiVersion", "kind", "metadata"}
    }
    metadata["annotations"] = {**metadata.get("annotations", {}), **_NOT_AWAITED}
    if kind == "PersistentVolumeClaim":
        metadata["labels"] = {**metadata["labels"], names.KEPT_LABEL: "true"}
        opts = retained(opts)
    logical = f"{metadata['namespace']}/{kind}/{metadata['name']}"
    resource = f"{manifest['apiVersion']}/{kind}"
    return KubernetesObject(logical, resource, metadata=metadata, opts=opts, **rest)


class KedaScaler(pulumi.ComponentResource):
    """The ScaledObject of an inference service. KEDA and a HorizontalPodAutoscaler use it to set the replicas.

    `args` is its manifest, as `workload_manifests.inference_service` writes it.
    """

    def __init__(self, name: str, args: Manifest, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:KedaScaler", name, None, opts)
        child = child_options(self, opts)
        before = opts.parent if opts is not None else None
        # Until 2026-11, the scaler was a child of the service. The alias prevents a replacement.
        if before is not None:
            child = pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=before)])
            )
        _create(args, child)
        self.register_outputs({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobArgs:
    """Planned training job, and the settings that all pods of its team share."""

    team: TeamPods
    job: TrainingJobPlan


class TrainingJob(_Manifests):
    """A TrainJob, JobSet or indexed Job whose pods train one model together, with its claim and Service."""

    def __init__(self, name: str, args: TrainingJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("TrainingJob", name, training_job(args.team, args.job), opts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceServiceArgs:
    """Planned inference service, and the settings that all pods of its team share."""

    team: TeamPods
    service: InferenceServicePlan


class InferenceService(_Manifests):
    """A Deployment or LeaderWorkerSet with a Service and, if declared, a PodDisruptionBudget, autoscaler and
    route.
    """

    def __init__(self, name: str, args: InferenceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("InferenceService", name, inference_service(args.team, args.service), opts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterArgs:
    """Planned Ray cluster, and the settings that all pods of its team share."""

    team: TeamPods
    cluster: RayClusterPlan


class RayCluster(_Manifests):
    """A KubeRay RayCluster."""

    def __init__(self, name: str, args: RayClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("RayCluster", name, ray_cluster(args.team, args.cluster), opts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookArgs:
    """Planned notebook, and the settings that all pods of its team share."""

    team: TeamPods
    notebook: NotebookPlan


class Notebook(_Manifests):
    """A suspended CronJob from which members create notebooks, and the claim for their files."""

    def __init__(self, name: str, args: NotebookArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Notebook", name, notebook(args.team, args.notebook), opts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobArgs:
    """Planned batch job, and the settings that all pods of its team share."""

    team: TeamPods
    batch: BatchJobPlan


class BatchJob(_Manifests):
    """An indexed Job, or a CronJob."""

    def __init__(self, name: str, args: BatchJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("BatchJob", name, batch_job(args.team, args.batch), opts)


def create_workloads(
    team: TeamPods, plan: TeamWorkloadsPlan, opts: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    """Create a component for each declared workload of a team.

    `opts` must make the workloads wait for the team's quotas, policies and claims.
    """

    def named(name: str) -> str:
        return f"{plan.namespace}/{name}"

    return [
        *(
            TrainingJob(named(job.pod.workload.name), TrainingJobArgs(team=team, job=job), opts)
            for job in plan.training_jobs
        ),
        *(
            InferenceService(
                named(service.pod.workload.name), InferenceServiceArgs(team=team, service=service), opts
            )
            for service in plan.inference_services
        ),
        *(
            RayCluster(named(cluster.name), RayClusterArgs(team=team, cluster=cluster), opts)
            for cluster in plan.ray_clusters
        ),
        *(
            Notebook(named(entry.pod.workload.name), NotebookArgs(team=team, notebook=entry), opts)
            for entry in plan.notebooks
        ),
        *(
            BatchJob(named(batch.pod.workload.name), BatchJobArgs(team=team, batch=batch), opts)
            for batch in plan.batch_jobs
        ),
    ]
