"""Node pools of a stack: Node objects, EKS node groups, GKE node pools, AKS agent pools and Karpenter NodePools.

They share one interface for machine types, labels, taints and the Topology Manager policy.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gpu_platform.base import names
from gpu_platform.catalog import Gpu, MachineType
from policies._inputs import NotVisible, Value
from policies._stack import Resource, Stack

COMPONENT = "gpu-platform:index:NodePool"
EKS_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
EKS_LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
GKE_NODE_POOL = "gcp:container/nodePool:NodePool"
AKS_AGENT_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
_CAPACITY_TYPE_LABEL = "karpenter.sh/capacity-type"

Manager = Literal["topology", "cpu", "memory"]
"""The kubelet's resource managers for NUMA topology, CPUs and memory."""
_IN_USER_DATA: Mapping[Manager, re.Pattern[str]] = {
    manager: re.compile(rf"{manager}-?manager-?policy[\"']?\s*[:=]\s*[\"']?([a-z-]+)", re.IGNORECASE)
    for manager in get_args(Manager)
}
_SCOPE_IN_USER_DATA = re.compile(r"topology-?manager-?scope[\"']?\s*[:=]\s*[\"']?([a-z]+)", re.IGNORECASE)
_RESERVED_MEMORY = re.compile(r"reserved-?memory|memory-?manager-?reserved-?memory", re.IGNORECASE)


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
class _BottlerocketSharing(Sharing):
    """The sharing settings of the device plugin in Bottlerocket's image."""

    @property
    def renamed(self) -> bool:
        return self.block.get("rename-by-default").truth()

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        yield names.GPU_RESOURCE, self.block.get("replicas")


@dataclass(frozen=True, slots=True)
class _GkeSharing(Sharing):
    """The sharing settings of GKE's device plugin, which cannot rename shares."""

    @property
    def renamed(self) -> bool:
        return False

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        yield names.GPU_RESOURCE, self.block.get("maxSharedClientsPerGpu")


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


class _KubernetesNode(NodePool):
    """A Node object, or a patch of a Node. A patch shows only the fields that it changes."""

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("metadata", "labels")

    @property
    def annotations(self) -> Value:
        return self.resource.inputs.get("metadata", "annotations")

    @property
    def taint_list(self) -> Value:
        taints = self.resource.inputs.get("spec", "taints")
        if self.resource.kind == "core/NodePatch" and not taints.present:
            raise taints.not_visible("the patch does not change the node's taints")
        return taints

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        # Pulumi ignores changes to the list of taints.
        # After a refresh, this list contains the taints that any client has set.
        declared = self.annotations.get(names.TAINTS_ANNOTATION).text()
        if declared is None:
            return super().taints
        parts = (part.rpartition(":") for part in declared.split(",") if part)
        pairs = ((*key.partition("="), effect) for key, _, effect in parts)
        return tuple(NodeTaint(key, value, effect) for key, _, value, effect in pairs)

    def kubelet_policy(self, manager: Manager) -> Value:
        if self.resource.kind == "core/NodePatch":
            raise Value(self.resource.urn).not_visible(
                "the kubelet configuration of existing nodes is not visible"
            )
        return Value(self.resource.urn)

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = (
            self.label(names.INSTANCE_TYPE_LABEL).text()
            or self.label(names.MACHINE_TYPE_LABEL).text()
            or self.annotations.get(names.SANDBOX_MACHINE_ANNOTATION).text()
        )
        return (machine,) if machine else ()


class _SelectedNodes(NodePool):
    """Existing nodes of a cluster, which the platform does not change. The inputs of their component describe the
    nodes.
    """

    @property
    def most_nodes(self) -> int | None:
        return self.resource.inputs.get("maxNodes").whole()

    @property
    def selected_by(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.resource.inputs.get("nodeSelector").entries())

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("labels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("taints")

    def kubelet_policy(self, manager: Manager) -> Value:
        raise Value(self.resource.urn).not_visible("the kubelet configuration of existing nodes is not visible")

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("machineType").text()
        return (machine,) if machine else ()


class _ConfiguredByUserData(NodePool):
    """A pool on EKS. User data configures the kubelet and, with Bottlerocket, the image's device plugin."""

    def kubelet_policy(self, manager: Manager) -> Value:
        return _policy_in(*self._user_data(), manager)

    @property
    def reserves_memory(self) -> bool:
        return _RESERVED_MEMORY.search(self._user_data()[1]) is not None

    @property
    def sharing(self) -> Sharing | None:
        return _sharing_in(self._bottlerocket())

    @property
    def partition(self) -> Value | None:
        return _partition_in(self._bottlerocket())

    @abstractmethod
    def _user_data(self) -> tuple[Value, str]:
        """Return the user data as a value and as text."""

    @abstractmethod
    def _bottlerocket(self) -> Value | None:
        """Return the device plugin settings of Bottlerocket's image, or None for another image."""


class EksNodeGroup(_ConfiguredByUserData):
    """An EKS managed node group, with the fields of its launch template."""

    @property
    def most_nodes(self) -> int | None:
        return self.resource.inputs.get("scalingConfig", "maxSize").whole()

    @property
    def spot(self) -> bool:
        return self.resource.inputs.get("capacityType").text() == "SPOT"

    @property
    def own_name(self) -> str:
        return _visible_text(self.resource.inputs, "nodeGroupName") or self.resource.name

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("labels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("taints")

    @property
    def machine_types(self) -> tuple[str, ...]:
        named = [item.text() for item in self.resource.inputs.get("instanceTypes").items()]
        if not named and (template := self.launch_template()) is not None:
            named = [template.inputs.get("instanceType").text()]
        return tuple(name for name in named if name)

    @property
    def declares_gpus(self) -> bool:
        image = self.resource.inputs.get("amiType").text() or ""
        return image.endswith(("_NVIDIA", "_GPU"))

    @property
    def aligns_whole_pods(self) -> bool:
        return _scope_in(self._user_data()[1]) == "pod"

    def _bottlerocket(self) -> Value | None:
        image = self.resource.inputs.get("amiType").text() or "CUSTOM"
        return _bottlerocket_settings(*self._user_data()) if image.startswith(("BOTTLEROCKET", "CUSTOM")) else None

    def _user_data(self) -> tuple[Value, str]:
        template = self.launch_template()
        if template is None:
            return Value(self.resource.urn), ""
        user_data = template.inputs.get("userData")
        return user_data, _decoded(user_data.text() or "")

    def launch_template(self) -> Resource | None:
        """Return the launch template, or None if the group has none. Raises NotVisible."""
        for urn in self.resource.dependencies:
            found = self.stack.find(urn)
            if found is not None and found.type == EKS_LAUNCH_TEMPLATE:
                return found
        template = self.resource.inputs.get("launchTemplate")
        if template.present:
            raise template.not_visible("the launch template is not a resource of this stack")
        return None


class _GkeNodePool(NodePool):
    """A GKE node pool."""

    @property
    def most_nodes(self) -> int | None:
        inputs = self.resource.inputs
        scaling = inputs.get("autoscaling")
        total = scaling.get("totalMaxNodeCount").whole()
        if total is not None:
            return total
        zones = len(inputs.get("nodeLocations").items()) or 1
        most = scaling.get("maxNodeCount").whole()
        counts = [inputs.get("nodeCount").whole(), inputs.get("initialNodeCount").whole()]
        return (most if most is not None else max((count or 0 for count in counts), default=0)) * zones

    @property
    def partition(self) -> Value | None:
        accelerators = self.resource.inputs.get("nodeConfig", "guestAccelerators").items()
        sizes = (one.get("gpuPartitionSize") for one in accelerators)
        return next((size for size in sizes if size.text()), None)

    @property
    def sharing(self) -> Sharing | None:
        for accelerator in self.resource.inputs.get("nodeConfig", "guestAccelerators").items():
            block = accelerator.get("gpuSharingConfig")
            if (block.get("maxSharedClientsPerGpu").whole() or 0) > 1:
                mps = block.get("gpuSharingStrategy").text() == "MPS"
                return _GkeSharing("MPS" if mps else "time-slicing", block)
        return None

    @property
    def renames_shares(self) -> bool:
        return self.sharing is None

    @property
    def spot(self) -> bool:
        config = self.resource.inputs.get("nodeConfig")
        return config.get("spot").truth() or config.get("preemptible").truth()

    @property
    def own_name(self) -> str:
        return _visible_text(self.resource.inputs, "name") or self.resource.name

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("nodeConfig", "labels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("nodeConfig", "taints")

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("nodeConfig", "machineType").text()
        return (machine,) if machine else ()

    @property
    def declares_gpus(self) -> bool:
        accelerators = self.resource.inputs.get("nodeConfig", "guestAccelerators").items()
        return any((item.get("type").text() or "").startswith("nvidia") for item in accelerators)

    def kubelet_policy(self, manager: Manager) -> Value:
        config = self.resource.inputs.get("nodeConfig", "kubeletConfig")
        if manager == "cpu":
            return config.get("cpuManagerPolicy")
        policy = config.get(f"{manager}Manager", "policy")
        return Value(policy.owner, policy.path, text.casefold() if (text := policy.text()) else None)

    @property
    def aligns_whole_pods(self) -> bool:
        return self.resource.inputs.get("nodeConfig", "kubeletConfig", "topologyManager", "scope").text() == "pod"


class _AksAgentPool(NodePool):
    """An AKS agent pool. Its taints are text, such as `nvidia.com/gpu=present:NoSchedule`."""

    @property
    def most_nodes(self) -> int | None:
        inputs = self.resource.inputs
        most = inputs.get("maxCount").whole()
        return most if most is not None else inputs.get("nodeCount").whole()

    @property
    def spot(self) -> bool:
        return self.resource.inputs.get("priority").text() == "Spot"

    @property
    def own_name(self) -> str:
        return _visible_text(self.resource.inputs, "name") or self.resource.name

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("nodeLabels")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("nodeTaints")

    @property
    def taints(self) -> tuple[NodeTaint, ...]:
        parts = [(item.text() or "").rpartition(":") for item in self.taint_list.items()]
        return tuple(
            NodeTaint(key=key, value=value, effect=effect)
            for text, _, effect in parts
            for key, _, value in (text.partition("="),)
        )

    @property
    def machine_types(self) -> tuple[str, ...]:
        machine = self.resource.inputs.get("vmSize").text()
        return (machine,) if machine else ()

    @property
    def declares_gpus(self) -> bool:
        return self.resource.inputs.get("gpuDriver").present or self.resource.inputs.get("gpuInstance").present

    def kubelet_policy(self, manager: Manager) -> Value:
        return self.resource.inputs.get("kubeletConfig", f"{manager}ManagerPolicy")

    @property
    def partition(self) -> Value | None:
        profile = self.resource.inputs.get("gpuInstance")
        return profile if profile.present else None


class KarpenterNodePool(_ConfiguredByUserData):
    """A Karpenter NodePool without its startup taints, which are temporary."""

    @property
    def most_nodes(self) -> int | None:
        return self.resource.inputs.get("spec", "limits", "nodes").whole()

    @property
    def most_gpus(self) -> int | None:
        return self.resource.inputs.get("spec", "limits", names.GPU_RESOURCE).whole()

    @property
    def spot(self) -> bool:
        return any(
            "spot" in values
            for key, operator, values in self._requirements()
            if key == _CAPACITY_TYPE_LABEL and operator == "In"
        )

    @property
    def node_class(self) -> Resource | None:
        """EC2NodeClass of the pool, if it is in the stack."""
        wanted = self.resource.inputs.get("spec", "template", "spec", "nodeClassRef", "name").text()
        found = self.stack.of_kind("karpenter.k8s.aws/EC2NodeClass")
        return next((one for one in found if one.object_name == wanted), None)

    @property
    def labels(self) -> Value:
        return self.resource.inputs.get("spec", "template", "metadata", "labels")

    @property
    def annotations(self) -> Value:
        return self.resource.inputs.get("spec", "template", "metadata", "annotations")

    @property
    def taint_list(self) -> Value:
        return self.resource.inputs.get("spec", "template", "spec", "taints")

    @property
    def machine_types(self) -> tuple[str, ...]:
        types: list[str] = []
        for key, operator, values in self._requirements():
            if operator != "In":
                continue
            if key == names.INSTANCE_TYPE_LABEL:
                types.extend(values)
            elif key.endswith("/instance-family"):
                known = self.stack.catalog.machine_types
                types.extend(name for name in known if name.partition(".")[0] in values)
        return tuple(types)

    @property
    def declares_gpus(self) -> bool:
        return any(
            "/instance-gpu-" in key and operator in ("In", "Exists", "Gt", "Gte")
            for key, operator, _ in self._requirements()
        )

    @property
    def aligns_whole_pods(self) -> bool:
        return super().aligns_whole_pods if self.simulated else _scope_in(self._user_data()[1]) == "pod"

    @property
    def renames_shares(self) -> bool:
        """Whether shares can be renamed. Always false for Karpenter.

        Karpenter creates no nodes for pods that request nvidia.com/gpu.shared, so shares on its nodes keep the
        name of whole GPUs. Sources: kubernetes-sigs/karpenter#729, #751 and #2140.
        """
        return False

    def _bottlerocket(self) -> Value | None:
        user_data, text = self._user_data()
        return _bottlerocket_settings(user_data, text) if user_data.present else None

    def _user_data(self) -> tuple[Value, str]:
        if (node_class := self.node_class) is None:
            return Value(self.resource.urn), ""
        user_data = node_class.inputs.get("spec", "userData")
        return user_data, user_data.text() or ""

    def _requirements(self) -> Iterator[tuple[str, str, list[str]]]:
        for item in self.resource.inputs.get("spec", "template", "spec", "requirements").items():
            values = [value.text() or "" for value in item.get("values").items()]
            yield item.get("key").text() or "", item.get("operator").text() or "", values


def pools(stack: Stack) -> tuple[NodePool, ...]:
    """Return every node pool, with or without GPUs."""
    return tuple(pool for resource in stack.resources if (pool := _pool(resource, stack)) is not None)


def _pool(resource: Resource, stack: Stack) -> NodePool | None:
    if resource.kind in ("core/Node", "core/NodePatch"):
        return _KubernetesNode(resource, stack)
    if resource.type == COMPONENT and resource.inputs.get("ownership").text() == "selected":
        return _SelectedNodes(resource, stack)
    if resource.kind == "karpenter.sh/NodePool":
        return KarpenterNodePool(resource, stack)
    if resource.type == EKS_NODE_GROUP:
        return EksNodeGroup(resource, stack)
    if resource.type == AKS_AGENT_POOL:
        return _AksAgentPool(resource, stack)
    return _GkeNodePool(resource, stack) if resource.type == GKE_NODE_POOL else None


def _effect(spelling: str) -> str:
    """Convert a taint effect to Kubernetes' spelling. AWS and Google use the form NO_SCHEDULE."""
    return "".join(word.capitalize() for word in spelling.split("_")) if spelling.isupper() else spelling


def _visible_text(inputs: Value, key: str) -> str | None:
    try:
        return inputs.get(key).text()
    except NotVisible:
        return None


def _policy_in(user_data: Value, text: str, manager: Manager) -> Value:
    """Return the manager policy that user data sets, with the path of the user data."""
    match = _IN_USER_DATA[manager].search(text)
    return Value(user_data.owner, user_data.path, match.group(1).casefold() if match else None)


def _scope_in(user_data: str) -> str | None:
    """Return the Topology Manager scope that user data sets, in lower case."""
    match = _SCOPE_IN_USER_DATA.search(user_data)
    return match.group(1).casefold() if match else None


def _bottlerocket_settings(user_data: Value, text: str) -> Value | None:
    """Return the device plugin settings of Bottlerocket's image, or None if the user data is for another image."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    return Value(user_data.owner, user_data.path, document).get("settings", "kubelet-device-plugins", "nvidia")


def _sharing_in(settings: Value | None) -> Sharing | None:
    for mode in get_args(SharingMode):
        if settings is not None and settings.get("device-sharing-strategy").text() == mode.lower():
            return _BottlerocketSharing(mode, settings.get(mode.lower()))
    return None


def _partition_in(settings: Value | None) -> Value | None:
    if settings is None or settings.get("device-partitioning-strategy").text() != "mig":
        return None
    return next((profile for _, profile in settings.get("mig", "profile").entries()), None)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return text
