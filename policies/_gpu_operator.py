"""The GPU Operator of a stack: its values, and the configs that the values and the nodes' labels name.

Device-plugin configs and MIG layouts are in ConfigMaps that the operator's values name. Where the operator is in
another stack, such a ConfigMap is recognised by its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform import names
from gpu_platform.catalog import Gpu
from policies._inputs import NotVisible, Value
from policies._mig_profiles import mig_tables
from policies._pools import NodePool
from policies._stack import Resource, Stack

MIG_DISABLED: Final = "all-disabled"
MIG_BALANCED: Final = "all-balanced"
_HELM_KINDS = ("helm.sh/Release", "helm.sh/Chart")


@dataclass(frozen=True, slots=True, eq=False)
class GpuOperator:
    """A rendered GPU Operator: the spec of a ClusterPolicy or the values of a Helm release, in the same form."""

    resource: Resource
    values: Value
    default_mig_strategy: Literal["", "single"]


@dataclass(frozen=True, slots=True, eq=False)
class DevicePluginConfig:
    """One named config of the device plugin."""

    resource: Resource
    name: str
    text: Value
    named_by_operator: bool

    @property
    def group(self) -> str:
        """Every config is reported by itself."""
        return f"{self.resource.urn} {self.name}"

    @property
    def document(self) -> Value:
        """The config's content. Raises NotVisible."""
        return self.text.document()

    @property
    def sharing(self) -> Iterator[Sharing]:
        """The sharing blocks, normally at most one. Raises NotVisible."""
        for mode, key in _SHARING_KEYS.items():
            block = self.document.get("sharing", key)
            if block.present:
                yield Sharing(mode, block)


SharingMode = Literal["time-slicing", "MPS"]
_SHARING_KEYS: Mapping[SharingMode, str] = {"time-slicing": "timeSlicing", "MPS": "mps"}


@dataclass(frozen=True, slots=True)
class Sharing:
    """One sharing block of a rendered device-plugin config."""

    mode: SharingMode
    block: Value

    @property
    def renamed(self) -> bool:
        """Whether the resources are advertised as `<name>.shared`. Raises NotVisible."""
        return self.block.get("renameByDefault").truth()

    @property
    def resources(self) -> Iterator[tuple[str, Value]]:
        """The names of the replicated resources, each with its replicas. Raises NotVisible."""
        for item in self.block.get("resources").items():
            yield item.get("name").text() or "", item.get("replicas")


@dataclass(frozen=True, slots=True)
class MigDevices:
    """One entry of a MIG layout: the instances of some GPUs of a node."""

    entry: Value

    @property
    def enabled(self) -> bool:
        """Whether MIG is on. Raises NotVisible."""
        return self.entry.get("mig-enabled").truth()

    @property
    def instances(self) -> Mapping[str, int]:
        """Profile and count of the instances on each of the GPUs. Raises NotVisible."""
        counted = ((profile, count.whole()) for profile, count in self.entry.get("mig-devices").entries())
        return {profile: count for profile, count in counted if count is not None and count > 0}

    def selects(self, gpu: Gpu) -> bool:
        """Return whether the entry applies to GPUs of a model. Raises NotVisible, also for an unknown PCI id."""
        device_filter = self.entry.get("device-filter")
        if not device_filter.present:
            return True
        if gpu.pci_id is None:
            raise device_filter.not_visible(f"the PCI device id of {gpu.product} is not known")
        # One id, or a list of them; a subsystem may follow after a colon.
        listed = (item.text() or "" for item in device_filter.items() or (device_filter,))
        return gpu.pci_id.casefold() in {text.partition(":")[0].casefold() for text in listed}


@dataclass(frozen=True, slots=True, eq=False)
class MigLayout:
    """One named layout of a rendered mig-parted config."""

    resource: Resource
    name: str
    entries: Value
    named_by_operator: bool

    @property
    def group(self) -> str:
        """Every layout is reported by itself."""
        return f"{self.resource.urn} {self.name}"

    @property
    def devices(self) -> tuple[MigDevices, ...]:
        """Its entries. Raises NotVisible."""
        return tuple(MigDevices(entry) for entry in self.entries.items())


def operator(stack: Stack) -> GpuOperator | None:
    """Return the GPU Operator of the stack, if it has one. The chart's own default strategy is `single`."""
    for resource in stack.of_kind("nvidia.com/ClusterPolicy"):
        return GpuOperator(resource, Value(resource.urn, "spec", _below(resource, "spec")), "")
    for resource in stack.of_kind(*_HELM_KINDS):
        chart = _below(resource, "chart")
        if isinstance(chart, str) and chart.rstrip("/").rpartition("/")[2] == "gpu-operator":
            return GpuOperator(resource, Value(resource.urn, "values", _below(resource, "values")), "single")
    return None


def allocates_by_claims(stack: Stack) -> bool:
    """Return whether DRA allocates GPUs: there is a GPUCluster, or the chart creates one. Raises NotVisible."""
    if any(True for _ in stack.of_kind("nvidia.com/GPUCluster")):
        return True
    found = stack.view(operator)
    return found is not None and found.values.get("gpuCluster", "deployCR").truth()


def device_plugin_configs(stack: Stack) -> tuple[DevicePluginConfig, ...]:
    """Return every device-plugin config that can be seen."""
    return tuple(
        DevicePluginConfig(resource, key, text, named)
        for resource, key, text, named in _documents(stack, "devicePlugin")
        if named or _has(text, "sharing") or _has(text, "flags")
    )


def mig_layouts(stack: Stack) -> tuple[MigLayout, ...]:
    """Return every MIG layout that can be seen."""
    return tuple(
        MigLayout(resource, name, entries, named)
        for resource, _, text, named in _documents(stack, "migManager")
        for name, entries in _visible_entries(text, "mig-configs")
    )


def device_plugin_config_of(stack: Stack, pool: NodePool) -> DevicePluginConfig | None:
    """Return the device-plugin config of a pool's nodes: the one their label names, else the default.

    None: neither names a config. Raises NotVisible, also where the named config cannot be seen.
    """
    key = pool.label(names.DEVICE_PLUGIN_CONFIG_LABEL)
    found = stack.view(operator)
    if not key.present and found is not None:
        key = found.values.get("devicePlugin", "config", "default")
    wanted = key.text()
    if not wanted:
        return None
    configs = stack.view(device_plugin_configs)
    for config in [config for config in configs if config.named_by_operator] or configs:
        if config.name == wanted:
            return config
    raise key.not_visible(f"the device-plugin config {wanted!r} is not in this stack")


def mig_strategy_of(stack: Stack, pool: NodePool) -> tuple[str, bool]:
    """Return the MIG strategy of a pool (none, single or mixed), and whether the operator's values set it.

    The operator passes a strategy of its own to the device plugin as MIG_STRATEGY, which overrides the config that
    the nodes' label names; with an empty one each node's config decides. Source: NVIDIA/gpu-operator,
    controllers/object_controls.go (applyMIGConfiguration); k8s-device-plugin, api/config/v1/flags.go.
    Raises NotVisible.
    """
    found = stack.view(operator)
    if found is None:
        raise pool.label(names.MIG_CONFIG_LABEL).not_visible("the GPU Operator is not in this stack")
    declared = found.values.get("mig", "strategy").text()
    if strategy := found.default_mig_strategy if declared is None else declared:
        return strategy, True
    config = device_plugin_config_of(stack, pool)
    declared = config.document.get("flags", "migStrategy").text() if config is not None else None
    return declared or "none", False


def mig_config_of(pool: NodePool) -> Value | None:
    """Return the label that names a pool's MIG layout; None where MIG is off. Raises NotVisible."""
    label = pool.label(names.MIG_CONFIG_LABEL)
    return None if label.text() in (None, "", MIG_DISABLED) else label


def mig_layout_of(stack: Stack, pool: NodePool) -> MigLayout | None:
    """Return the MIG layout of a pool's nodes; None: MIG is off, or the operator generates it by its name.

    Raises NotVisible, also where the layout may be in a ConfigMap that cannot be seen.
    """
    label = mig_config_of(pool)
    if label is None:
        return None
    wanted = label.text()
    layouts = stack.view(mig_layouts)
    for layout in [layout for layout in layouts if layout.named_by_operator] or layouts:
        if layout.name == wanted:
            return layout
    if (wanted or "").startswith("all-") and not _names_mig_config(stack):
        return None
    raise label.not_visible(f"the MIG layout {wanted!r} is not in this stack")


def known_mig_layouts(stack: Stack) -> tuple[str, ...] | None:
    """Return the names of the layouts in the operator's own ConfigMap; None where it cannot be seen."""
    layouts = [layout.name for layout in stack.view(mig_layouts) if layout.named_by_operator]
    return tuple(layouts) or None


def mig_instances_of(stack: Stack, pool: NodePool) -> Iterator[Mapping[str, int]]:
    """Yield the instances of each kind of GPU of a pool; empty for GPUs without MIG. Raises NotVisible."""
    label = mig_config_of(pool)
    if label is None:
        yield {}
        return
    layout = mig_layout_of(stack, pool)
    if layout is None:
        yield from _generated(label, pool)
        return
    for gpu in pool.gpus:
        for devices in layout.devices:
            if devices.selects(gpu):
                yield devices.instances if devices.enabled else {}


def _generated(label: Value, pool: NodePool) -> Iterator[Mapping[str, int]]:
    """Yield the instances of a layout that the operator generates from the hardware: `all-<profile>`."""
    profile_name = (label.text() or "").removeprefix("all-")
    for gpu in pool.gpus:
        table = mig_tables().get(gpu.model)
        profile = table.profile(profile_name) if table else None
        if profile is None:
            raise label.not_visible(f"the operator generates the layout {label.text()!r} itself")
        yield {profile.name: profile.instances}


def _names_mig_config(stack: Stack) -> bool:
    found = stack.view(operator)
    return found is not None and bool(found.values.get("migManager", "config", "name").text())


def _documents(stack: Stack, component: str) -> Iterator[tuple[Resource, str, Value, bool]]:
    """Yield each text of a ConfigMap or of the operator's inline data: resource, key, text, named by operator."""
    found = stack.view(operator)
    named = None
    if found is not None:
        for key, text in _visible_entries(found.values, component, "config", "data"):
            yield found.resource, key, text, True
        try:
            named = found.values.get(component, "config", "name").text()
        except NotVisible:
            named = None
    for config_map in stack.of_kind("core/ConfigMap"):
        for key, text in _visible_entries(config_map.inputs, "data"):
            yield config_map, key, text, config_map.object_name == named


def _visible_entries(value: Value, *keys: str) -> tuple[tuple[str, Value], ...]:
    """Return the entries of the mapping at `keys`; none where it cannot be seen."""
    try:
        return value.document().get(*keys).entries()
    except NotVisible:
        return ()


def _has(text: Value, key: str) -> bool:
    """Return whether a text is visibly a config (`version: v1`) with that key."""
    try:
        document = text.document()
        return document.get("version").text() == "v1" and document.get(key).present
    except NotVisible:
        return False


def _below(resource: Resource, key: str) -> object:
    try:
        return resource.inputs.get(key).raw
    except NotVisible:
        return resource.inputs.raw
