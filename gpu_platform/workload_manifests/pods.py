"""What all pods of a team have: resources, tolerations, queue, service account, and a container that Pod Security
`restricted` admits.

Sources: Kubernetes docs, Pod Security Standards, and Volumes (emptyDir in memory); read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from gpu_platform import names
from gpu_platform.planning.queues.section import TeamQueuePlan
from gpu_platform.planning.teams.section import TenantPlan
from gpu_platform.planning.workloads.section import KeptClaimPlan, MountPlan, PodPlan

Manifest = dict[str, Any]
_SHM: Final = "/dev/shm"  # noqa: S108 - a mount of the container
_SECCOMP: Final[Mapping[str, str]] = {"type": "RuntimeDefault"}


class TeamPods:
    """What the objects of a team have in common.

    `labels`: of every object that the platform itself makes; `restricted`: pods satisfy that level; None: if
    the namespace enforces it.
    """

    def __init__(
        self,
        tenant: TenantPlan,
        queue: TeamQueuePlan | None,
        labels: Mapping[str, str] | None = None,
        *,
        restricted: bool | None = None,
    ) -> None:
        self.namespace = tenant.namespace
        self._account = tenant.service_account
        self._restricted = tenant.pod_security == "restricted" if restricted is None else restricted
        self._queue = queue
        self._labels = dict(labels or {})

    @property
    def queue_labels(self) -> Mapping[str, str]:
        """The label by which an object waits in the team's queue; none without queues."""
        return {} if self._queue is None else {names.QUEUE_LABEL: self._queue.local_queue}

    def metadata(self, name: str, *, queued: bool = False) -> Manifest:
        """Return the metadata of an object; `queued`: that Kueue starts it."""
        labels = {names.NAME_LABEL: name, **self._labels}
        if queued:
            labels |= self.queue_labels
        return {"name": name, "namespace": self.namespace, "labels": labels}

    def template(
        self,
        pod: PodPlan,
        container: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        name: str = "main",
        **rest: Any,  # noqa: ANN401 - of a pod
    ) -> Manifest:
        """Return the template of an entry's pods.

        `container`: its fields beside image, command, environment, resources and mounts; `labels`: beside the
        name; `name`: of the container; `rest`: further fields of the pod.
        """
        workload = pod.workload
        metadata: Manifest = {"labels": {names.NAME_LABEL: workload.name, **self._labels, **(labels or {})}}
        annotations = dict(pod.annotations)
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
            "containers": [self._container(pod, container, name)],
            "volumes": _volumes(pod),
            "serviceAccountName": None if self._account is None else self._account.name,
            "resourceClaims": [{"name": claim, "resourceClaimTemplateName": claim} for claim in workload.claims],
        }
        return {"metadata": metadata, "spec": _without_empty(spec)}

    def _security(self, user: int | None) -> Manifest:
        """Return what applies to every container of a pod, also to those that are injected or debug it."""
        found: Manifest = {}
        if self._restricted:
            found |= {"runAsNonRoot": True, "seccompProfile": dict(_SECCOMP)}
        if user is not None:
            # Volumes get the group, so that the user may write them.
            found |= {
                "runAsUser": user,
                "runAsGroup": user,
                "fsGroup": user,
                "fsGroupChangePolicy": "OnRootMismatch",
            }
        return found

    def _container(self, pod: PodPlan, fields: Mapping[str, Any], name: str) -> Manifest:
        workload = pod.workload
        # Requests equal limits: extended resources require it, and the pod has the QoS class Guaranteed.
        resources: Manifest = {"requests": dict(workload.requests), "limits": dict(workload.requests)}
        if workload.claims:
            resources["claims"] = [{"name": claim} for claim in workload.claims]
        mounts: list[Manifest] = [
            {"name": one.name, "mountPath": one.path, **({"readOnly": True} if one.read_only else {})}
            for one in pod.mounts
        ]
        if workload.shared_memory is not None:
            mounts.append({"name": _shared_memory_name(pod), "mountPath": _SHM})
        env = [{"name": key, "value": value} for key, value in pod.env.items()]
        found: Manifest = {
            "name": name,
            "image": workload.image,
            "command": list(workload.command),
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
        """Return the claim of an entry, if it makes one."""
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

    def service(self, name: str, selector: Mapping[str, str], port: int, *, headless: bool = False) -> Manifest:
        """Return a Service; `headless`: by which pods find each other before they are ready."""
        spec: Manifest = {"selector": dict(selector), "ports": [{"name": "main", "port": port}]}
        if headless:
            spec = {"clusterIP": "None", "publishNotReadyAddresses": True, **spec}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata(name), "spec": spec}


def failure_rules(lost: Literal["Ignore", "FailJob"], stop_on: Sequence[int]) -> list[Manifest]:
    """Return the pod failure policy of a Job. `lost`: for a pod that its node loses; `stop_on`: exit codes
    after which another attempt would fail as well."""
    rules: list[Manifest] = [{"action": lost, "onPodConditions": [{"type": "DisruptionTarget"}]}]
    if stop_on:
        rules.append({"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(stop_on)}})
    return rules


def _shared_memory_name(pod: PodPlan) -> str:
    """Return the name of the volume in memory; a claim may have the usual one."""
    taken = {one.name for one in pod.mounts}
    return next(
        name for name in ("shared-memory", *(f"shared-memory-{i}" for i in range(99))) if name not in taken
    )


def _volumes(pod: PodPlan) -> list[Manifest]:
    volumes = list({one.name: _volume(one) for one in pod.mounts}.values())
    if pod.workload.shared_memory is not None:
        in_memory = {"medium": "Memory", "sizeLimit": pod.workload.shared_memory}
        volumes.append({"name": _shared_memory_name(pod), "emptyDir": in_memory})
    return volumes


def _volume(mount: MountPlan) -> Manifest:
    if mount.config_map is not None:
        return {"name": mount.name, "configMap": {"name": mount.config_map}}
    if mount.claim is not None:
        return {"name": mount.name, "persistentVolumeClaim": {"claimName": mount.claim}}
    return {"name": mount.name, "emptyDir": {}}


def _without_empty(fields: Mapping[str, Any]) -> Manifest:
    """Return fields without those that say nothing; an empty text or a zero says something."""
    return {key: value for key, value in fields.items() if value is not None and value not in ([], {}, ())}
