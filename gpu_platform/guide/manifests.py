"""Manifests of the example workloads: Kubernetes objects of a member, without anything that has to be installed.

They satisfy Pod Security `restricted`. Sources: Kubernetes docs, Pod Security Standards, Jobs (indexed completion,
pod failure policy), DNS for Services and Pods (hostname and subdomain of indexed Jobs); PyTorch docs, torchrun
(c10d rendezvous); Jupyter Server docs, shutdown_no_activity_timeout. Read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from gpu_platform import names
from gpu_platform.planning.guide.section import ExampleKind, ExamplePlan, GuidePlan
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.section import TenantPlan

_USER: Final = 1000
_HOME: Final = "/home/member"
_CODE: Final = "/code"
_CHECKPOINTS: Final = "/checkpoints"
_RENDEZVOUS_PORT: Final = 29500
_SERVE_PORT: Final = 8080
_IDLE_SECONDS: Final = 3600  # of a notebook: then its server ends, and with it the pod
_DEADLINES: Final[Mapping[ExampleKind, int]] = {"training": 86_400, "notebook": 43_200, "batch": 86_400}
_CHECKPOINT_SIZE: Final = "100Gi"
_PARTS: Final = 4  # of the batch job
# A node that fails or is reclaimed is no fault of the program: the pod starts again, and no attempt is counted.
_DISRUPTED: Final = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
_JUPYTER: Final = (
    "jupyter",
    "lab",
    "--ip=127.0.0.1",  # `kubectl port-forward` alone reaches it
    "--port=8888",
    "--no-browser",
    f"--ServerApp.root_dir={_HOME}",
    f"--ServerApp.shutdown_no_activity_timeout={_IDLE_SECONDS}",
    f"--MappingKernelManager.cull_idle_timeout={_IDLE_SECONDS}",
)

Manifest = dict[str, Any]


def manifests(
    guide: GuidePlan, tenant: TenantPlan, queue: TeamQueuePlan | None
) -> Mapping[ExampleKind, tuple[Manifest, ...]]:
    """Return the objects of each example, in the order in which they are made."""
    return {one.kind: tuple(_BUILDERS[one.kind](_Team(guide, tenant, queue), one)) for one in guide.examples}


class _Team:
    """What all pods of a team have."""

    def __init__(self, guide: GuidePlan, tenant: TenantPlan, queue: TeamQueuePlan | None) -> None:
        self.namespace = guide.namespace
        self._account = tenant.service_account
        self._queue = queue

    def metadata(self, name: str, *, queued: bool = False) -> Manifest:
        labels = {names.NAME_LABEL: name}
        if queued and self._queue is not None:
            labels[names.QUEUE_LABEL] = self._queue.local_queue
        return {"name": name, "namespace": self.namespace, "labels": labels}

    def template(self, example: ExamplePlan, container: Manifest, **rest: Any) -> Manifest:  # noqa: ANN401 - of a pod
        """Return the template of the pods; `rest`: further fields of their spec."""
        workload, kind = example.workload, example.kind
        mounts = [*container.pop("volumeMounts", ()), {"name": "home", "mountPath": _HOME}]
        volumes: list[Manifest] = [*rest.pop("volumes", ()), {"name": "home", "emptyDir": {}}]
        if workload.shared_memory is not None:
            mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - a mount of the container
            volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": workload.shared_memory}})
        resources: Manifest = {"requests": dict(workload.requests), "limits": dict(workload.requests)}
        if workload.claims:
            resources["claims"] = [{"name": claim} for claim in workload.claims]
        metadata: Manifest = {"labels": {names.NAME_LABEL: kind}}
        if kind != "inference":
            metadata["annotations"] = {names.CHECKPOINTS_ANNOTATION: _kept(example)}
        if kind == "inference" and self._queue is not None:
            metadata["labels"][names.QUEUE_LABEL] = self._queue.local_queue
        spec: Manifest = {
            "priorityClassName": workload.priority_class,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "nodeSelector": dict(workload.node_selector),
            "tolerations": [
                {"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in workload.tolerations
            ],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **rest,
            "containers": [
                {
                    "name": "main",
                    "image": workload.image,
                    **container,
                    "env": [{"name": "HOME", "value": _HOME}, *container.get("env", ())],
                    "resources": resources,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        }
        if self._account is not None:
            spec["serviceAccountName"] = self._account.name
        if workload.claims:
            spec["resourceClaims"] = [
                {"name": claim, "resourceClaimTemplateName": claim} for claim in workload.claims
            ]
        return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value not in ([], {})}}

    def code(self, kind: ExampleKind, script: str) -> Manifest:
        """Return the ConfigMap with the program of an example."""
        text = files("gpu_platform.guide").joinpath("scripts", script).read_text()
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(kind), "data": {script: text}}


def _kept(example: ExamplePlan) -> str:
    """Return where the state of a pod is kept, for the annotation."""
    if example.kind == "batch":
        return "none: each part is short and begins anew"
    if example.kind == "notebook":
        return f"none: {_HOME} ends with the pod"
    if example.volume is not None:
        return f"claim {example.volume}, {_CHECKPOINTS}"
    if example.storage_class is not None:
        return f"claim training-checkpoints, {_CHECKPOINTS}"
    return f"none: {_CHECKPOINTS} ends with the pod, name a volume there for real work"


_CODE_MOUNT: Final = {"name": "code", "mountPath": _CODE, "readOnly": True}


def _code_volume(kind: ExampleKind) -> Manifest:
    return {"name": "code", "configMap": {"name": kind}}


def _training(team: _Team, example: ExamplePlan) -> list[Manifest]:
    """Return a Job whose pods find each other by the name of the first."""
    workload = example.workload
    pods, name = workload.replicas, example.kind
    rendezvous = (
        [f"--rdzv-endpoint={name}-0.{name}:{_RENDEZVOUS_PORT}", "--rdzv-backend=c10d", f"--rdzv-id={name}"]
        if pods > 1
        else ["--standalone"]
    )
    container = {
        "command": [
            "torchrun",
            f"--nnodes={pods}",
            f"--nproc-per-node={_processes(example)}",
            "--max-restarts=3",
            *rendezvous,
            f"{_CODE}/train.py",
        ],
        "env": [{"name": "CHECKPOINTS", "value": _CHECKPOINTS}],
        "volumeMounts": [_CODE_MOUNT, {"name": "checkpoints", "mountPath": _CHECKPOINTS}],
    }
    claim = example.volume or ("training-checkpoints" if example.storage_class is not None else None)
    checkpoints: Manifest = {"emptyDir": {}} if claim is None else {"persistentVolumeClaim": {"claimName": claim}}
    volumes = [_code_volume(name), {"name": "checkpoints", **checkpoints}]
    template = team.template(example, container, restartPolicy="Never", subdomain=name, volumes=volumes)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": team.metadata(name, queued=True),
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 3,
            "activeDeadlineSeconds": _DEADLINES[name],
            "podFailurePolicy": _DISRUPTED,
            "template": template,
        },
    }
    objects = [team.code(name, "train.py")]
    if example.storage_class is not None and example.volume is None:
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": team.metadata("training-checkpoints"),
                "spec": {
                    "storageClassName": example.storage_class,
                    "accessModes": ["ReadWriteMany" if example.shared else "ReadWriteOnce"],
                    "resources": {"requests": {"storage": _CHECKPOINT_SIZE}},
                },
            }
        )
    if pods > 1:
        objects.append(
            _service(team, name, {"batch.kubernetes.io/job-name": name}, _RENDEZVOUS_PORT, headless=True)
        )
    return [*objects, job]


def _processes(example: ExamplePlan) -> int:
    """Return the processes of a pod: one for each GPU, and one for an instance or a share."""
    workload = example.workload
    return workload.units if workload.resource in (names.GPU_RESOURCE, names.GPU_DEVICE_CLASS) else 1


def _inference(team: _Team, example: ExamplePlan) -> list[Manifest]:
    """Return a Deployment with its Service: other pods of the namespace reach it by name."""
    name = example.kind
    probe = {"httpGet": {"path": "/healthz", "port": _SERVE_PORT}}
    container = {
        "command": ["python", f"{_CODE}/serve.py"],
        "ports": [{"containerPort": _SERVE_PORT}],
        "startupProbe": {**probe, "periodSeconds": 5, "failureThreshold": 120},  # a model takes minutes to load
        "readinessProbe": {**probe, "periodSeconds": 5},
        "livenessProbe": {**probe, "periodSeconds": 30, "failureThreshold": 3},
        "volumeMounts": [_CODE_MOUNT],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": team.metadata(name),
        "spec": {
            "replicas": example.workload.replicas,
            "selector": {"matchLabels": {names.NAME_LABEL: name}},
            # The quota may have no room for one pod more than there are.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": team.template(example, container, volumes=[_code_volume(name)]),
        },
    }
    return [team.code(name, "serve.py"), _service(team, name, {names.NAME_LABEL: name}, _SERVE_PORT), deployment]


def _notebook(team: _Team, example: ExamplePlan) -> list[Manifest]:
    """Return a Job, not a Deployment: a notebook that nobody uses ends, and gives its GPU back."""
    template = team.template(example, {"command": list(_JUPYTER)}, restartPolicy="Never")
    return [_job(team, example, template, backoffLimit=0)]


def _batch(team: _Team, example: ExamplePlan) -> list[Manifest]:
    """Return a Job of several parts, each of which is tried again by itself."""
    container = {"command": ["python", f"{_CODE}/batch.py"], "volumeMounts": [_CODE_MOUNT]}
    template = team.template(example, container, restartPolicy="Never", volumes=[_code_volume("batch")])
    job = _job(
        team,
        example,
        template,
        completionMode="Indexed",
        parallelism=example.workload.replicas,
        completions=_PARTS,
        backoffLimitPerIndex=2,
        maxFailedIndexes=_PARTS,
        podFailurePolicy=_DISRUPTED,
    )
    return [team.code("batch", "batch.py"), job]


def _job(team: _Team, example: ExamplePlan, template: Manifest, **spec: Any) -> Manifest:  # noqa: ANN401 - of a Job
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": team.metadata(example.kind, queued=True),
        "spec": {**spec, "activeDeadlineSeconds": _DEADLINES[example.kind], "template": template},
    }


def _service(
    team: _Team, name: str, selector: Mapping[str, str], port: int, *, headless: bool = False
) -> Manifest:
    spec: Manifest = {"selector": dict(selector), "ports": [{"port": port}]}
    if headless:  # the first pod is found before it is ready
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": team.metadata(name), "spec": spec}


_BUILDERS: Final = {"training": _training, "inference": _inference, "notebook": _notebook, "batch": _batch}
