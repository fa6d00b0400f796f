"""The MIG manager, which applies a mig-parted config to the GPUs of a node.

The rules follow NVIDIA/mig-parted 0.15.0 (api/spec/v1, cmd/nvidia-mig-parted, pkg/mig). Each function names its
source file. The sandbox's tables (`sandbox/nvml/mig_tables.yaml`) determine the GPU instances that the driver can
create.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import yaml

from sandbox.nvml import MigTable
from sandbox.simulator.hardware import GpuLayouts, MigLayout

_PROFILE: Final = re.compile(r"(?:[1-9]c\.)?[1-9]g\.[1-9]\d*gb(?:\+[a-z.]+|-[a-z.]+)*")
_DEVICE_ID: Final = re.compile(r"0x[0-9A-Fa-f]{1,8}")
_FIELDS: Final = {"device-filter", "devices", "mig-enabled", "mig-devices"}


class MigConfigError(Exception):
    """The config is invalid, or has no entry with the requested name. The message matches mig-parted's message."""


@dataclass(frozen=True, slots=True)
class MigEntry:
    """One entry of a named config. `devices` is None for all GPUs. `device_filter` is empty for any GPU model."""

    devices: tuple[int, ...] | None
    enabled: bool
    layout: MigLayout
    device_filter: tuple[int, ...] = ()

    def matches(self, index: int, device_id: int | None) -> bool:
        """Return whether the entry applies to the GPU with this index and PCI device ID (helpers.go)."""
        if self.device_filter and device_id not in self.device_filter:
            return False
        return self.devices is None or index in self.devices


MigConfigs = Mapping[str, Sequence[MigEntry]]


@dataclass(frozen=True, slots=True)
class MigOutcome:
    """The result of the MIG manager: the layouts, the reported state, and the reason for this state.

    `at_once` is true if no GPU had to change and the state was therefore never `pending`.
    """

    gpus: GpuLayouts
    state: Literal["success", "failed"]
    message: str
    at_once: bool


# -- the config -------------------------------------------------------------------------------------------


def parse_mig_configs(text: str) -> MigConfigs:
    """Parse `config.yaml`. Raises MigConfigError. One invalid entry invalidates the file (api/spec/v1/spec.go)."""
    try:
        raw = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise MigConfigError(f"unmarshal error: {error}") from error
    fields = _mapping(raw, "config")
    if "version" not in fields:
        raise MigConfigError("unable to parse with missing 'version' field")
    if fields["version"] != "v1":
        raise MigConfigError(f"unknown version: {fields['version']}")
    for key in fields:
        if key not in ("version", "mig-configs"):
            raise MigConfigError(f"unexpected field: {key}")
    named = _mapping(fields.get("mig-configs"), "mig-configs")
    if not named:
        raise MigConfigError("at least one entry in 'mig-configs' is required")
    configs: dict[str, list[MigEntry]] = {}
    for name, entries in named.items():
        if not isinstance(entries, list) or not entries:
            raise MigConfigError(f"at least one entry in '{name}' is required")
        configs[str(name)] = [_entry(_mapping(entry, name)) for entry in cast("list[object]", entries)]
    return configs


def _entry(fields: Mapping[str, Any]) -> MigEntry:
    for required in ("devices", "mig-enabled"):
        if required not in fields:
            raise MigConfigError(f"missing required field: {required}")
    for key in fields:
        if key not in _FIELDS:
            raise MigConfigError(f"unexpected field: {key}")
    enabled = fields["mig-enabled"]
    if not isinstance(enabled, bool):
        raise MigConfigError(f"mig-enabled is not a boolean: {enabled!r}")
    devices = fields.get("mig-devices")
    layout = _layout(_mapping(devices, "mig-devices"))
    if enabled and devices is None:
        raise MigConfigError("missing required field 'mig-devices' when 'mig-enabled' is true")
    if not enabled and devices:
        raise MigConfigError("MIG devices included when 'mig-enabled' is false")
    return MigEntry(_devices(fields["devices"]), enabled, layout, _filter(fields.get("device-filter")))


def _devices(value: object) -> tuple[int, ...] | None:
    if value == "all":
        return None
    if isinstance(value, str):
        raise MigConfigError(f"invalid string input for 'devices': {value}")
    if not isinstance(value, list) or not all(type(index) is int for index in cast("list[object]", value)):
        raise MigConfigError(f"devices is neither 'all' nor a list of indices: {value!r}")
    return tuple(cast("list[int]", value))


def _filter(value: object) -> tuple[int, ...]:
    wanted = [value] if isinstance(value, str) else value
    if not wanted:
        return ()
    if not isinstance(wanted, list) or not all(isinstance(item, str) for item in cast("list[object]", wanted)):
        raise MigConfigError(f"device-filter is neither a string nor a list of strings: {value!r}")
    # mig-parted parses an invalid ID as 0, which matches no GPU.
    # A subsystem after ":" is not simulated.
    texts = [item.partition(":")[0] for item in cast("list[str]", wanted) if item]
    return tuple(int(text, 16) if _DEVICE_ID.fullmatch(text) else 0 for text in texts)


def _layout(devices: Mapping[str, Any]) -> MigLayout:
    """Parse `mig-devices` (pkg/types/mig_config.go, AssertValidFormat)."""
    for profile, count in devices.items():
        if not _PROFILE.fullmatch(str(profile)):
            raise MigConfigError(f"error validating values in 'mig-devices' field: invalid format for '{profile}'")
        if type(count) is not int or count < 0:
            raise MigConfigError(f"error validating values in 'mig-devices' field: invalid count for '{profile}'")
    if devices and not any(devices.values()):
        raise MigConfigError(
            "error validating values in 'mig-devices' field: all counts for all MigProfiles are 0"
        )
    return {str(profile): count for profile, count in devices.items() if count}


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MigConfigError(f"{what} is not a mapping")
    return cast("Mapping[str, Any]", value)


def generated_configs(table: MigTable) -> MigConfigs:
    """Return the configs that the manager generates from the hardware if the ClusterPolicy names no ConfigMap.

    They are `all-disabled`, `all-enabled`, `all-balanced` and an `all-<profile>` for each profile
    (pkg/mig/builder).
    """
    configs: dict[str, list[MigEntry]] = {
        "all-disabled": [MigEntry(None, False, {})],
        "all-enabled": [MigEntry(None, True, {})],
    }
    if balanced := _balanced(table):
        configs["all-balanced"] = [MigEntry(None, True, balanced)]
    for profile in table.profiles:
        name = "all-" + profile.name.replace("+", ".")
        configs[name] = [MigEntry(None, True, {profile.name: profile.instances})]
    return configs


def _balanced(table: MigTable) -> MigLayout | None:
    """Return mig-parted's balanced layout: 2 x 1g, 1 x 2g and, with seven slices, 1 x 3g (builder/balanced.go)."""
    wanted = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}.get(table.whole.compute_slices, {})
    layout: dict[str, int] = {}
    for slices, count in wanted.items():
        plain = [
            p for p in table.profiles if p.compute_slices == slices and "+" not in p.name and "-" not in p.name
        ]
        if not plain:
            return None
        layout[max(plain, key=lambda profile: profile.instances).name] = count
    return layout or None


# -- reconfiguration of the GPUs -----------------------------------------------------------------------------


def reconfigure(
    table: MigTable,
    current: GpuLayouts,
    configs: MigConfigs,
    selected: str,
    *,
    busy: bool,
    refused: str = "",
) -> MigOutcome:
    """Return the layouts of the GPUs after the config `selected` was applied.

    First, the manager sets the MIG mode of every GPU in the config. Then it creates the instances, GPU by GPU. If
    the driver refuses a layout, the reconfiguration ends, and this GPU remains in MIG mode without instances.
    `busy` simulates the fault `mig-config-failed`: a client uses the GPUs, so no instances are created. `refused`
    is the reason why no GPU can be changed, such as pods that use instances. The driver does not destroy instances
    in use. (The real driver first destroys idle instances of the same GPU. The simulator does not know which pod
    uses which instance, so all instances remain.)

    Source: pkg/mig/reconfigure/reconfigure.go;
    cmd/nvidia-mig-parted/{assert,apply}; pkg/mig/config/config.go.
    """
    if selected not in configs:
        return MigOutcome(current, "failed", f"selected mig-config not present: {selected}", at_once=True)
    steps = [
        (entry, index)
        for entry in configs[selected]
        for index in range(len(current))
        if entry.matches(index, table.device_id)
    ]
    if busy:
        emptied: GpuLayouts = tuple(None if layout is None else {} for layout in current)
        return MigOutcome(emptied, "failed", "error resetting all GPUs: in use by another client", at_once=False)
    if _applied(steps, current):
        return MigOutcome(current, "success", "already applied", at_once=True)
    if refused:
        return MigOutcome(current, "failed", refused, at_once=False)
    gpus = list(current)
    if not all(_mode_set(entry, gpus[index]) for entry, index in steps):
        for entry, index in steps:
            gpus[index] = {} if entry.enabled else None
    failure = _create_instances(table, steps, gpus)
    return MigOutcome(tuple(gpus), "failed" if failure else "success", failure or "applied", at_once=False)


def _create_instances(
    table: MigTable, steps: Sequence[tuple[MigEntry, int]], gpus: list[MigLayout | None]
) -> str | None:
    """Create the instances in `gpus` in place, step by step, and return the error of the first failed step."""
    for entry, index in steps:
        if entry.enabled and gpus[index] is None:
            return "unable to apply MIG config with MIG mode disabled"
        if not entry.enabled and gpus[index] is not None:
            return "MIG mode is currently enabled, but the configuration specifies it should be disabled"
        if not entry.enabled or gpus[index] == entry.layout:
            continue
        gpus[index] = {}
        if refusal := table.refusal(entry.layout):
            return f"error setting MIGConfig on GPU {index}: {refusal}"
        gpus[index] = entry.layout
    return None


def _applied(steps: Sequence[tuple[MigEntry, int]], gpus: GpuLayouts) -> bool:
    """Return whether the config covers every GPU, and every GPU matches the config (assert/config.go,
    assert/mode.go).
    """
    last = {index: entry for entry, index in steps}
    return (
        len(last) == len(gpus)
        and all(_mode_set(entry, gpus[index]) for entry, index in steps)
        and all((gpus[index] or {}) == entry.layout for index, entry in last.items())
    )


def _mode_set(entry: MigEntry, layout: MigLayout | None) -> bool:
    return entry.enabled == (layout is not None)
