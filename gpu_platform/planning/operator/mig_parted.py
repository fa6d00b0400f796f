"""Create mig-parted's config, which lists the MIG instances by config name, device index and GPU model.

Source: NVIDIA/mig-parted v0.15.0, api/spec/v1 and pkg/mig/config; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, Gpu
from gpu_platform.planning.mig import check_layout
from gpu_platform.planning.sharing.named import concrete_sharing
from gpu_platform.planning.sharing.sharing import layouts_of
from gpu_platform.stack.sharing import Mig

Entry = dict[str, Any]


class Fleet(NamedTuple):
    """A GPU model, and the maximum number of such GPUs in a node."""

    gpu: Gpu
    per_node: int


def config_entries(declared: Mig, fleets: Sequence[Fleet], catalog: Catalog) -> list[Entry]:
    """Return the entries of a named config for every GPU model that supports it.

    Every GPU of a node appears once. Entries that differ by model, or that the stack file declares for one model,
    have a device-filter. A model that does not support the config has no entry, and mig-parted then fails on its
    nodes.
    """
    by_model = {fleet.gpu.model: found for fleet in fleets if (found := _of_model(declared, fleet, catalog))}
    has_models = any(entry.gpu is not None for entry in declared.layouts or ())
    forms = list(by_model.values())
    if not forms:
        return []
    if not has_models and all(form == forms[0] for form in forms):
        return forms[0]
    filtered: list[Entry] = []
    for form in _distinct(forms):
        alike = [fleet.gpu for fleet in fleets if by_model.get(fleet.gpu.model) == form]
        ids = sorted({gpu.pci_id for gpu in alike if gpu.pci_id is not None})
        filtered += [{"device-filter": list(ids), **entry} for entry in form]
    return filtered


def _distinct(forms: Sequence[list[Entry]]) -> list[list[Entry]]:
    found: list[list[Entry]] = []
    for form in forms:
        if form not in found:
            found.append(form)
    return found


def _of_model(declared: Mig, fleet: Fleet, catalog: Catalog) -> list[Entry]:
    """Return the entries for the GPUs of one model.

    There are no entries if the model does not support MIG or the declared layout.
    """
    sharing = concrete_sharing(declared, fleet.gpu, catalog) if fleet.gpu.mig is not None else None
    if not isinstance(sharing, Mig):
        return []
    entries: list[Entry] = []
    covered: set[int] = set()
    for entry in layouts_of(sharing):
        if check_layout(fleet.gpu, entry.layout) is not None:
            return []
        devices = "all" if entry.devices is None else list(entry.devices)
        covered |= set(range(fleet.per_node)) if entry.devices is None else set(entry.devices)
        entries.append({"devices": devices, "mig-enabled": True, "mig-devices": dict(entry.layout)})
    rest = [index for index in range(fleet.per_node) if index not in covered]
    if rest:
        entries.append({"devices": rest, "mig-enabled": False, "mig-devices": {}})
    return entries


def document(configs: Mapping[str, list[Entry]]) -> Mapping[str, Any]:
    """Return the config file. Its config `all-disabled` disables MIG on GPUs that were partitioned before."""
    disabled: list[Entry] = [{"devices": "all", "mig-enabled": False}]
    return {"version": "v1", "mig-configs": {names.MIG_ALL_DISABLED: disabled, **configs}}
