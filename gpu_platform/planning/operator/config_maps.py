"""Plan the operator's ConfigMaps, which contain the configs for the device plugin and for mig-parted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_platform.catalog import Catalog
from gpu_platform.planning.config_maps import as_yaml
from gpu_platform.planning.operator.mig_parted import Fleet, config_entries, document
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.sharing.named import DEFAULT_KEY, ResolvedPool, concrete_sharing
from gpu_platform.planning.sharing.sharing import (
    WHOLE_GPU_CONFIG,
    device_plugin_config,
    layouts_of,
    named_key,
)
from gpu_platform.stack.sharing import Dra, Mig, Sharing


def device_plugin_data(
    named: Mapping[str, Sharing], pools: Sequence[PoolPlan], catalog: Catalog
) -> Mapping[str, str]:
    """Return the device plugin's configs by key.

    There is one config for each named sharing configuration and GPU model, one for each pool without a named
    sharing configuration, and a default config.
    """
    configs: dict[str, Mapping[str, Any]] = {DEFAULT_KEY: WHOLE_GPU_CONFIG}
    for name, declared in named.items():
        configs |= _named_configs(name, declared, pools, catalog)
    for pool in pools:
        sharing = pool.sharing
        if sharing.device_plugin_key is not None and sharing.device_plugin_config is not None:
            configs.setdefault(sharing.device_plugin_key, sharing.device_plugin_config)
    return {key: as_yaml(config) for key, config in configs.items()}


def _named_configs(
    name: str, declared: Sharing, pools: Sequence[PoolPlan], catalog: Catalog
) -> dict[str, Mapping[str, Any]]:
    """Return the device plugin's configs for a named sharing configuration by key. Only the GPU models of the
    pools are included.
    """
    found: dict[str, Sharing] = {}
    profiles: dict[str, set[str]] = {}
    for model in dict.fromkeys(pool.gpu_model for pool in pools):
        gpu = catalog.gpus[model]
        concrete = concrete_sharing(declared, gpu, catalog)
        if concrete is None or isinstance(concrete, Dra):
            continue
        key = named_key(name, declared, gpu)
        found.setdefault(key, concrete)
        if isinstance(concrete, Mig) and gpu.mig is not None:
            cut = {profile for entry in layouts_of(concrete) for profile in entry.layout}
            profiles.setdefault(key, set()).update(cut)
    return {key: device_plugin_config(one, sorted(profiles.get(key, ()))) for key, one in found.items()}


def mig_parted_data(
    named: Mapping[str, Sharing],
    pools: Sequence[PoolPlan],
    resolved_pools: Sequence[ResolvedPool],
    catalog: Catalog,
) -> Mapping[str, str]:
    """Return mig-parted's `config.yaml`, or an empty mapping if the operator partitions no MIG-capable GPU."""
    managed = [pool for pool in pools if pool.sharing.mig_config is not None]
    if not managed:
        return {}
    most: dict[str, int] = {}
    for pool in managed:
        most[pool.gpu_model] = max(pool.gpus_per_node, most.get(pool.gpu_model, 0))
    fleets = [Fleet(catalog.gpus[model], count) for model, count in most.items()]
    configs = {
        name: config_entries(declared, fleets, catalog)
        for name, declared in named.items()
        if isinstance(declared, Mig)
    }
    for pool, resolved in zip(pools, resolved_pools, strict=True):
        if pool.sharing.mig_config is not None and isinstance(resolved.declared, Mig):
            fleet = Fleet(catalog.gpus[pool.gpu_model], pool.gpus_per_node)
            configs[pool.sharing.mig_config] = config_entries(resolved.declared, [fleet], catalog)
    return {"config.yaml": as_yaml(document({name: found for name, found in configs.items() if found}))}
