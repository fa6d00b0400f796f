"""The common interface of node pools: machine types, labels, taints, kubelet policies and device plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpu_platform.base import names
from gpu_platform.catalog import Gpu, MachineType
from policies._inputs import NotVisible, Value
from policies._stack import Resource, Stack

COMPONENT = "gpu-platform:index:NodePool"

Manager = Literal["topology", "cpu", "memory"]
"""The kubelet's resource managers for NUMA topology, CPUs and memory."""

_TEMPORARY = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)

SharingMode = Literal["time-slicing", "MPS"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """GPU sharing as configured for a device plugin. `block` is the configuration."""

    mode: SharingMode
    block: Value

    @property
    def renamed(self) -> bool:
        """Whether the resources are advertised as `<name>.shared`. Raises NotVisible."""
        return self.block.get("renameByDefault").truth()

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        """Names of the replicated resources, each with its number of replicas. Raises NotVisible."""
        for item in self.block.get("resources").items():
            yield item.get("name").text() or "", item.get("replicas")


@dataclass(frozen=True, slots=True)
class OwnPlugin:
    """A device plugin that the operator does not run. `field` selects it, and `fix` states how to disable it."""

    owner: str
    field: Value
    fix: str


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A node taint. `effect` has Kubernetes' spelling for all providers. A `value` of None matches any value."""

    key: str
    value: str | None
    effect: str

    @property
    def keeps_pods_off(self) -> bool:
        """Whether pods need a toleration for the taint. Taints for node conditions and for new nodes are
        temporary.
        """
        return self.effect in ("NoSchedule", "NoExecute") and not self.key.startswith(_TEMPORARY)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, eq=False)
class NodePool(ABC):
    """A node pool, or one of its nodes. Attributes except `resource`, `name` and `group` may raise NotVisible."""

    resource: Resource
    stack: Stack

    @property
    @abstractmethod
    def labels(self) -> Value:
        """Labels of the nodes."""

    @property
    @abstractmethod
    def taint_list(self) -> Value:
        """Taints of the nodes, in the provider's spelling."""

    @property
    @abstractmethod
    def machine_types(self) -> tuple[str, ...]:
        """Machine types that the pool's nodes may have. Empty if the pool specifies no machine type."""

    @property
    def selected_by(self) -> tuple[str, ...]:
        """Labels with which the owner of an existing cluster selected the pool's nodes."""
        return ()

    @property
    def annotations(self) -> Value:
        """Annotations of the nodes. Only Kubernetes objects have annotations."""
        return Value(self.resource.urn)

    def kubelet_policy(self, manager: Manager) -> Value:
        """Return a manager's policy from the kubelet's configuration, in lower case, if it is visible."""
        del manager
        return Value(self.resource.urn)

    @property
    def aligns_whole_pods(self) -> bool:
        """Whether the kubelet aligns all containers of a pod together, with Topology Manager scope `pod`."""
        return self.annotations.get(names.SANDBOX_TOPOLOGY_SCOPE_ANNOTATION).text() == "pod"

    @property
    def simulated(self) -> bool:
        """Whether the nodes are simulated by a sandbox."""
        return self.annotations.get(names.SANDBOX_MACHINE_ANNOTATION).present

    @property
    def reserves_memory(self) -> bool:
        """Whether the kubelet's configuration sets the reserved memory that the Memory Manager requires."""
        return True

    @property
    def declares_gpus(self) -> bool:
        """Whether a field other than the labels and machine types shows that the pool has GPUs."""
        return False

    @property
    def created(self) -> bool:
        """Whether the resource creates the nodes, instead of using nodes of an existing cluster."""
        return self.resource.kind != "core/NodePatch" and self.resource.type != COMPONENT

    @property
    def most_nodes(self) -> int | None:
        """Maximum number of nodes of the pool, or None if it has no limit or a different kind of limit."""
        return 1

    @property
    def most_gpus(self) -> int | None:
        """Maximum number of GPUs of the pool, if it has such a limit, as in Karpenter."""
        return None

    @property
    def sharing(self) -> Sharing | None:
        """How the device plugin of the image or the cloud shares GPUs, or None if it does not."""
        return None

    @property
    def partition(self) -> Value | None:
        """MIG profile with which the image or the cloud partitions every GPU, or None if it does not."""
        return None

    @property
    def own_plugin(self) -> OwnPlugin | None:
        """The device plugin that the node image or the cloud runs on the nodes, or None. Raises NotVisible."""
        return None

    @property
    def renames_shares(self) -> bool:
        """Whether shares can have a different resource name than whole GPUs."""
        return True

    @property
    def spot(self) -> bool:
        """Whether the cloud may reclaim the nodes at short notice."""
        return False

    @property
    def own_name(self) -> str:
        """Name of the pool at its provider."""
        return self.resource.object_name

    @property
    def name(self) -> str:
        """Pool name from the platform's label, or the provider's name without the label."""
        try:
            return self.label(names.POOL_LABEL).text() or self.own_name
        except NotVisible:
            return self.own_name

    @property
    def group(self) -> str:
        """Key of the pool. Findings about nodes with the same key are reported together."""
        return f"{self.resource.type} {self.name}"

    def label(self, key: str) -> Value:
        """Return the value of a label."""
        return self.labels.get(key)

    @property
    def workload(self) -> str | None:
        """Workload type of the pool: training, inference, development, or (for a pool without GPUs) general."""
        return self.label(names.WORKLOAD_LABEL).text()

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        """Taints of the nodes."""
        return tuple(
            NodeTaint(
                key=taint.get("key").text() or "",
                value=taint.get("value").text() or "",
                effect=_effect(taint.get("effect").text() or ""),
            )
            for taint in self.taint_list.items()
        )

    @property
    def topology_policy(self) -> Value:
        """Topology Manager policy in the kubelet's configuration or, if it is not set there, in the node label."""
        label = self.label(names.TOPOLOGY_POLICY_LABEL)
        try:
            configured = self.kubelet_policy("topology")
        except NotVisible:
            if label.present:
                return label
            raise
        return configured if configured.present else label

    @property
    def machines(self) -> tuple[MachineType, ...]:
        """Machine types of the pool that are in the catalogue, with or without GPUs."""
        known = self.stack.catalog.machine_types
        return tuple(known[name] for name in self.machine_types if name in known)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Distinct GPU models of the pool. Raises NotVisible if no machine type is known."""
        if not self.machines:
            raise self._no_machine()
        models = dict.fromkeys(machine.gpu for machine in self.machines if machine.gpu is not None)
        return tuple(self.stack.catalog.gpus[model] for model in models if model in self.stack.catalog.gpus)

    @property
    def gpus_per_node(self) -> int:
        """Maximum number of GPUs of a node in the pool. Raises NotVisible if no machine type is known."""
        if not self.machines:
            raise self._no_machine()
        return max(machine.gpu_count for machine in self.machines)

    @property
    def has_gpus(self) -> bool:
        """Whether the nodes have GPUs according to a machine type, a label or another field."""
        return self.stack.once(("has_gpus", self.resource), self._has_gpus)

    def _has_gpus(self) -> bool:
        labelled = any(self.label(key).present for key in _GPU_LABELS)
        if self.declares_gpus or labelled or any(machine.has_gpus for machine in self.machines):
            return True
        return not self.machine_types and self.label(names.POOL_LABEL).present

    def _no_machine(self) -> NotVisible:
        found = ", ".join(self.machine_types)
        why = f"machine type {found} is not in the catalogue" if found else "the pool names no machine type"
        return Value(self.resource.urn).not_visible(why)


_GPU_LABELS = (
    names.GPU_PRESENT_LABEL,
    names.GPU_PRODUCT_LABEL,
    names.DEVICE_PLUGIN_CONFIG_LABEL,
    names.MIG_CONFIG_LABEL,
)


def _effect(spelling: str) -> str:
    """Convert a taint effect to Kubernetes' spelling. AWS and Google use the form NO_SCHEDULE."""
    return "".join(word.capitalize() for word in spelling.split("_")) if spelling.isupper() else spelling


def visible_text(inputs: Value, key: str) -> str | None:
    try:
        return inputs.get(key).text()
    except NotVisible:
        return None
