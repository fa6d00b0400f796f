"""GPU resources and maximum number of nodes of a stack's pools, derived only from the stack's resources."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_platform.base import names
from policies._gpu_operator import device_plugin_config_of, mig_instances_of, mig_strategy_of
from policies._node_pool import NodePool
from policies._stack import Stack


def units_per_node(stack: Stack, pool: NodePool) -> Mapping[str, int]:
    """Return how many of each GPU resource the device plugin advertises on a node of a pool.

    If machine types or GPU models differ, the maximum of each resource is returned. Raises NotVisible.
    """
    gpus = pool.gpus_per_node
    units: dict[str, int] = {}
    for instances in mig_instances_of(stack, pool):
        if instances and mig_strategy_of(stack, pool)[0] == "mixed":
            found = {names.mig_resource(profile): count * gpus for profile, count in instances.items()}
        else:
            found = {names.GPU_RESOURCE: gpus * (sum(instances.values()) if instances else 1)}
        units = {name: max(units.get(name, 0), found.get(name, 0)) for name in {**units, **found}}
    config = device_plugin_config_of(stack, pool)
    for sharing in config.sharing if config is not None else ():
        for resource, replicas in sharing.resources:
            count = units.pop(resource, None)
            if count is not None:
                units[resource + names.SHARED_SUFFIX if sharing.renamed else resource] = count * (
                    replicas.whole() or 1
                )
    return units


def shares(stack: Stack, pool: NodePool) -> Mapping[str, bool]:
    """Return the resources of a pool's nodes that are GPU shares, and whether each is renamed to `<name>.shared`.

    Raises NotVisible.
    """
    config = device_plugin_config_of(stack, pool)
    return {
        resource + names.SHARED_SUFFIX if sharing.renamed else resource: sharing.renamed
        for sharing in (config.sharing if config is not None else ())
        for resource, _ in sharing.resources
    }
