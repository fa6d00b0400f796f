"""Resolve the sharing configuration of each pool before other decisions. A pool may refer to a configuration by
name.

A named configuration is written once and may have different values for each GPU model. If some nodes of a pool use
another configuration, the pool is planned as several pools, so that quotas, expectations and scheduling are right
for each group of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.errors import did_you_mean
from gpu_platform.catalog import Catalog, Gpu
from gpu_platform.planning.clouds.protocol import Cloud
from gpu_platform.planning.context import Context
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Count, ExistingNodes, NodeSharing, Pool
from gpu_platform.stack.sharing import Mig, MigDevices, Mps, NoSharing, Sharing, TimeSlicing

DEFAULT_KEY: Final = "default"
RESERVED_KEYS: Final = {DEFAULT_KEY: "for nodes without a pool", names.MIG_ALL_DISABLED: "that disables MIG"}
"""Config names that the program uses in the files of the device plugin and of mig-parted. The names of sharing
configurations are also config names there, so no sharing configuration may have one of these names.
"""


def reserved_key(name: str) -> tuple[str, str, str]:
    """Return the three strings of a problem for a reserved name: the name, the allowed values, and the fix."""
    reserved = " and ".join(f"{key!r}, the config {what}" for key, what in RESERVED_KEYS.items())
    return repr(name), f"any name except {reserved}", "rename it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPool:
    """A pool as it is planned, with a sharing configuration that contains no names or GPU models.

    `index` and `path` are the pool's index and path in the stack file. `declared` is the configuration in the
    file, at `sharing_path`, and `name` is its name, if any. `nodes` are the names of the nodes in the file.
    `sound` is false if the configuration could not be resolved. In that case a problem has been recorded, and the
    GPUs are planned as whole GPUs. `layout_places` contains, for each MIG layout of the resolved configuration,
    its index in the file's `layouts`, or None for `layout`.
    """

    index: int = 0
    path: str
    pool: Pool
    declared: Sharing
    sharing_path: str
    name: str | None = None
    nodes: tuple[str, ...] | None = None
    sound: bool = True
    layout_places: tuple[int | None, ...] = (None,)


def plan(context: Context) -> tuple[ResolvedPool, ...]:
    """Return the pools with resolved sharing configurations. Record problems with unknown names, GPU models and
    nodes.
    """
    _check_names(context.pools, context.sharing, context.catalog, context.problems)
    resolved_pools: list[ResolvedPool] = []
    for index, pool in context.pools:
        parts = _by_node(pool, context.cloud, context.sharing, context.at(f"pools[{index}]"))
        for part, name, nodes in parts:
            resolved_pools.append(_concrete_pool(context, part, index, name, nodes))
    return tuple(resolved_pools)


def _check_names(
    pools: Sequence[tuple[int, Pool]], named: Mapping[str, Sharing], catalog: Catalog, problems: Problems
) -> None:
    for name, sharing in named.items():
        here = problems.at("sharing").at(name)
        if name in RESERVED_KEYS:
            here.add(*reserved_key(name))
        _check_models(sharing, here, catalog)
    for index, pool in pools:
        here = problems.at(f"pools[{index}]")
        if pool.name in named:
            here.at("name").add(
                f"{pool.name!r}, which is also a name in sharing",
                "different names, because both are keys of the device plugin's config",
                "rename one of them",
            )
        if not isinstance(pool.declared_sharing, str):
            _check_models(pool.declared_sharing, here.at("sharing"), catalog)


def _check_models(sharing: Sharing, here: Problems, catalog: Catalog) -> None:
    """Record a problem for each unknown GPU model."""
    if isinstance(sharing, TimeSlicing | Mps | Mig) and isinstance(sharing.declared_replicas, dict):
        for spelling in sharing.declared_replicas:
            _check_model(spelling, here.at("replicas").at(spelling), catalog)
    for index, entry in enumerate((sharing.layouts or ()) if isinstance(sharing, Mig) else ()):
        if entry.gpu is None:
            continue
        place = here.at("layouts").at(f"[{index}]").at("gpu")
        gpu = _check_model(entry.gpu, place, catalog)
        if gpu is not None and gpu.pci_id is None:
            place.add(
                f"{entry.gpu!r}, whose PCI device id is not known",
                "a GPU that a device-filter can name: " + ", ".join(_filterable(catalog)),
                "remove gpu, and set devices instead",
            )


def _check_model(spelling: str, here: Problems, catalog: Catalog) -> Gpu | None:
    gpu = catalog.find_gpu(spelling)
    if gpu is None:
        known = [one.model for one in catalog.gpus.values()]
        fix = did_you_mean(spelling, known) or "use the common name, or spell it as NVML does"
        here.add(f"GPU model {spelling!r}", f"one of the {len(known)} GPU models in the catalogue", fix)
    return gpu


def _filterable(catalog: Catalog) -> Iterator[str]:
    return (gpu.model for gpu in catalog.gpus.values() if gpu.mig is not None and gpu.pci_id is not None)


# -- by node ----------------------------------------------------------------------------------------------


def _by_node(
    pool: Pool, cloud: Cloud | None, named: Mapping[str, Sharing], here: Problems
) -> Iterator[tuple[Pool, str | None, tuple[str, ...] | None]]:
    """Yield one pool for the nodes that keep the pool's sharing configuration, and one pool for each other
    configuration that the pool names for some of its nodes.
    """
    own = pool.declared_sharing if isinstance(pool.declared_sharing, str) else None
    names = cloud.pools.names(pool) if cloud is not None else None
    if not pool.per_node or cloud is None:
        yield pool, own, names
        return
    if names is None:
        here.at("per_node").add(
            f"per_node on provider {cloud.cluster.provider}"
            + (" with a selector" if pool.nodes is not None else ""),
            "per_node only if the stack file names the nodes: in the sandbox, or with nodes.names",
            "create a separate pool for each sharing configuration",
        )
        yield pool, own, names
        return
    moved = _moved(pool.per_node, names, named, here.at("per_node"))
    rest = tuple(node for node in names if node not in moved)
    yield _part(pool, pool.name, rest), own, rest
    for sharing in dict.fromkeys(moved.values()):
        nodes = tuple(node for node in names if moved.get(node) == sharing)
        part = _part(pool, f"{pool.name}-{sharing}", nodes)
        yield part.model_copy(update={"declared_sharing": sharing}), sharing, nodes


def _moved(
    entries: Sequence[NodeSharing], nodes: Sequence[str], named: Mapping[str, Sharing], here: Problems
) -> dict[str, str]:
    """Return the name of the sharing configuration for each node that does not use the pool's own
    configuration.
    """
    moved: dict[str, str] = {}
    for index, entry in enumerate(entries):
        place = here.at(f"[{index}]")
        if entry.sharing not in named:
            place.at("sharing").add(f"{entry.sharing!r}", _names_text(named), _name_fix(entry.sharing, named))
            continue
        for number, node in enumerate(entry.nodes):
            at_node = place.at("nodes").at(f"[{number}]")
            if node not in nodes:
                fix = did_you_mean(node, nodes) or "name a node of this pool"
                at_node.add(f"{node!r}", "a node of this pool: " + (", ".join(nodes) or "it has none"), fix)
            elif node in moved:
                at_node.add(f"{node!r} again", "each node in only one entry", "name it once")
            else:
                moved[node] = entry.sharing
    return moved


def _part(pool: Pool, name: str, nodes: tuple[str, ...]) -> Pool:
    """Return the pool reduced to some of its nodes.

    The number of nodes is fixed, because nodes that are named in the stack file have no autoscaler.
    """
    # Copy the names of the fields that the stack file sets.
    # A later check refuses `min` only if the file sets it.
    count = Count.model_construct(pool.count.model_fields_set, min=0, desired=len(nodes), max=len(nodes))
    existing = pool.nodes and ExistingNodes.model_construct(names=nodes, selector=None)
    return pool.model_copy(update={"name": name, "count": count, "nodes": existing, "per_node": ()})


# -- by name and by GPU model -----------------------------------------------------------------------------


def _concrete_pool(
    context: Context, pool: Pool, index: int, name: str | None, nodes: tuple[str, ...] | None
) -> ResolvedPool:
    path, named, catalog = f"pools[{index}]", context.sharing, context.catalog
    if name is not None and name not in named:
        context.at(path).at("sharing").add(f"{name!r}", _names_text(named), _name_fix(name, named))
    declared = named.get(name, NoSharing()) if name is not None else pool.sharing
    sharing_path = f"sharing.{name}" if name is not None else f"{path}.sharing"
    machine = catalog.machine_types.get(pool.machine_type)
    concrete: Sharing | None = None
    gpu = catalog.gpu_of(machine) if machine is not None and machine.has_gpus else None
    if gpu is not None:
        concrete = concrete_sharing(declared, gpu, catalog, context.at(sharing_path), pool.name)
    elif machine is not None and isinstance(declared, NoSharing):
        concrete = declared
    return ResolvedPool(
        index=index,
        path=path,
        pool=pool.model_copy(update={"declared_sharing": concrete or NoSharing()}),
        declared=declared,
        sharing_path=sharing_path,
        name=name if name in named else None,
        nodes=nodes,
        sound=concrete is not None and (name is None or name in named),
        layout_places=_layout_places(declared, gpu, catalog),
    )


def _layout_places(declared: Sharing, gpu: Gpu | None, catalog: Catalog) -> tuple[int | None, ...]:
    if not isinstance(declared, Mig) or declared.layouts is None:
        return (None,)
    return tuple(index for index, entry in enumerate(declared.layouts) if _is_for(entry, gpu, catalog))


def _is_for(entry: MigDevices, gpu: Gpu | None, catalog: Catalog) -> bool:
    return entry.gpu is None or catalog.find_gpu(entry.gpu) == gpu


def _names_text(named: Mapping[str, Sharing]) -> str:
    return "a name in the environment's sharing: " + (", ".join(named) or "there is none")


def _name_fix(name: str, named: Mapping[str, Sharing]) -> str:
    if close := did_you_mean(name, named):
        return close
    modes = {"none": "{mode: none}", "time-slicing": "{mode: time-slicing, replicas: 4}", "dra": "{mode: dra}"}
    return f"write sharing: {modes[name]}" if name in modes else f"add sharing: {{{name}: ...}} next to pools"


def concrete_sharing(
    sharing: Sharing, gpu: Gpu, catalog: Catalog, here: Problems | None = None, pool: str = ""
) -> Sharing | None:
    """Return a sharing configuration with its values for one GPU model.

    If the configuration has no value for the model, record a problem at `here` and return None.
    """
    match sharing:
        case TimeSlicing() | Mps():
            replicas = _replicas(sharing.declared_replicas, gpu, catalog, here, pool)
            return None if replicas is None else sharing.model_copy(update={"declared_replicas": replicas})
        case Mig():
            return _concrete_mig(sharing, gpu, catalog, here, pool)
        case _:
            return sharing


def _replicas(
    declared: int | Mapping[str, int], gpu: Gpu, catalog: Catalog, here: Problems | None, pool: str
) -> int | None:
    if isinstance(declared, int):
        return declared
    for spelling, count in declared.items():
        if catalog.find_gpu(spelling) == gpu:
            return count
    if here is not None:
        here.at("replicas").add(
            f"none for {gpu.product} of pool {pool}",
            "a number for every GPU model that uses this configuration (declared: " + ", ".join(declared) + ")",
            f"add {gpu.model}: 4",
        )
    return None


def _concrete_mig(sharing: Mig, gpu: Gpu, catalog: Catalog, here: Problems | None, pool: str) -> Sharing | None:
    replicas: int | None = None
    if sharing.declared_replicas is not None:
        replicas = _replicas(sharing.declared_replicas, gpu, catalog, here, pool)
        if replicas is None:
            return None
    layout: Mapping[str, int] | None = None
    layouts: tuple[MigDevices, ...] | None = None
    if sharing.declared_layout is not None:
        layout = _layout(sharing.declared_layout, gpu, here and here.at("layout"))
        if layout is None:
            return None
    if sharing.layouts is not None:
        found = _concrete_layouts(sharing.layouts, gpu, catalog, here, pool)
        if found is None:
            return None
        layouts = found
    return sharing.model_copy(
        update={"declared_layout": layout, "layouts": layouts, "declared_replicas": replicas}
    )


def _concrete_layouts(
    entries: Sequence[MigDevices], gpu: Gpu, catalog: Catalog, here: Problems | None, pool: str
) -> tuple[MigDevices, ...] | None:
    found: list[MigDevices] = []
    for index, entry in enumerate(entries):
        if not _is_for(entry, gpu, catalog):
            continue
        place = here and here.at("layouts").at(f"[{index}]").at("layout")
        layout = _layout(entry.declared_layout, gpu, place)
        if layout is None:
            return None
        found.append(entry.model_copy(update={"declared_layout": layout}))
    if not found and here is not None:
        here.at("layouts").add(
            f"none for {gpu.product} of pool {pool}",
            "a layout for every GPU model that uses this configuration",
            f"add {{gpu: {gpu.model}, layout: all-balanced}}",
        )
    return tuple(found) or None


def _layout(declared: str | Mapping[str, int], gpu: Gpu, here: Problems | None) -> Mapping[str, int] | None:
    if not isinstance(declared, str):
        return declared
    if gpu.mig is None:
        return {}  # `check_sharing` records a problem for a GPU without MIG
    layout = gpu.mig.named_layout(declared)
    if layout is None and here is not None:
        names = [f"all-{profile.name}" for profile in gpu.mig.profiles]
        names += ["all-balanced"] if gpu.mig.balanced else []
        here.add(
            f"{declared!r} on {gpu.product}",
            "one of " + ", ".join(names),
            did_you_mean(declared, names) or "write a count for each profile",
        )
    return layout
