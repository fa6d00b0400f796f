"""The device plugin: its config file, the config of a node, and the resources that it advertises.

The rules and messages follow NVIDIA/k8s-device-plugin 0.20.0 (api/config/v1, internal/rm, cmd/config-manager,
cmd/nvidia-device-plugin, cmd/mps-control-daemon). Each function names its source file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import yaml

from gpu_platform.base import names
from sandbox.simulator.hardware import Hardware, VisibleGpu, mig_instances, without_mig

MIG_STRATEGIES: Final = ("none", "single", "mixed")
NO_NUMA_NODE: Final = -1
"""NUMA node of a device if its machine reports none."""
_PREFIX: Final = "nvidia.com/"
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

SharingStrategy = Literal["none", "time-slicing", "mps"]


class PluginError(Exception):
    """The plugin does not start, so it advertises nothing. The message matches the real plugin's message."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sharing block that applies to a simulated node.

    `replicas` contains the number of replicas per device, by the name of the resource before it is renamed.
    """

    strategy: SharingStrategy = "none"
    renamed: bool = False
    fail_requests_greater_than_one: bool = False
    replicas: Mapping[str, int] = field(default_factory=dict[str, int])

    def replicas_of(self, resource: str) -> int:
        """Return the number of replicas per device of `resource`, which is 1 if the resource is not shared."""
        return self.replicas.get(resource, 1)


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One config of the device plugin. `mig_strategy` is None if the file does not set it."""

    mig_strategy: str | None = None
    sharing: Sharing = field(default_factory=Sharing)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advertised:
    """One resource that the plugin registers. With `single_only`, the plugin refuses requests for more than one
    unit.

    `numa` and `healthy_numa` contain the number of all devices and of healthy devices, by the NUMA node of their
    GPU.
    """

    count: int
    healthy: int
    single_only: bool = False
    numa: Mapping[int, int] = field(default_factory=dict[int, int], compare=False)
    healthy_numa: Mapping[int, int] = field(default_factory=dict[int, int], compare=False)


# -- choice of the config -----------------------------------------------------------------------------------------


def choose_config(label: str, default: str, keys: Collection[str]) -> str | None:
    """Return the key of a node's config, or None for the empty config. Raises PluginError if there is no such key.

    The node label takes precedence over the ClusterPolicy's default. Without both, the plugin uses the empty
    config, because the operator sets the fallback `empty`. A missing key stops the config manager and therefore
    the plugin's pod. Source: cmd/config-manager/main.go, updateConfigName; gpu-operator object_controls.go. (The
    real message does not contain the name of a missing default.)
    """
    if not keys:
        raise PluginError("no configuration files available")
    wanted = label or default
    if not wanted:
        return None
    if wanted not in keys:
        raise PluginError(f"specified config {wanted} does not exist")
    return wanted


def resolve_mig_strategy(cluster_policy: str, config: PluginConfig) -> str:
    """Return the MIG strategy that applies.

    The operator passes the ClusterPolicy's `mig.strategy`, if set, to the plugin as the variable MIG_STRATEGY. The
    variable overrides the file's `flags.migStrategy` (README, "Configuration": flag, variable, file). Otherwise,
    the config of each node determines the strategy. Source: gpu-operator applyMIGConfiguration; config.go
    NewConfig.
    """
    return cluster_policy or config.mig_strategy or "none"


# -- the config file --------------------------------------------------------------------------------------


def parse_config(text: str) -> PluginConfig:
    """Parse one config. Raises PluginError if the plugin refuses it. Unknown fields are ignored, as in the plugin.

    Source: api/config/v1/config.go and replicas.go.
    """
    try:
        raw = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise PluginError(f"unable to parse config file: unmarshal error: {error}") from error
    config = _mapping(raw, "config")
    version = config.get("version") or "v1"
    if version != "v1":
        raise PluginError(f"unable to parse config file: unknown version: {version}")
    flags = _mapping(config.get("flags"), "flags")
    strategy = flags.get("migStrategy")
    if strategy is not None and not isinstance(strategy, str):
        raise _unmarshal(f"flags.migStrategy is not a string: {strategy!r}")
    sharing = _mapping(config.get("sharing"), "sharing")
    warnings: list[str] = []
    if config.get("resources"):
        warnings.append("Customizing the 'resources' field is not yet supported in the config. Ignoring...")
    # Both blocks must be valid, although MPS overrides time-slicing (sharing.go).
    time_slicing = _sharing(sharing, "timeSlicing", warnings) if "timeSlicing" in sharing else Sharing()
    mps = _sharing(sharing, "mps", warnings) if sharing.get("mps") is not None else None
    if mps is not None and time_slicing.strategy != "none":
        warnings.append("sharing.timeSlicing is ignored: sharing.mps takes precedence")
    return PluginConfig(strategy, mps or time_slicing, tuple(warnings))


def _sharing(sharing: Mapping[str, Any], block: Literal["timeSlicing", "mps"], warnings: list[str]) -> Sharing:
    fields = _mapping(sharing[block], f"sharing.{block}")
    renamed = _boolean(fields, "renameByDefault")
    fail = _boolean(fields, "failRequestsGreaterThanOne")
    resources = fields.get("resources")
    if not isinstance(resources, list) or not resources:
        raise _unmarshal("no resources specified")
    replicas: dict[str, int] = {}
    for entry in cast("list[object]", resources):
        name, count = _replicated(_mapping(entry, "resource"), block, renamed is True, warnings)
        replicas[name] = max(count, replicas.get(name, 0))
    return Sharing(
        strategy="mps" if block == "mps" else "time-slicing",
        renamed=renamed is True,
        # The default is true for MPS and false for time-slicing (config.go, NewConfig).
        fail_requests_greater_than_one=block == "mps" if fail is None else fail,
        replicas=replicas,
    )


def _replicated(entry: Mapping[str, Any], block: str, renamed: bool, warnings: list[str]) -> tuple[str, int]:
    if "name" not in entry:
        raise _unmarshal("no resource name specified")
    name = resource_name(entry["name"])
    devices = entry.get("devices", "all")
    if not _valid_devices(devices):
        raise _unmarshal(f"unrecognized type for devices spec: {devices!r}")
    if "replicas" not in entry:
        raise _unmarshal("no replicas specified")
    count = entry["replicas"]
    if not isinstance(count, int) or isinstance(count, bool):
        raise _unmarshal(f"replicas is not a whole number: {count!r}")
    if count < 2:
        raise _unmarshal("number of replicas must be >= 2")
    rename = entry.get("rename")
    if rename and resource_name(rename) != (f"{name}.shared" if renamed else ""):
        warnings.append(
            f"Setting the 'rename' field in sharing.{block}.resources is not yet supported in the config. "
            "Ignoring..."
        )
    if devices != "all":
        warnings.append(
            f"Customizing the 'devices' field in sharing.{block}.resources is not yet supported in the config. "
            "Ignoring..."
        )
    return name, count


def resource_name(value: object) -> str:
    """Return the fully qualified resource name. Raises PluginError for an invalid name (resources.go)."""
    if not isinstance(value, str):
        raise _unmarshal(f"resource name is not a string: {value!r}")
    name = value if value.startswith(_PREFIX) else _PREFIX + value
    if len(name) > 63:
        raise _unmarshal(f"fully-qualified resource name must be 63 characters or less: {name}")
    if not _DNS_SUBDOMAIN.fullmatch(name.removeprefix(_PREFIX)):
        raise _unmarshal(f"incorrect format for resource name '{name}'")
    return name


def _valid_devices(devices: object) -> bool:
    if isinstance(devices, str):
        return devices == "all"
    if isinstance(devices, bool):
        return False
    return (isinstance(devices, int) and devices > 0) or isinstance(devices, list)


def _boolean(fields: Mapping[str, Any], name: str) -> bool | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise _unmarshal(f"{name} is not a boolean: {value!r}")
    return value


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _unmarshal(f"{what} is not a mapping")
    return cast("Mapping[str, Any]", value)


def _unmarshal(reason: str) -> PluginError:
    return PluginError(f"unable to parse config file: unmarshal error: {reason}")


# -- advertised resources -----------------------------------------------------------------------------------


def advertise(hardware: Hardware, config: PluginConfig, strategy: str) -> Mapping[str, Advertised]:
    """Return the resources that the plugin registers with the kubelet, by name. Raises PluginError.

    Source: cmd/nvidia-device-plugin/main.go validateFlags; internal/rm/device_map.go; internal/plugin/mps.go;
    cmd/mps-control-daemon/mps/device.go.
    """
    if not hardware.driver_answers:
        raise PluginError("nvml init failed: ERROR_LIBRARY_NOT_FOUND")
    if strategy not in MIG_STRATEGIES:
        raise PluginError(f"unknown MIG strategy: {strategy}")
    sharing = config.sharing
    if sharing.strategy == "mps":
        _check_mps(hardware, sharing, strategy)
    devices = _devices(hardware.gpus, strategy)
    # A GPU that is lost while the plugin runs remains in capacity, but not in allocatable (rm/health.go).
    present = [gpu for gpu in hardware.gpus if not gpu.lost]
    healthy = _devices(present, strategy)
    numa, healthy_numa = _by_numa_node(hardware.gpus, strategy), _by_numa_node(present, strategy)
    advertised: dict[str, Advertised] = {}
    for resource, count in devices.items():
        replicas = sharing.replicas_of(resource)
        shared = replicas > 1
        name = f"{resource}.shared" if shared and sharing.renamed else resource
        single_only = shared and sharing.fail_requests_greater_than_one
        advertised[name] = Advertised(
            count * replicas,
            healthy.get(resource, 0) * replicas,
            single_only,
            _counts(numa, resource, replicas),
            _counts(healthy_numa, resource, replicas),
        )
    return advertised


def _by_numa_node(gpus: Sequence[VisibleGpu], strategy: str) -> Mapping[int, Mapping[str, int]]:
    """Return the devices of each resource by the NUMA node of their GPU (internal/rm/nvml_devices.go)."""
    nodes: dict[int, list[VisibleGpu]] = {}
    for gpu in gpus:
        nodes.setdefault(NO_NUMA_NODE if gpu.numa_node is None else gpu.numa_node, []).append(gpu)
    return {node: _devices(of_node, strategy) for node, of_node in nodes.items()}


def _counts(by_numa_node: Mapping[int, Mapping[str, int]], resource: str, replicas: int) -> Mapping[int, int]:
    return {node: of_node[resource] * replicas for node, of_node in by_numa_node.items() if resource in of_node}


def _devices(gpus: Sequence[VisibleGpu], strategy: str) -> Mapping[str, int]:
    """Return the number of devices of each resource before sharing. The strategy determines the MIG resources."""
    if strategy == "none":
        # With the strategy `none`, the plugin advertises whole GPUs, even if they have MIG instances.
        return _present({names.GPU_RESOURCE: len(gpus)})
    whole = _present({names.GPU_RESOURCE: len(without_mig(gpus))})
    instances = mig_instances(gpus)
    if strategy == "mixed":
        return {**whole, **{names.mig_resource(profile): count for profile, count in instances.items()}}
    for index, gpu in enumerate(gpus):
        if gpu.layout is not None and not any(gpu.layout.values()):
            raise PluginError(
                "invalid MIG configuration: at least one device with migEnabled=true was not configured "
                f"correctly: device {index} has no MIG devices configured"
            )
    if len(instances) > 1:
        raise PluginError("invalid MIG configuration: more than one MIG device type present on node")
    if whole and instances:
        raise PluginError("all devices on the node must be configured with the same migEnabled value")
    return whole or _present({names.GPU_RESOURCE: sum(instances.values())})


def _check_mps(hardware: Hardware, sharing: Sharing, strategy: str) -> None:
    if strategy == "mixed":
        raise PluginError("using --mig-strategy=mixed is not supported with MPS")
    if strategy == "single" and mig_instances(hardware.gpus):
        raise PluginError("sharing using MPS is not supported for MIG devices")
    most = mps_clients(hardware.gpu.compute_capability)
    replicas = sharing.replicas_of(names.GPU_RESOURCE)
    if replicas > most:
        raise PluginError(
            "error checking MPS daemon health: invalid MPS configuration: invalid device maximum allowed "
            f"replicas exceeded: {replicas} > {most}"
        )


def mps_clients(compute_capability: str) -> int:
    """Return the maximum number of MPS clients per GPU, as the MPS control daemon determines it.

    The maximum is 48 from compute capability 7.5 on, and 16 below. The daemon mistakes Volta (7.0) for an older
    architecture (device.go).
    """
    major, minor = (int(part) for part in compute_capability.split("."))
    return 48 if (major, minor) >= (7, 5) else 16


def _present(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count for name, count in counts.items() if count}


def allocate_error(resource: str, requested: int) -> str:
    """Return the plugin's error for a container that requests too many replicas (internal/rm/rm.go)."""
    return (
        f'invalid allocation request for "{resource}": invalid request: '
        f"maximum request size for shared resources is 1; found {requested}"
    )
