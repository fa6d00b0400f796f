"""Workloads of a stack: every resource that creates pods, by its pod spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_platform import names
from policies._inputs import Value
from policies._pools import NodePool, NodeTaint, pools
from policies._stack import ObjectSubject, Stack

_POD_SPEC: Mapping[str, tuple[str, ...]] = {
    "core/Pod": ("spec",),
    "core/ReplicationController": ("spec", "template", "spec"),
    "apps/DaemonSet": ("spec", "template", "spec"),
    "apps/Deployment": ("spec", "template", "spec"),
    "apps/ReplicaSet": ("spec", "template", "spec"),
    "apps/StatefulSet": ("spec", "template", "spec"),
    "batch/CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "batch/Job": ("spec", "template", "spec"),
}


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, and the GPU resources that it requests."""

    spec: Value

    @property
    def requests(self) -> Mapping[str, Value]:
        """GPU resources under `resources.requests`. Raises NotVisible."""
        return _gpu_resources(self.spec.get("resources", "requests"))

    @property
    def limits(self) -> Mapping[str, Value]:
        """GPU resources under `resources.limits`. Raises NotVisible."""
        return _gpu_resources(self.spec.get("resources", "limits"))

    @property
    def requested(self) -> Mapping[str, Value]:
        """GPU resources that the container gets: its limits, else its requests. Raises NotVisible."""
        amounts = {**self.requests, **self.limits}
        return {name: amount for name, amount in amounts.items() if amount.quantity() != 0}


@dataclass(frozen=True, slots=True, eq=False)
class Workload(ObjectSubject):
    """One resource that creates pods."""

    @property
    def pod_spec(self) -> Value:
        """The pod spec. Raises NotVisible."""
        return self.resource.inputs.get(*_POD_SPEC[self.resource.kind])

    @property
    def containers(self) -> Iterator[Container]:
        """All containers, with the init containers. Raises NotVisible."""
        for key in ("initContainers", "containers"):
            yield from (Container(item) for item in self.pod_spec.get(key).items())

    @property
    def requests_gpus(self) -> bool:
        """Whether a container requests a GPU resource, or the pod claims devices. Raises NotVisible."""
        return bool(self.pod_spec.get("resourceClaims").items()) or any(c.requested for c in self.containers)

    @property
    def tolerations(self) -> Value:
        """The tolerations. Raises NotVisible."""
        return self.pod_spec.get("tolerations")

    def tolerates(self, taint: NodeTaint) -> bool:
        """Return whether a toleration of the pod covers a taint."""
        return any(_covers(toleration, taint) for toleration in self.tolerations.items())

    def targets(self, stack: Stack) -> tuple[NodePool, ...]:
        """Return the GPU pools that the node selector allows, by the visible labels. Raises NotVisible."""
        selector = [(key, value.text()) for key, value in self.pod_spec.get("nodeSelector").entries()]
        return tuple(
            pool
            for pool in stack.view(pools)
            if pool.has_gpus and all(pool.label(key).text() in (None, value) for key, value in selector)
        )


def workloads(stack: Stack) -> tuple[Workload, ...]:
    """Return every resource that creates pods."""
    return tuple(Workload(resource) for resource in stack.of_kind(*_POD_SPEC))


def is_gpu_resource(name: str) -> bool:
    """Return whether an extended resource is a GPU, a share of one, or a MIG instance."""
    return name == names.GPU_RESOURCE or name.startswith((names.GPU_RESOURCE + ".", names.MIG_RESOURCE_PREFIX))


def _gpu_resources(amounts: Value) -> Mapping[str, Value]:
    return {name: amount for name, amount in amounts.entries() if is_gpu_resource(name)}


def _covers(toleration: Value, taint: NodeTaint) -> bool:
    key = toleration.get("key").text() or ""
    effect = toleration.get("effect").text() or ""
    if effect not in ("", taint.effect):
        return False
    if toleration.get("operator").text() == "Exists":
        return key in ("", taint.key)
    return key == taint.key and taint.value in (None, toleration.get("value").text() or "")
