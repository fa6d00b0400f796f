"""Pods of a team's workloads: resources, tolerations, queue, service account, and security context.

The pods' containers satisfy Pod Security `restricted`.

Sources: Kubernetes docs, Pod Security Standards, and Volumes (emptyDir in memory); read 2026-11-23. Kueue v0.19.2,
pkg/controller/jobframework/utils.go (annotations of a queued object are parameters of its request); read
2026-11-26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_quantity
from gpu_platform.catalog.lost_pods import LOST_CONDITIONS
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.section import TeamPlan
from gpu_platform.planning.workloads.section import KeptClaimPlan, MountPlan, PodPlan, SidecarPlan

Manifest = dict[str, Any]
_SHM: Final = "/dev/shm"  # noqa: S108 - a mount of the container
_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
_NODE_SECONDS: Final = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"  # parameter of a ProvisioningRequest
_SECCOMP: Final[Mapping[str, str]] = {"type": "RuntimeDefault"}


class TeamPods:
    """Fields that all workload objects of a team share.

    `labels` are added to every object that the platform itself creates. If `restricted` is true, pods satisfy the
    Pod Security level `restricted`. If it is None, pods satisfy this level only if the namespace enforces it.
    """

    def __init__(
        self,
        team: TeamPlan,
        queue: TeamQueuePlan | None,
        labels: Mapping[str, str] | None = None,
        *,
        restricted: bool | None = None,
    ) -> None:
        self.namespace = team.namespace
        self._account = team.service_account
        self._restricted = team.pod_security == "restricted" if restricted is None else restricted
        self._queue = queue
        self._labels = dict(labels or {})

    @property
    def queue_labels(self) -> Mapping[str, str]:
        """Label that puts an object into the team's queue. Empty if the stack has no queues."""
        return {} if self._queue is None else {names.QUEUE_LABEL: self._queue.local_queue}

    def metadata(self, name: str, *, queued: bool = False, pod: PodPlan | None = None) -> Manifest:
        """Return the metadata of an object. With `queued`, Kueue decides when the object starts. `pod` describes
        the object's pods.
        """
        labels = {names.NAME_LABEL: name, **self._labels}
        if queued:
            labels |= self.queue_labels
        found: Manifest = {"name": name, "namespace": self.namespace, "labels": labels}
        if pod is not None and pod.node_seconds is not None:
            found["annotations"] = {_NODE_SECONDS: str(pod.node_seconds)}
        return found

    def template(
        self,
        pod: PodPlan,
        container: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        name: str = "main",
        **rest: Any,  # noqa: ANN401 - of a pod
    ) -> Manifest:
        """Return the pod template of a workload.

        `container` contains the container's fields except image, command, environment, resources and mounts.
        `labels` are labels in addition to the name. `name` is the name of the container. `rest` contains further
        fields of the pod.
        """
        workload = pod.workload
        of_account = {} if self._account is None else self._account.pod_labels
        metadata: Manifest = {
            "labels": {names.NAME_LABEL: workload.name, **self._labels, **of_account, **(labels or {})}
        }
        fabric = pod.fabric
        beside = pod.volume_sidecar
        annotations = {
            **({} if fabric is None else fabric.annotations),
            **({} if beside is None else beside.pod_annotations),
            **pod.annotations,
        }
        if workload.gpu_memory is not None:
            annotations[names.GPU_MEMORY_ANNOTATION] = workload.gpu_memory
        if annotations:
            metadata["annotations"] = annotations
        spec: Manifest = {
            "priorityClassName": workload.priority_class,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "nodeSelector": dict(workload.node_selector),
            "tolerations": [
                {"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in workload.tolerations
            ],
            "securityContext": self._security(workload.run_as_user),
            "terminationGracePeriodSeconds": pod.grace_seconds,
            **rest,
            "initContainers": [] if fabric is None or fabric.sidecar is None else [_sidecar(fabric.sidecar)],
            "containers": [self._container(pod, container, name)],
            "volumes": _volumes(pod),
            "serviceAccountName": None if self._account is None else self._account.name,
            "resourceClaims": [{"name": claim, "resourceClaimTemplateName": claim} for claim in workload.claims],
        }
        return {"metadata": metadata, "spec": _without_empty(spec)}

    def _security(self, user: int | None) -> Manifest:
        """Return the security context of a pod. It also applies to injected and ephemeral containers."""
        found: Manifest = {}
        if self._restricted:
            found |= {"runAsNonRoot": True, "seccompProfile": dict(_SECCOMP)}
        if user is not None:
            # Volumes belong to the user's group, so that the user can write to them.
            found |= {
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "fsGroupChangePolicy": "OnRootMismatch",
            }
        return found

    def _container(self, pod: PodPlan, fields: Mapping[str, Any], name: str) -> Manifest:
        workload = pod.workload
        # Extended resources require that requests equal limits.
        # A pod with equal requests and limits also has the QoS class Guaranteed.
        requests = _requests(pod)
        resources: Manifest = {"requests": dict(requests), "limits": dict(requests)}
        if workload.claims:
            resources["claims"] = [{"name": claim} for claim in workload.claims]
        fabric = pod.fabric
        mounts = [_mount(one) for one in (*pod.mounts, *(fabric.mounts if fabric is not None else ()))]
        if workload.shared_memory is not None:
            mounts.append({"name": _shared_memory_name(pod), "mountPath": _SHM})
        environment = {**workload.user_environment, **_environment(pod)}
        env = [{"name": key, "value": value} for key, value in environment.items()]
        found: Manifest = {
            "name": name,
            "image": workload.image,
            "command": _command(pod),
            **fields,
            "env": [*env, *fields.get("env", ())],
            "envFrom": [{"secretRef": {"name": secret}} for secret in pod.secrets],
            "resources": resources,
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                **({} if self._restricted else {"seccompProfile": dict(_SECCOMP)}),
            },
            "volumeMounts": mounts,
        }
        return _without_empty(found)

    def claim(self, claim: KeptClaimPlan | None) -> Sequence[Manifest]:
        """Return the volume claim of an entry, if the entry creates one."""
        if claim is None:
            return []
        spec: Manifest = {
            "accessModes": ["ReadWriteMany" if claim.shared else "ReadWriteOnce"],
            "resources": {"requests": {"storage": claim.size}},
        }
        if claim.storage_class is not None:
            spec["storageClassName"] = claim.storage_class
        return [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": self.metadata(claim.name),
                "spec": spec,
            }
        ]

    def compute_domain(self, pod: PodPlan) -> Sequence[Manifest]:
        """Return the ComputeDomain for pods that share GPU memory over NVLink, or nothing for other pods.

        With `numNodes` 0, the domain consists of the nodes that run pods with a claim for the domain.
        """
        template, name = pod.workload.compute_domain, pod.workload.name
        if template is None:
            return []
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": template}}}
        metadata = self.metadata(name)
        return [
            {
                "apiVersion": "resource.nvidia.com/v1beta1",
                "kind": "ComputeDomain",
                "metadata": metadata,
                "spec": spec,
            }
        ]

    def service(self, name: str, selector: Mapping[str, str], port: int, *, headless: bool = False) -> Manifest:
        """Return a Service. With a `headless` Service, pods can find each other before they are ready."""
        spec: Manifest = {"selector": dict(selector), "ports": [{"name": "main", "port": port}]}
        if headless:
            spec = {"clusterIP": "None", "publishNotReadyAddresses": True, **spec}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata(name), "spec": spec}


def failure_rules(
    lost: Literal["Ignore", "FailJob"], stop_on: Sequence[int], interrupted_on: Sequence[int] = ()
) -> list[Manifest]:
    """Return the pod failure policy of a Job.

    `lost` is the action for a pod that is lost with its node, or whose exit code is in `interrupted_on`. `stop_on`
    are exit codes after which another attempt would fail as well.
    """
    rules: list[Manifest] = [{"action": lost, "onPodConditions": [{"type": one} for one in LOST_CONDITIONS]}]
    if interrupted_on:
        rules.append({"action": lost, "onExitCodes": {"operator": "In", "values": list(interrupted_on)}})
    if stop_on:
        rules.append({"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(stop_on)}})
    return rules


def _shared_memory_name(pod: PodPlan) -> str:
    """Return a name for the in-memory volume. The usual name may already be taken by another volume of the pod."""
    taken = {one.name for one in pod.mounts}
    return next(
        name for name in ("shared-memory", *(f"shared-memory-{i}" for i in range(99))) if name not in taken
    )


def _requests(pod: PodPlan) -> Mapping[str, str]:
    """Return the requests of the main container: the pod's requests minus the requests of its sidecars."""
    requests = pod.workload.requests
    fabric = None if pod.fabric is None else pod.fabric.sidecar
    sidecars = [one for one in (fabric, pod.volume_sidecar) if one is not None]
    if not sidecars:
        return requests
    cpu = parse_quantity(requests["cpu"]) - sum(parse_quantity(one.cpu) for one in sidecars)
    memory = parse_quantity(requests["memory"]) - sum(parse_quantity(one.memory) for one in sidecars)
    return {**requests, "cpu": f"{int(cpu * 1000)}m", "memory": f"{int(memory) // 2**20}Mi"}


def _environment(pod: PodPlan) -> Mapping[str, str]:
    fabric = pod.fabric
    if fabric is None:
        return pod.env
    env = {**fabric.env, **pod.env}
    if fabric.library_path and not pod.workload.command:
        # The image's own command cannot be wrapped, so shells in the image read the profile through BASH_ENV.
        # The library path replaces the path in the image.
        own = pod.env.get(_LIBRARY_PATH)
        env[_LIBRARY_PATH] = ":".join((*fabric.library_path, *(() if own is None else (own,))))
        if fabric.profile is not None:
            env["BASH_ENV"] = fabric.profile
    return env


def _command(pod: PodPlan) -> list[str]:
    """Return the command of the main container. In pods that use GPU NICs, a shell reads NCCL's settings before it
    runs the command.

    NCCL settings in the pod's environment variables take precedence.
    """
    command, fabric = pod.workload.command, pod.fabric
    if fabric is None or not fabric.library_path or not command:
        return list(command)
    path = ":".join(fabric.library_path)
    script = f'export {_LIBRARY_PATH}="{path}${{{_LIBRARY_PATH}:+:${_LIBRARY_PATH}}}"; '
    if fabric.profile is None:
        return ["/bin/sh", "-c", f'{script}exec "$@"', "sh", *command]
    own = (f"{name}={value}" for name, value in pod.env.items() if name.startswith("NCCL_"))
    return ["/bin/bash", "-c", f'{script}. "$0" && exec env "$@"', fabric.profile, *own, *command]


def _sidecar(sidecar: SidecarPlan) -> Manifest:
    """Return a container that runs as long as the main container and does not prevent the pod from terminating."""
    found: Manifest = {
        "name": sidecar.name,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "command": list(sidecar.command),
        "args": list(sidecar.args),
        "env": [{"name": key, "value": value} for key, value in sidecar.env.items()],
        # The sidecar has no limits, because its peak usage is unknown.
        # Exceeding a limit would interrupt the job.
        "resources": {"requests": {"cpu": sidecar.cpu, "memory": sidecar.memory}},
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "runAsGroup": 0,
            "capabilities": {"add": list(sidecar.capabilities)},
        },
        "volumeMounts": [_mount(one) for one in sidecar.mounts],
    }
    return _without_empty(found)


def _mount(mount: MountPlan) -> Manifest:
    return {"name": mount.name, "mountPath": mount.path, **({"readOnly": True} if mount.read_only else {})}


def _volumes(pod: PodPlan) -> list[Manifest]:
    fabric = pod.fabric
    of_fabric = () if fabric is None else (*fabric.mounts, *(fabric.sidecar.mounts if fabric.sidecar else ()))
    volumes = list({one.name: _volume(one) for one in (*pod.mounts, *of_fabric)}.values())
    if pod.workload.shared_memory is not None:
        in_memory = {"medium": "Memory", "sizeLimit": pod.workload.shared_memory}
        volumes.append({"name": _shared_memory_name(pod), "emptyDir": in_memory})
    return volumes


def _volume(mount: MountPlan) -> Manifest:
    if mount.config_map is not None:
        return {"name": mount.name, "configMap": {"name": mount.config_map}}
    if mount.claim is not None:
        return {"name": mount.name, "persistentVolumeClaim": {"claimName": mount.claim}}
    if mount.host_path is not None:
        return {"name": mount.name, "hostPath": {"path": mount.host_path}}
    return {"name": mount.name, "emptyDir": {}}


def _without_empty(fields: Mapping[str, Any]) -> Manifest:
    """Return the fields whose values are neither None nor an empty collection. Empty strings and zeros are kept,
    because they have a meaning.
    """
    return {key: value for key, value in fields.items() if value is not None and value not in ([], {}, ())}
