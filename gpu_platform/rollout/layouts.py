"""mig-parted's configs as the operator has them: what a node has by its label; old and new ones in one file.

Names in a plan's config carry the hash of what they name (`planning/content.py`), so two files never disagree
about one of them, and nodes of the old layout and of the new can live beside each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import yaml

from gpu_platform.planning.config_maps import as_yaml
from gpu_platform.planning.mig.geometry import layout_text

CONFIG_KEY: Final = "config.yaml"
_CONFIGS: Final = "mig-configs"
_AGAIN: Final = "-again"

Configs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Entries by name of the config."""


def read_configs(text: str | None) -> Configs:
    """Return the configs of a file; none where it cannot be read: the MIG manager could not either."""
    try:
        document: object = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return {}
    configs: object = (
        cast("Mapping[str, object]", document).get(_CONFIGS) if isinstance(document, Mapping) else None
    )
    return cast("Configs", configs) if isinstance(configs, Mapping) else {}


def again(config: str) -> str:
    """Return the other name of a config: the MIG manager tries a config that failed only under another name."""
    return f"{config}{_AGAIN}"


def with_both(live: str | None, planned: Configs) -> str:
    """Return the live file with what it lacks of the planned configs, each under both of its names."""
    present = read_configs(live)
    twice = {**planned, **{again(name): entries for name, entries in planned.items()}}
    added = {name: entries for name, entries in twice.items() if name not in present}
    return as_yaml({"version": "v1", _CONFIGS: {**present, **added}}) if added or live is None else live


def same_layout(
    one: Sequence[Mapping[str, Any]] | None, other: Sequence[Mapping[str, Any]] | None, gpus: int
) -> bool:
    """Return whether two configs come to the same on a node with so many GPUs; an unknown one to nothing known."""
    if one is None or other is None:
        return False
    layouts = _by_gpu(one, gpus), _by_gpu(other, gpus)
    return one == other if None in layouts else layouts[0] == layouts[1]


def config_text(config: str, entries: Sequence[Mapping[str, Any]] | None, gpus: int) -> str:
    """Return what a config comes to, for people; its name where that is decided on the node."""
    layouts = _by_gpu(entries, gpus) if entries is not None else None
    if layouts is None:
        return f"config {config}"
    counted = Counter(layout_text(dict(layout)) if layout else "whole" for layout in layouts)
    return ", ".join(f"{count} GPU{'s' if count > 1 else ''}: {text}" for text, count in counted.items())


def _by_gpu(entries: Sequence[Mapping[str, Any]], gpus: int) -> tuple[tuple[tuple[str, int], ...], ...] | None:
    """Return the instances of each GPU; None where an entry filters by model, which only the node knows."""
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
