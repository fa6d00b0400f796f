"""Manifests of the example workloads for members. The examples need no further installations.

They are built like the workloads that a stack file declares, but run the guide's programs. They satisfy Pod
Security `restricted` in every namespace. The only exceptions are the settings that GPU NICs need, if the policies
of the namespace allow these settings.

Source: PyTorch docs, torchrun (environment variables); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Final

from gpu_platform.base import names
from gpu_platform.planning.guide.section import ExampleKind, ExamplePlan, GuidePlan
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.workloads.plans import node_seconds, processes_of
from gpu_platform.planning.workloads.section import (
    BatchJobPlan,
    InferenceServicePlan,
    KeptClaimPlan,
    MountPlan,
    PodPlan,
    TrainingJobPlan,
)
from gpu_platform.workload_manifests import Manifest, TeamPods, batch_job, inference_service, training_job
from gpu_platform.workload_manifests.notebook import IDLE, jupyter

_USER: Final = 1000
_HOME: Final = "/home/member"
_CODE: Final = "/code"
_CHECKPOINTS: Final = "/checkpoints"
_CLAIM: Final = "training-checkpoints"
_CHECKPOINT_SIZE: Final = "100Gi"
_SERVE_PORT: Final = 8080
_LOADING_SECONDS: Final = 600  # time for an inference server to start, because a model takes minutes to load
_IDLE_SECONDS: Final = 3600  # an idle notebook is stopped after this time
_DAY: Final = 86_400
_NOTEBOOK_SECONDS: Final = _DAY // 2
_PARTS: Final = 4  # number of pods of the batch job
_RETRIES: Final = 3


def manifests(
    guide: GuidePlan, team_plan: TeamPlan, queue: TeamQueuePlan | None
) -> Mapping[ExampleKind, tuple[Manifest, ...]]:
    """Return the objects of each example, in the order of their creation."""
    team = TeamPods(team_plan, queue, restricted=True)
    return {one.kind: tuple(_BUILDERS[one.kind](team, one)) for one in guide.examples}


def _pod(example: ExamplePlan, *command: str, code: bool = True, checkpoints: MountPlan | None = None) -> PodPlan:
    """Return the pod plan for an example, with its program and a home directory."""
    mounts = [MountPlan(name="code", path=_CODE, config_map=example.kind, read_only=True)] if code else []
    mounts += [] if checkpoints is None else [checkpoints]
    return PodPlan(
        workload=replace(example.workload, name=example.kind, command=command, run_as_user=_USER),
        env={"HOME": _HOME, **({} if checkpoints is None else {"CHECKPOINTS": _CHECKPOINTS})},
        mounts=(*mounts, MountPlan(name="home", path=_HOME)),
        annotations={
            **({} if example.kind == "inference" else {names.CHECKPOINTS_ANNOTATION: _kept(example)}),
            **example.annotations,
        },
        node_seconds=None
        if example.kind == "inference"
        else node_seconds(_NOTEBOOK_SECONDS if example.kind == "notebook" else _DAY, example.node_seconds),
        fabric=example.fabric,
    )


def _kept(example: ExamplePlan) -> str:
    """Return the annotation value that describes where a pod keeps its state."""
    if example.kind == "batch":
        return "none: each part is short and starts from the beginning"
    if example.kind == "notebook":
        return f"none: {_HOME} is deleted with the pod"
    if example.volume is not None:
        return f"claim {example.volume}, {_CHECKPOINTS}"
    if example.storage_class is not None:
        return f"claim {_CLAIM}, {_CHECKPOINTS}"
    return f"none: {_CHECKPOINTS} is deleted with the pod, mount a volume there for real work"


def _program(team: TeamPods, kind: ExampleKind, script: str) -> Manifest:
    text = files("gpu_platform.guide").joinpath("scripts", script).read_text()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": team.metadata(kind), "data": {script: text}}


def _training(team: TeamPods, example: ExamplePlan) -> list[Manifest]:
    """Return an indexed Job whose pods find each other by the name of the first pod."""
    made = example.storage_class is not None and example.volume is None
    name = example.volume or (_CLAIM if made else None)
    mount = MountPlan(name="checkpoints", path=_CHECKPOINTS, claim=name)
    claim = KeptClaimPlan(
        name=_CLAIM,
        storage_class=example.storage_class,
        size=example.smallest_claim or _CHECKPOINT_SIZE,
        shared=example.shared,
    )
    job = TrainingJobPlan(
        pod=_pod(example, "torchrun", f"{_CODE}/train.py", checkpoints=mount),
        api="job",
        processes=processes_of(example.workload),
        retries=_RETRIES,
        stop_on=(),
        deadline_seconds=_DAY,
        claim=claim if made else None,
    )
    return [_program(team, "training", "train.py"), *training_job(team, job)]


def _inference(team: TeamPods, example: ExamplePlan) -> list[Manifest]:
    """Return a Deployment with a Service, so that other pods in the namespace can reach the Deployment by name."""
    service = InferenceServicePlan(
        pod=_pod(example, "python", f"{_CODE}/serve.py"),
        replicas=example.workload.replicas,
        nodes=1,
        port=_SERVE_PORT,
        health_path="/healthz",
        startup_seconds=_LOADING_SECONDS,
    )
    return [_program(team, "inference", "serve.py"), *inference_service(team, service)]


def _notebook(team: TeamPods, example: ExamplePlan) -> list[Manifest]:
    """Return a Job. Unlike a Deployment, a Job finishes when the notebook has been idle, and then releases its
    GPU.
    """
    pod = _pod(example, *jupyter(_HOME, _IDLE_SECONDS), code=False)
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": _NOTEBOOK_SECONDS,
        "template": team.template(pod, {}, labels=IDLE, restartPolicy="Never"),
    }
    metadata = team.metadata("notebook", queued=True, pod=pod)
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}]


def _batch(team: TeamPods, example: ExamplePlan) -> list[Manifest]:
    """Return an indexed Job that retries each index separately."""
    pod = _pod(example, "python", f"{_CODE}/batch.py")
    batch = BatchJobPlan(pod=pod, parts=_PARTS, retries=2, stop_on=(), deadline_seconds=_DAY)
    return [_program(team, "batch", "batch.py"), *batch_job(team, batch)]


_BUILDERS: Final = {"training": _training, "inference": _inference, "notebook": _notebook, "batch": _batch}
