"""Node pools of EKS: managed node groups and Karpenter NodePools."""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from gpu_platform.base import names
from policies._inputs import Value
from policies._node_pool import Manager, NodePool, OwnPlugin, Sharing, SharingMode, visible_text
from policies._stack import Resource

EKS_LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_CAPACITY_TYPE_LABEL = "karpenter.sh/capacity-type"
_IN_USER_DATA: Mapping[Manager, re.Pattern[str]] = {
    manager: re.compile(rf"{manager}-?manager-?policy[\"']?\s*[:=]\s*[\"']?([a-z-]+)", re.IGNORECASE)
    for manager in get_args(Manager)
}
_SCOPE_IN_USER_DATA = re.compile(r"topology-?manager-?scope[\"']?\s*[:=]\s*[\"']?([a-z]+)", re.IGNORECASE)
_RESERVED_MEMORY = re.compile(r"reserved-?memory|memory-?manager-?reserved-?memory", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _BottlerocketSharing(Sharing):
    """The sharing settings of the device plugin in Bottlerocket's image."""

    @property
    def renamed(self) -> bool:
        return self.block.get("rename-by-default").truth()

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        yield names.GPU_RESOURCE, self.block.get("replicas")


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

    @property
    def own_plugin(self) -> OwnPlugin | None:
        image = self._image()
        if image is None or not (image.text() or "").casefold().startswith("bottlerocket"):
            return None
        return OwnPlugin("Bottlerocket's own", image, "use an AL2023 image")

    @abstractmethod
    def _image(self) -> Value | None:
        """Return the field that selects the node image, or None if the image contains no NVIDIA software."""

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
        return visible_text(self.resource.inputs, "nodeGroupName") or self.resource.name

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

    def _image(self) -> Value | None:
        # Only the NVIDIA variant contains the plugin.
        return self.resource.inputs.get("amiType") if self.declares_gpus else None

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

    def _image(self) -> Value | None:
        # Karpenter selects the NVIDIA variant for all GPU nodes.
        if not self.has_gpus or (node_class := self.node_class) is None:
            return None
        family = node_class.inputs.get("spec", "amiFamily")
        if family.present:
            return family
        aliases = (one.get("alias") for one in node_class.inputs.get("spec", "amiSelectorTerms").items())
        return next((alias for alias in aliases if alias.present), None)

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


POOLS = {"aws:eks/nodeGroup:NodeGroup": EksNodeGroup, "karpenter.sh/NodePool": KarpenterNodePool}
"""Classes of node pools by Pulumi type or kind."""


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
