"""The GPU Operator of a stack, with its values and the configs that the values and node labels select.

Device-plugin configs and MIG layouts are in ConfigMaps that the operator's values name. If the operator is in
another stack, such ConfigMaps are recognised by their content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpu_platform.base import names
from gpu_platform.catalog import Gpu
from policies._inputs import NotVisible, Value
from policies._mig_profiles import mig_tables
from policies._node_pool import NodePool, Sharing, SharingMode
from policies._pools import pools
from policies._stack import Resource, Stack

MIG_DISABLED: Final = "all-disabled"
MIG_BALANCED: Final = "all-balanced"
_HELM_KINDS = ("helm.sh/Release", "helm.sh/Chart")


@dataclass(frozen=True, slots=True, eq=False)
class GpuOperator:
    """A rendered GPU Operator. Its settings are the spec of a ClusterPolicy, or the values of a Helm release in
    the same form.
    """

    resource: Resource
    values: Value
    default_mig_strategy: Literal["", "single"]


_SHARING_KEYS: Mapping[SharingMode, str] = {"time-slicing": "timeSlicing", "MPS": "mps"}


@dataclass(frozen=True, slots=True, eq=False)
class DevicePluginConfig:
    """One named config of the operator's device plugin, or the sharing settings of a plugin that a pool's image or
    cloud provides.
    """

    resource: Resource
    name: str
    text: Value
    named_by_operator: bool
    pool: NodePool | None = None
    """The pool with these sharing settings, whose image or cloud provides the device plugin. None for the
    operator's config.
    """

    @property
    def group(self) -> str:
        """Key of the config, so that every config is reported separately."""
        return f"{self.resource.urn} {self.name}"

    @property
    def what(self) -> str:
        """Name of the config or the pool in a message."""
        return f"config {self.name!r}" if self.pool is None else f"pool {self.pool.name!r}"

    @property
    def document(self) -> Value:
        """Content of the config. Raises NotVisible."""
        return self.text.document()

    @property
    def sharing(self) -> Iterator[Sharing]:
        """Sharing blocks of the config, normally at most one. Raises NotVisible."""
        if self.pool is not None:
            yield from (sharing for sharing in (self.pool.sharing,) if sharing is not None)
            return
        for mode, key in _SHARING_KEYS.items():
            block = self.document.get("sharing", key)
            if block.present:
                yield Sharing(mode, block)


@dataclass(frozen=True, slots=True)
class MigDevices:
    """One entry of a MIG layout, with the instances on some GPUs of a node."""

    entry: Value

    @property
    def enabled(self) -> bool:
        """Whether the entry enables MIG. Raises NotVisible."""
        return self.entry.get("mig-enabled").truth()

    @property
    def instances(self) -> Mapping[str, int]:
        """Number of instances on each GPU, by profile. Raises NotVisible."""
        counted = ((profile, count.whole()) for profile, count in self.entry.get("mig-devices").entries())
        return {profile: count for profile, count in counted if count is not None and count > 0}

    def selects(self, gpu: Gpu) -> bool:
        """Return whether the entry applies to a GPU model. Raises NotVisible, also for an unknown PCI id."""
        device_filter = self.entry.get("device-filter")
        if not device_filter.present:
            return True
        if gpu.pci_id is None:
            raise device_filter.not_visible(f"the PCI device id of {gpu.product} is not known")
        # A filter is one id or a list of ids. A subsystem id may follow after a colon.
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
        """Key of the layout, so that every layout is reported separately."""
        return f"{self.resource.urn} {self.name}"

    @property
    def devices(self) -> tuple[MigDevices, ...]:
        """Entries of the layout. Raises NotVisible."""
        return tuple(MigDevices(entry) for entry in self.entries.items())


def operator(stack: Stack) -> GpuOperator | None:
    """Return the GPU Operator of the stack, or None. The chart's default MIG strategy is `single`."""
    for resource in stack.of_kind("nvidia.com/ClusterPolicy"):
        return GpuOperator(resource, Value(resource.urn, "spec", _below(resource, "spec")), "")
    for resource in stack.of_kind(*_HELM_KINDS):
        chart = _below(resource, "chart")
        if isinstance(chart, str) and chart.rstrip("/").rpartition("/")[2] == "gpu-operator":
            return GpuOperator(resource, Value(resource.urn, "values", _below(resource, "values")), "single")
    return None


def allocates_by_claims(stack: Stack) -> bool:
    """Return whether DRA allocates GPUs. This is the case if a GPUCluster exists or the chart creates one.

    Raises NotVisible.
    """
    if any(True for _ in stack.of_kind("nvidia.com/GPUCluster")):
        return True
    found = stack.view(operator)
    return found is not None and found.values.get("gpuCluster", "deployCR").truth()


def device_plugin_configs(stack: Stack) -> tuple[DevicePluginConfig, ...]:
    """Return every visible device-plugin config, and one for each pool whose image or cloud shares GPUs."""
    return (*stack.view(_configs), *(_of(pool) for pool in stack.view(pools) if _shares_itself(pool)))


def _configs(stack: Stack) -> tuple[DevicePluginConfig, ...]:
    return tuple(
        DevicePluginConfig(resource, key, text, named)
        for resource, key, text, named in _documents(stack, "devicePlugin")
        if named or _has(text, "sharing") or _has(text, "flags")
    )


def _shares_itself(pool: NodePool) -> bool:
    """Return whether the device plugin of a pool's image or cloud shares GPUs, or may share them through a setting
    that is not visible.
    """
    try:
        return pool.sharing is not None
    except NotVisible:
        return True


def _of(pool: NodePool) -> DevicePluginConfig:
    return DevicePluginConfig(pool.resource, pool.name, Value(pool.resource.urn), True, pool)


def mig_layouts(stack: Stack) -> tuple[MigLayout, ...]:
    """Return every visible MIG layout."""
    return tuple(
        MigLayout(resource, name, entries, named)
        for resource, _, text, named in _documents(stack, "migManager")
        for name, entries in _visible_entries(text, "mig-configs")
    )


def device_plugin_config_of(stack: Stack, pool: NodePool) -> DevicePluginConfig | None:
    """Return the device-plugin config of a pool's nodes, or None if no config is selected.

    The sharing settings of the pool's image or cloud take precedence over the config in the node label. The config
    in the node label takes precedence over the default. Raises NotVisible, also if the selected config is not
    visible.
    """
    if pool.sharing is not None:
        return _of(pool)
    key = pool.label(names.DEVICE_PLUGIN_CONFIG_LABEL)
    found = stack.view(operator)
    if not key.present and found is not None:
        key = found.values.get("devicePlugin", "config", "default")
    wanted = key.text()
    if not wanted:
        return None
    configs = stack.view(_configs)
    for config in [config for config in configs if config.named_by_operator] or configs:
        if config.name == wanted:
            return config
    raise key.not_visible(f"the device-plugin config {wanted!r} is not in this stack")


def mig_strategy_of(stack: Stack, pool: NodePool) -> tuple[str, bool]:
    """Return the MIG strategy of a pool (none, single or mixed), and whether the operator's values set it.

    The operator passes its strategy to the device plugin as MIG_STRATEGY, which overrides the config that the node
    label names. If the operator's strategy is empty, each node's config determines the strategy. Source:
    NVIDIA/gpu-operator, controllers/object_controls.go (applyMIGConfiguration); k8s-device-plugin,
    api/config/v1/flags.go. Instances that the image or the cloud creates have the resource name of whole GPUs.
    Raises NotVisible.
    """
    if pool.partition is not None:
        return "single", False
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
    """Return the label that names a pool's MIG layout, or None if MIG is off. Raises NotVisible."""
    label = pool.label(names.MIG_CONFIG_LABEL)
    return None if label.text() in (None, "", MIG_DISABLED) else label


def mig_layout_of(stack: Stack, pool: NodePool) -> MigLayout | None:
    """Return the MIG layout of a pool's nodes, or None if MIG is off or the operator generates the layout.

    Raises NotVisible, also if the layout may be in a ConfigMap that is not visible.
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
    """Return the names of the layouts in the operator's ConfigMap, or None if it is not visible."""
    layouts = [layout.name for layout in stack.view(mig_layouts) if layout.named_by_operator]
    return tuple(layouts) or None


def mig_instances_of(stack: Stack, pool: NodePool) -> Iterator[Mapping[str, int]]:
    """Yield the MIG instances for each GPU model of a pool. The mapping is empty for GPUs without MIG. Raises
    NotVisible.
    """
    if pool.partition is not None:
        yield from _filled(pool.partition, pool.partition.text() or "", pool)
        return
    label = mig_config_of(pool)
    if label is None:
        yield {}
        return
    layout = mig_layout_of(stack, pool)
    if layout is None:
        yield from _filled(label, (label.text() or "").removeprefix("all-"), pool)
        return
    for gpu in pool.gpus:
        for devices in layout.devices:
            if devices.selects(gpu):
                yield devices.instances if devices.enabled else {}


def _filled(at: Value, profile_name: str, pool: NodePool) -> Iterator[Mapping[str, int]]:
    """Yield the maximum number of instances of one profile for each GPU model, as `all-<profile>` creates them."""
    for gpu in pool.gpus:
        table = mig_tables().get(gpu.model)
        profile = table.profile(profile_name) if table else None
        if profile is None:
            raise at.not_visible(f"the instances of {at.text()!r} are not known")
        yield {profile.name: profile.instances}


def _names_mig_config(stack: Stack) -> bool:
    found = stack.view(operator)
    return found is not None and bool(found.values.get("migManager", "config", "name").text())


def _documents(stack: Stack, component: str) -> Iterator[tuple[Resource, str, Value, bool]]:
    """Yield each string in a ConfigMap or in the operator's inline data.

    Each item consists of the resource, the key, the string, and whether the operator's values name the source.
    """
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
    """Return the entries of the mapping at `keys`, or nothing if the mapping is not visible."""
    try:
        return value.document().get(*keys).entries()
    except NotVisible:
        return ()


def _has(text: Value, key: str) -> bool:
    """Return whether a string is a visible config (`version: v1`) with the given key."""
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
