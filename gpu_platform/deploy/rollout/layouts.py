"""Reads, compares and merges mig-parted config files. The MIG manager looks up the layout of a node in such a
file.

The name of a config in a plan contains a hash of its content (`planning/config_maps.py`). One file can therefore
contain the old and the new configs while some nodes still have the old layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import yaml

from gpu_platform.base.quantity import counted
from gpu_platform.planning.config_maps import as_yaml
from gpu_platform.planning.mig.geometry import layout_text

CONFIG_KEY: Final = "config.yaml"
_CONFIGS: Final = "mig-configs"
_RETRY_SUFFIX: Final = "-again"

Configs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Entries of a mig-parted config file, by config name."""


def read_configs(text: str | None) -> Configs:
    """Return the configs of a file, or none if the file is invalid. The MIG manager cannot read an invalid file
    either.
    """
    try:
        document: object = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return {}
    configs: object = (
        cast("Mapping[str, object]", document).get(_CONFIGS) if isinstance(document, Mapping) else None
    )
    return cast("Configs", configs) if isinstance(configs, Mapping) else {}


def retry_name(config: str) -> str:
    """Return the second name of a config. The second name is needed for a retry, because the MIG manager retries a
    failed config only under another name.
    """
    return f"{config}{_RETRY_SUFFIX}"


def with_both(live: str | None, planned: Configs) -> str:
    """Return the live file with the planned configs added, each under its two names."""
    present = read_configs(live)
    twice = {**planned, **{retry_name(name): entries for name, entries in planned.items()}}
    added = {name: entries for name, entries in twice.items() if name not in present}
    return as_yaml({"version": "v1", _CONFIGS: {**present, **added}}) if added or live is None else live


def same_layout(
    one: Sequence[Mapping[str, Any]] | None, other: Sequence[Mapping[str, Any]] | None, gpus: int
) -> bool:
    """Return whether two configs give the same layout on a node with `gpus` GPUs. The result is false if a config
    is unknown.
    """
    if one is None or other is None:
        return False
    layouts = _by_gpu(one, gpus), _by_gpu(other, gpus)
    return one == other if None in layouts else layouts[0] == layouts[1]


def config_text(config: str, entries: Sequence[Mapping[str, Any]] | None, gpus: int) -> str:
    """Describe the layout of a config, or return the config's name if the layout depends on the node."""
    layouts = _by_gpu(entries, gpus) if entries is not None else None
    if layouts is None:
        return f"config {config}"
    found = Counter(layout_text(dict(layout)) if layout else "MIG disabled" for layout in layouts)
    return ", ".join(f"{counted(count, 'GPU')}: {text}" for text, count in found.items())


def _by_gpu(entries: Sequence[Mapping[str, Any]], gpus: int) -> tuple[tuple[tuple[str, int], ...], ...] | None:
    """Return the instances of each GPU, or None if an entry filters by GPU model.

    The GPU model is known only on the node.
    """
    layouts: list[tuple[tuple[str, int], ...]] = [()] * gpus
    for entry in entries:
        if entry.get("device-filter"):
            return None
        devices: Any = entry.get("devices")
        layout: Mapping[str, int] = entry.get("mig-devices") or {}
        for index in range(gpus) if devices == "all" else devices or ():
            if index < gpus:
                layouts[index] = tuple(sorted(layout.items()))
    return tuple(layouts)
