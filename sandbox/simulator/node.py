"""The desired state of a simulated node, computed from all operands. The functions are pure and use no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from gpu_platform.base import names
from sandbox.nvml import MigTable
from sandbox.simulator.cluster_policy import ClusterPolicy, default_labels, runs_on_node
from sandbox.simulator.device_plugin import (
    Advertised,
    PluginConfig,
    PluginError,
    advertise,
    choose_config,
    parse_config,
    resolve_mig_strategy,
)
from sandbox.simulator.feature_discovery import Labels, feature_labels, is_operand_label
from sandbox.simulator.hardware import GpuLayouts, Hardware
from sandbox.simulator.mig_manager import (
    MigConfigError,
    MigConfigs,
    MigOutcome,
    generated_configs,
    parse_mig_configs,
    reconfigure,
)

MIG_CONFIG_KEY: Final = "config.yaml"

ConfigMaps = Mapping[str, Mapping[str, str]]
"""Data of the ConfigMaps in the operator's namespace, by ConfigMap name."""


@dataclass(frozen=True, slots=True)
class DesiredNode:
    """The desired resources and labels of a node, without the label for the MIG manager's state.

    `notes` contains the operands' errors, for the log.
    """

    advertised: Mapping[str, Advertised] = field(default_factory=dict[str, Advertised])
    labels: Labels = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MigRequest:
    """A MIG config that a node requests: the outcome of the request, and a digest that changes with the config."""

    digest: str
    outcome: MigOutcome


def desired_node(
    policy: ClusterPolicy | None,
    config_maps: ConfigMaps,
    node_labels: Mapping[str, str],
    hardware: Hardware,
    *,
    operands_stopped: bool,
) -> DesiredNode:
    """Return a node's resources and labels. Operands are stopped while MIG, the driver or the operator changes."""
    if policy is None:
        return DesiredNode()
    notes: list[str] = []
    advertised: Mapping[str, Advertised] = {}
    # If feature discovery has failed or is stopped, its labels stay on the node.
    discovered = {key: value for key, value in node_labels.items() if is_operand_label(key)}
    plugin_runs = policy.device_plugin and runs_on_node(node_labels, "device-plugin")
    discovery_runs = policy.feature_discovery and runs_on_node(node_labels, "gpu-feature-discovery")
    try:
        config = _plugin_config(policy, config_maps, node_labels)
    except PluginError as error:
        config = None
        notes.append(f"config of the device plugin: {error}")
    if config is not None and not operands_stopped:
        notes.extend(config.warnings)
        strategy = resolve_mig_strategy(policy.mig_strategy, config)
        if plugin_runs:
            try:
                advertised = advertise(hardware, config, strategy)
            except PluginError as error:
                notes.append(f"device plugin: {error}")
        if discovery_runs:
            try:
                discovered = feature_labels(hardware, config, strategy)
            except PluginError as error:
                notes.append(f"gpu feature discovery: {error}")
    if not discovery_runs:
        discovered = dict[str, str]()
    own = default_labels(policy, node_labels, mig_capable=hardware.mig is not None)
    return DesiredNode(advertised, discovered | own, tuple(notes))


def _plugin_config(policy: ClusterPolicy, config_maps: ConfigMaps, node_labels: Mapping[str, str]) -> PluginConfig:
    """Return the config that the node's device plugin and feature discovery read at their start. Raises
    PluginError if the plugin would not start.
    """
    name = policy.device_plugin_config
    if not name:
        return PluginConfig()
    if name not in config_maps:
        raise PluginError(f'MountVolume.SetUp failed: configmap "{name}" not found')
    data = config_maps[name]
    label = node_labels.get(names.DEVICE_PLUGIN_CONFIG_LABEL, "")
    key = choose_config(label, policy.device_plugin_default, data)
    return parse_config(data[key]) if key is not None else PluginConfig()


def mig_request(
    policy: ClusterPolicy | None,
    config_maps: ConfigMaps,
    node_labels: Mapping[str, str],
    hardware: Hardware,
    current: GpuLayouts,
    *,
    busy: bool,
    refused: str = "",
) -> MigRequest | None:
    """Return the request to the MIG manager, or None if the manager does not run or the node names no config.

    The MIG manager runs only on MIG-capable nodes, and its pod does not start without its ConfigMap. `current`
    contains the layouts of the GPUs that the driver reports. The digest covers the config, or the error of an
    invalid config. A failed request is therefore not repeated, even if the cause of `refused` is gone, as in the
    real manager. A new attempt requires another label or a changed config.
    """
    selected = node_labels.get(names.MIG_CONFIG_LABEL, "")
    if (
        policy is None
        or not policy.mig_manager
        or hardware.mig is None
        or not selected
        or not runs_on_node(node_labels, "mig-manager")
    ):
        return None
    try:
        configs = _mig_configs(policy, config_maps, hardware.mig)
    except MigConfigError as error:
        digest = _digest(selected, str(error), busy)
        return MigRequest(digest, MigOutcome(current, "failed", str(error), at_once=True))
    if configs is None:
        return None
    entries = configs.get(selected)
    outcome = reconfigure(hardware.mig, current, configs, selected, busy=busy, refused=refused)
    return MigRequest(_digest(selected, repr(entries), busy, len(current)), outcome)


def _mig_configs(policy: ClusterPolicy, config_maps: ConfigMaps, table: MigTable) -> MigConfigs | None:
    """Return the named configs, or None if their ConfigMap or its key is missing. Raises MigConfigError if the
    configs are invalid.
    """
    if not policy.mig_config:
        return generated_configs(table)
    text = config_maps.get(policy.mig_config, {}).get(MIG_CONFIG_KEY)
    return None if text is None else parse_mig_configs(text)


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


# -- stored state of the GPUs ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MigMemory:
    """The MIG state of a node's GPUs: their layouts, and the digest and outcome of the last request.

    The state is stored in an annotation of the Node, because simulated hardware cannot store it.
    """

    layouts: GpuLayouts
    handled: str = ""
    state: str = ""

    def to_text(self) -> str:
        """Return the state as a string for the annotation."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_mig_memory(text: str | None, gpu_count: int) -> MigMemory:
    """Parse the annotation. If it is missing or belongs to other hardware, MIG is off on every GPU."""
    fresh = MigMemory((None,) * gpu_count)
    try:
        raw = json.loads(text or "null")
        memory = MigMemory(tuple(raw["layouts"]), str(raw["handled"]), str(raw["state"]))
    except (ValueError, KeyError, TypeError):
        return fresh
    return memory if len(memory.layouts) == gpu_count else fresh
