"""Workloads of a stack: the pod templates of all resources that create pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpu_platform.base import names
from policies._inputs import NotVisible, Value
from policies._node_pool import NodePool, NodeTaint
from policies._pod_templates import (
    BATCH_KINDS,
    KINDS,
    PodTemplate,
    found_templates,
    pod_patches,
    pod_templates,
    trainers,
)
from policies._pools import pools
from policies._stack import ObjectSubject, Stack

# Objects of these kinds may contain pod specs but start no pods. For TrainJobs, see `additions`.
_WITHOUT_PODS = frozenset(
    {
        "core/ConfigMap",
        "core/Secret",
        "core/Node",
        "apiextensions.k8s.io/CustomResourceDefinition",
        "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
        "admissionregistration.k8s.io/MutatingAdmissionPolicy",
        "trainer.kubeflow.org/TrainJob",
    }
)
_Terms = tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...]


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, and the GPU resources that it requests."""

    spec: Value

    @property
    def requests(self) -> Mapping[str, Value]:
        """GPU resources in `resources.requests`. Raises NotVisible."""
        return _gpu_resources(self.spec.get("resources", "requests"))

    @property
    def limits(self) -> Mapping[str, Value]:
        """GPU resources in `resources.limits`. Raises NotVisible."""
        return _gpu_resources(self.spec.get("resources", "limits"))

    @property
    def requested(self) -> Mapping[str, Value]:
        """GPU resources in the container's limits, or in its requests if it has no limits. Raises NotVisible."""
        amounts = {**self.requests, **self.limits}
        return {name: amount for name, amount in amounts.items() if amount.quantity() != 0}


@dataclass(frozen=True, slots=True, eq=False)
class Workload(ObjectSubject):
    """One pod template of a resource that creates pods. Most kinds have one template. Properties may raise
    NotVisible.
    """

    template: PodTemplate

    @property
    def namespace(self) -> str:
        """Namespace of the workload. Empty if the resource specifies none."""
        return self.resource.seen_namespace()

    @property
    def pod_spec(self) -> Value:
        """The pod spec."""
        return self._seen[0]

    @property
    def containers(self) -> Iterator[Container]:
        """All containers, including init containers and ephemeral containers. Ephemeral containers request
        nothing.
        """
        for key in ("initContainers", "containers", "ephemeralContainers"):
            yield from (Container(item) for item in self.pod_spec.get(key).items())

    @property
    def requests_gpus(self) -> bool:
        """Whether a container requests a GPU resource, or the pod claims devices."""
        return bool(self.pod_spec.get("resourceClaims").items()) or any(c.requested for c in self.containers)

    @property
    def requested(self) -> Mapping[str, Decimal]:
        """GPU resources of one pod.

        They are the sum of all containers, or the request of an init container if it is larger.
        """
        ordinary: dict[str, Decimal] = {}
        first: dict[str, Decimal] = {}
        for key, into in (("containers", ordinary), ("initContainers", first)):
            for item in self.pod_spec.get(key).items():
                for name, amount in Container(item).requested.items():
                    units = amount.quantity() or Decimal(0)
                    into[name] = (
                        into.get(name, Decimal(0)) + units
                        if into is ordinary
                        else max(units, into.get(name, units))
                    )
        return {
            name: max(ordinary.get(name, Decimal(0)), first.get(name, Decimal(0)))
            for name in {**ordinary, **first}
        }

    @property
    def labels(self) -> Value:
        """Labels of the pods."""
        return self._seen[1].metadata.get("labels")

    @property
    def annotations(self) -> Value:
        """Annotations of the pods."""
        return self._seen[1].metadata.get("annotations")

    @property
    def _seen(self) -> tuple[Value, PodTemplate]:
        """Pod spec with its template. The template is not visible if the pod spec is not visible."""
        if isinstance(self.template.spec, NotVisible):
            raise self.template.spec
        return self.template.spec, self.template

    @property
    def pods_together(self) -> int:
        """Number of pods that work together on one task, or 1 if each pod works alone."""
        product = 1
        for count in self._seen[1].counts:
            product *= count.whole() or 1
        return product

    @property
    def ends(self) -> bool:
        """Whether the pods belong to a job, which ends when its work is done."""
        return self.resource.kind in BATCH_KINDS

    @property
    def tolerations(self) -> Value:
        """Tolerations of the pods."""
        return self.pod_spec.get("tolerations")

    def tolerates(self, taint: NodeTaint) -> bool:
        """Return whether a toleration of the pod covers a taint."""
        return any(covers(toleration, taint) for toleration in self.tolerations.items())

    @property
    def node_terms(self) -> _Terms:
        """Alternative requirements of the pod for its node. Each alternative has keys, operators and values.

        The node selector is part of every alternative. The terms of a required node affinity are alternatives.
        """
        selector = tuple(
            (key, "In", (value.text() or "",)) for key, value in self.pod_spec.get("nodeSelector").entries()
        )
        required = self.pod_spec.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        terms = [
            tuple(
                (
                    one.get("key").text() or "",
                    one.get("operator").text() or "",
                    tuple(value.text() or "" for value in one.get("values").items()),
                )
                for one in term.get("matchExpressions").items()
            )
            for term in required.get("nodeSelectorTerms").items()
        ]
        return tuple((*selector, *term) for term in terms) or (selector,)

    def targets(self, stack: Stack) -> tuple[NodePool, ...]:
        """Return the GPU pools that the node selector and required affinity allow, according to visible labels."""
        terms = self.node_terms  # many workloads share the same terms, so the result is cached
        return stack.once(("targets", terms), lambda: _allowed(stack, terms))

    def trains(self, stack: Stack) -> bool:
        """Return whether the pods belong to a job with GPUs, or can run only on training pools."""
        if not self.requests_gpus:
            return False
        if (purpose := self.pod_spec.get("nodeSelector", names.WORKLOAD_LABEL).text()) is not None:
            return purpose == "training"
        found = self.targets(stack)
        if found and self.node_terms != ((),):
            return all(pool.workload == "training" for pool in found)
        return self.ends


def workloads(stack: Stack) -> tuple[Workload, ...]:
    """Return every pod template of the stack, including templates in unknown kinds."""
    return tuple(
        Workload(resource, template)
        for resource in stack.resources
        if resource.kind and resource.kind not in _WITHOUT_PODS
        for template in (
            pod_templates(resource.kind, resource.inputs)
            if resource.kind in KINDS
            else found_templates(resource.inputs)
        )
    )


@dataclass(frozen=True, slots=True, eq=False)
class Trainer(Workload):
    """Container settings of a TrainJob: environment variables and resources per node."""

    @property
    def containers(self) -> Iterator[Container]:
        """The single container that the TrainJob describes."""
        yield Container(self.pod_spec)


def additions(stack: Stack) -> tuple[Workload, ...]:
    """Return the settings that TrainJobs add to their runtimes' pods. They are not complete pod specs."""
    return tuple(
        found
        for resource in stack.of_kind("trainer.kubeflow.org/TrainJob")
        for found in (
            *(Workload(resource, patch) for patch in pod_patches(resource.inputs)),
            *(Trainer(resource, trainer) for trainer in trainers(resource.inputs)),
        )
    )


def with_additions(stack: Stack) -> tuple[Workload, ...]:
    """Return every pod template of the stack, and the settings that TrainJobs add to their runtimes' pods."""
    return (*stack.view(workloads), *stack.view(additions))


def _gpu_resources(amounts: Value) -> Mapping[str, Value]:
    return {name: amount for name, amount in amounts.entries() if names.is_gpu_resource(name)}


def _allowed(stack: Stack, terms: _Terms) -> tuple[NodePool, ...]:
    """Return the GPU pools whose nodes may satisfy all requirements of one of the terms."""
    return tuple(
        pool
        for pool in stack.view(pools)
        if pool.has_gpus and any(all(_may_match(pool, *one) for one in term) for term in terms)
    )


def _may_match(pool: NodePool, key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Return whether nodes of a pool may satisfy a requirement. A label that is not visible may have any value."""
    label = pool.label(key).text()
    if label is None:
        return True
    if operator in ("In", "NotIn"):
        return (label in values) == (operator == "In")
    return operator != "DoesNotExist"


def covers(toleration: Value, taint: NodeTaint) -> bool:
    """Return whether a toleration covers a taint. Raises NotVisible."""
    key = toleration.get("key").text() or ""
    effect = toleration.get("effect").text() or ""
    if effect not in ("", taint.effect):
        return False
    if toleration.get("operator").text() == "Exists":
        return key in ("", taint.key)
    return key == taint.key and taint.value in (None, toleration.get("value").text() or "")
