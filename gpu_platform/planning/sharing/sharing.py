"""Plan how pods request a pool's GPUs, with the device plugin's config, MIG layouts and extended resources.

Sources: NVIDIA k8s-device-plugin README (sharing, migStrategy), GPU Operator docs (time-slicing, MIG), mig-parted;
read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_platform.base import names
from gpu_platform.base.quantity import counted, parse_duration
from gpu_platform.catalog import Gpu, MachineType
from gpu_platform.planning.config_maps import pinned_name
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.json_form import plan_to_json
from gpu_platform.planning.mig.geometry import check_layout, layout_text
from gpu_platform.planning.nodes.software import Owner
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.sharing.named import ResolvedPool
from gpu_platform.planning.sharing.section import MigDevicesPlan, MigRollPlan, MpsShare, ResourceOffer, SharingPlan
from gpu_platform.stack.sharing import Dra, Mig, MigRoll, Mps, Sharing, TimeSlicing

WHOLE_GPU_CONFIG: Mapping[str, Any] = {"version": "v1", "flags": {"migStrategy": "none"}}


def plan_sharing(resolved: ResolvedPool, gpu: Gpu, device_plugin: Owner) -> SharingPlan:
    """Return how a pool with a valid sharing configuration offers its GPUs."""
    sharing = resolved.pool.sharing
    layouts = tuple(layouts_of(sharing)) if isinstance(sharing, Mig) else ()
    if device_plugin not in {"operator", "dra"}:
        return _shared_by_provider(resolved, layouts, device_plugin)
    replicated = sharing if isinstance(sharing, TimeSlicing | Mps | Mig) else None
    replicas = replicated.replicas if replicated else 1
    by_plugin = not isinstance(sharing, Dra)
    # Nodes change to a new layout one by one, so the old and the new layout need different names.
    cut = pinned_name(resolved.pool.name, plan_to_json(layouts)) if layouts else None
    # The config `all-disabled` disables MIG on GPUs that were partitioned before. DRA uses no MIG manager.
    whole = names.MIG_ALL_DISABLED if gpu.mig is not None and by_plugin else None
    return SharingPlan(
        mode=sharing.mode,
        name=resolved.name,
        source=resolved.sharing_path,
        replicas=replicas,
        renamed=replicated.rename if replicated and replicas > 1 else False,
        mps=_mps_share(sharing, gpu),
        mig_strategy=sharing.strategy if isinstance(sharing, Mig) else "none",
        mig_layouts=layouts,
        mig_change=sharing.change if isinstance(sharing, Mig) else None,
        mig_roll=_mig_roll(sharing) if gpu.mig is not None and by_plugin else None,
        device_plugin_key=(cut or device_plugin_key(resolved, gpu)) if by_plugin else None,
        device_plugin_config=device_plugin_config(sharing, _profiles(layouts)) if by_plugin else None,
        mig_config=cut or whole,
        partitions=sharing.partitions if isinstance(sharing, Dra) else False,
    )


def changes_label(sharing: SharingPlan, key: str) -> bool:
    """Return whether the planned sharing changes the value of a node label.

    Source: NVIDIA k8s-device-plugin, docs/gpu-feature-discovery/README.md, tables "MIG single" and "MIG mixed";
    the GPU Operator's MIG manager; read 2026-11-29.
    """
    found = {names.DEVICE_PLUGIN_CONFIG_LABEL, names.MIG_CONFIG_LABEL, names.MIG_STATE_LABEL}
    if sharing.replicas > 1:
        found |= {names.GPU_REPLICAS_LABEL, names.GPU_SHARING_STRATEGY_LABEL}
    if sharing.replicas > 1 and not sharing.renamed:
        found.add(names.GPU_PRODUCT_LABEL)
    if sharing.mig_strategy != "none":
        found.add(names.MIG_STRATEGY_LABEL)
    if sharing.mig_strategy == "single":
        found |= {names.GPU_PRODUCT_LABEL, names.GPU_COUNT_LABEL, names.GPU_MEMORY_LABEL, names.GPU_REPLICAS_LABEL}
    return key in found or key.startswith(names.MIG_RESOURCE_PREFIX)


def no_sharing(resolved: ResolvedPool) -> SharingPlan:
    """Return the sharing plan for a pool without GPUs. Its nodes offer no GPU resources and need no
    configuration.
    """
    return SharingPlan(
        mode="none",
        name=None,
        source=resolved.sharing_path,
        replicas=1,
        renamed=False,
        mps=None,
        mig_strategy="none",
        mig_layouts=(),
        mig_change=None,
        mig_roll=None,
        device_plugin_key=None,
        device_plugin_config=None,
        mig_config=None,
    )


def _mig_roll(sharing: Sharing) -> MigRollPlan:
    """Return the rules for changing the layout of nodes. For GPUs without MIG, return the defaults."""
    roll = sharing if isinstance(sharing, Mig) else MigRoll()
    return MigRollPlan(
        drains=not isinstance(sharing, Mig) or sharing.change == "drain",
        max_unavailable=roll.max_unavailable,
        drain_timeout_seconds=parse_duration(roll.drain_timeout),
    )


def device_plugin_key(resolved: ResolvedPool, gpu: Gpu) -> str:
    """Return the key of a pool's config in the device plugin's ConfigMap.

    It is the name of the pool's sharing configuration, with the GPU model if replicas depend on the model. If the
    configuration has no name, the key is the name of the pool.
    """
    if resolved.name is None:
        return resolved.pool.name
    return named_key(resolved.name, resolved.declared, gpu)


def named_key(name: str, declared: Sharing, gpu: Gpu) -> str:
    """Return the key of the device plugin's config for a named sharing configuration and a GPU model.

    The key contains the model if replicas depend on it, because the plugin does not support replicas by model.
    """
    by_model = isinstance(declared, TimeSlicing | Mps | Mig) and isinstance(declared.declared_replicas, dict)
    return f"{name}.{gpu.model}" if by_model else name


def device_plugin_config(sharing: Sharing, profiles: Iterable[str]) -> Mapping[str, Any]:
    """Return the device plugin's config for a resolved sharing configuration.

    `profiles` are the profiles of its MIG instances.
    """
    strategy = sharing.strategy if isinstance(sharing, Mig) else "none"
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": strategy}}
    if not isinstance(sharing, TimeSlicing | Mps | Mig) or sharing.replicas == 1:
        return config
    resources = [names.GPU_RESOURCE]
    if isinstance(sharing, Mig) and strategy == "mixed":
        resources = [names.mig_resource(profile) for profile in profiles]
    config["sharing"] = {
        "mps" if isinstance(sharing, Mps) else "timeSlicing": {
            "renameByDefault": sharing.rename,
            "failRequestsGreaterThanOne": sharing.fail_requests_greater_than_one,
            "resources": [{"name": name, "replicas": sharing.replicas} for name in resources],
        }
    }
    return config


def _profiles(layouts: Iterable[MigDevicesPlan]) -> list[str]:
    return sorted({profile for entry in layouts for profile in entry.layout})


def _mps_share(sharing: Sharing, gpu: Gpu) -> MpsShare | None:
    """Return the limits that the MPS daemon sets for each replica (k8s-device-plugin 0.20.0,
    cmd/mps-control-daemon/mps).
    """
    if not isinstance(sharing, Mps):
        return None
    return MpsShare(memory_mib=gpu.memory_mib // sharing.replicas, threads_percent=100 // sharing.replicas)


def sharing_decisions(pool: str, sharing: SharingPlan, resolved: ResolvedPool) -> Iterator[Decision]:
    """Yield decisions about a pool's sharing, such as its name, the size of an MPS share, and the MIG layout for
    the GPU model.
    """
    if resolved.name is not None:
        yield Decision(
            subject=f"pool {pool}",
            what="sharing",
            chosen=f"{sharing.mode}, under the name {resolved.name}",
            why=f"the node label {names.DEVICE_PLUGIN_CONFIG_LABEL} can select another configuration for a node",
        )
    if sharing.mps is not None:
        yield Decision(
            subject=f"pool {pool}",
            what="MPS share",
            chosen=f"{sharing.mps.memory_mib} MiB and {sharing.mps.threads_percent} % of the threads",
            why=f"each of {sharing.replicas} replicas has an equal part of a GPU; a pod gets one replica",
        )
    for entry in sharing.mig_layouts if _depends_on_model(resolved.declared) else ():
        where = (
            "every GPU" if entry.devices is None else "GPUs " + ", ".join(str(device) for device in entry.devices)
        )
        yield Decision(
            subject=f"pool {pool}",
            what="MIG layout",
            chosen=f"{layout_text(entry.layout)} on {where}",
            why="mig-parted's layout with that name for this GPU model",
        )


def _depends_on_model(declared: Sharing) -> bool:
    """Return whether the instances of a declared MIG layout depend on the GPU model."""
    if not isinstance(declared, Mig):
        return False
    layouts = [declared.declared_layout, *(entry.declared_layout for entry in declared.layouts or ())]
    return any(isinstance(layout, str) for layout in layouts)


def _shared_by_provider(
    resolved: ResolvedPool, layouts: tuple[MigDevicesPlan, ...], device_plugin: Owner
) -> SharingPlan:
    """Return the plan for GPUs that the image's or GKE's device plugin offers.

    Their sharing is set on the node pool instead of in a ConfigMap.
    """
    sharing = resolved.pool.sharing
    replicated = sharing if isinstance(sharing, TimeSlicing | Mps) else None
    return SharingPlan(
        mode=sharing.mode,
        name=resolved.name,
        source=resolved.sharing_path,
        replicas=replicated.replicas if replicated else 1,
        # GKE uses the same resource name for whole and shared GPUs.
        renamed=replicated.rename if replicated and device_plugin == "image" else False,
        mps=None,
        # The plugins of the image and of GKE support one profile, and offer its instances as nvidia.com/gpu.
        mig_strategy="single" if layouts else "none",
        mig_layouts=layouts,
        # The layout is a property of the node pool, so only new nodes get a new layout.
        mig_change="replace" if layouts else None,
        mig_roll=None,
        device_plugin_key=None,
        device_plugin_config=None,
        mig_config=None,
    )


def layouts_of(sharing: Mig) -> Iterator[MigDevicesPlan]:
    """Yield the MIG layouts of a pool's sharing."""
    if sharing.layout is not None:
        yield MigDevicesPlan(devices=None, layout=sharing.layout)
    for entry in sharing.layouts or ():
        devices = None if entry.devices is None else tuple(sorted(entry.devices))
        yield MigDevicesPlan(devices=devices, layout=entry.layout)


def layout_of_gpu(sharing: SharingPlan, index: int) -> Mapping[str, int]:
    """Return the MIG instances of one GPU of the node, or an empty mapping if MIG is off on the GPU."""
    for entry in sharing.mig_layouts:
        if entry.devices is None or index in entry.devices:
            return entry.layout
    return {}


def units_of_gpu(sharing: SharingPlan, index: int) -> Mapping[str, int]:
    """Return the units that one GPU of the node offers, by extended resource."""
    if sharing.mode != "mig":
        name = names.SHARED_GPU_RESOURCE if sharing.renamed else names.GPU_RESOURCE
        return {name: sharing.replicas}
    layout = layout_of_gpu(sharing, index)
    if not layout:
        return {names.GPU_RESOURCE: 1}
    return {_instance_resource(sharing, profile): count * sharing.replicas for profile, count in layout.items()}


def _instance_resource(sharing: SharingPlan, profile: str) -> str:
    name = names.GPU_RESOURCE if sharing.mig_strategy == "single" else names.mig_resource(profile)
    return name + (names.SHARED_SUFFIX if sharing.renamed else "")


def offered_resources(sharing: SharingPlan, gpu: Gpu, gpus: int) -> tuple[ResourceOffer, ...]:
    """Return the extended resources that one node with `gpus` GPUs advertises."""
    if sharing.mode != "mig" or gpu.mig is None:
        name = names.SHARED_GPU_RESOURCE if sharing.renamed else names.GPU_RESOURCE
        return (ResourceOffer(name=name, per_node=gpus * sharing.replicas, gpus=gpus),)
    units: dict[str, int] = {}
    physical: dict[str, float] = {}
    sizes = {profile.name: profile.memory_slices for profile in gpu.mig.profiles}
    for index in range(gpus):
        layout = layout_of_gpu(sharing, index)
        # Pods cannot use the part of a GPU that a layout leaves free.
        whole = sum(sizes[profile] * count for profile, count in layout.items())
        for profile, count in layout.items():
            name = _instance_resource(sharing, profile)
            units[name] = units.get(name, 0) + count * sharing.replicas
            physical[name] = physical.get(name, 0.0) + sizes[profile] * count / whole
        if not layout:
            units[names.GPU_RESOURCE] = units.get(names.GPU_RESOURCE, 0) + 1
            physical[names.GPU_RESOURCE] = physical.get(names.GPU_RESOURCE, 0.0) + 1
    return tuple(ResourceOffer(name=name, per_node=n, gpus=physical[name]) for name, n in units.items())


def check_sharing(resolved: ResolvedPool, machine: MachineType, gpu: Gpu, problems: Problems) -> None:
    """Record problems with a pool's resolved sharing configuration on its GPU. `problems` points to the file's
    root.
    """
    sharing = resolved.pool.sharing
    here = Problems(resolved.sharing_path, problems.found)
    match sharing:
        case Mig():
            _check_mig(resolved, sharing, machine, gpu, here)
        case Mps():
            _check_mps(sharing, gpu, here)
        case _:
            pass


def mps_clients(gpu: Gpu) -> int:
    """Return the maximum number of MPS clients per GPU: 16 below compute capability 7.5, otherwise 48.

    The MPS control daemon sets these limits. It treats Volta (7.0) like earlier architectures. Source:
    k8s-device-plugin 0.20.0, cmd/mps-control-daemon/mps.
    """
    major, minor = (int(part) for part in gpu.compute_capability.split("."))
    return 48 if (major, minor) >= (7, 5) else 16


def _check_mps(sharing: Mps, gpu: Gpu, here: Problems) -> None:
    most = mps_clients(gpu)
    if sharing.replicas > most:
        here.at("replicas").add(
            f"{sharing.replicas} on {gpu.product}",
            f"at most {most}, the limit of MPS clients with compute capability {gpu.compute_capability}",
            f"write replicas: {most} or fewer",
        )


def _check_mig(resolved: ResolvedPool, sharing: Mig, machine: MachineType, gpu: Gpu, here: Problems) -> None:
    if gpu.mig is None:
        found = check_layout(gpu, {})
        if found is not None:
            here.at("mode").add(f"'mig' on {gpu.product} ({machine.name})", found.allowed, found.fix)
        return
    taken: dict[int, int] = {}
    everywhere: int | None = None
    for index, entry in zip(resolved.layout_places, layouts_of(sharing), strict=True):
        at_entry = here if index is None else here.at("layouts").at(f"[{index}]")
        illegal = check_layout(gpu, entry.layout)
        if illegal is not None:
            at_entry.at("layout").add(illegal.found, illegal.allowed, illegal.fix)
        if index is None:
            continue
        where = at_entry.at("devices")
        if everywhere is not None or (entry.devices is None and taken):
            other = everywhere if everywhere is not None else next(iter(taken.values()))
            (where if entry.devices else at_entry).add(
                f"{gpu.product} again",
                f"each GPU once (layouts[{other}] has {'all of them' if everywhere is not None else 'some'})",
                "set devices in both layouts, or remove one of the layouts",
            )
        if entry.devices is None:
            everywhere = index
        for device in entry.devices or ():
            if device >= machine.gpu_count:
                where.add(
                    f"GPU {device}",
                    f"0 to {machine.gpu_count - 1}: {machine.name} has {counted(machine.gpu_count, 'GPU')}",
                    "use an index that the machine type has",
                )
            elif device in taken:
                where.add(
                    f"GPU {device} again",
                    f"each GPU only once (it is already in layouts[{taken[device]}])",
                    "name it once",
                )
            taken.setdefault(device, index)
    _check_single(sharing, machine, here)


def _check_single(sharing: Mig, machine: MachineType, here: Problems) -> None:
    if sharing.strategy != "single":
        return
    entries = list(layouts_of(sharing))
    layouts = [entry.layout for entry in entries]
    covered = sum(machine.gpu_count if entry.devices is None else len(entry.devices) for entry in entries)
    profiles = sorted({profile for layout in layouts for profile in layout})
    if len(profiles) > 1 or any(layout != layouts[0] for layout in layouts) or covered < machine.gpu_count:
        here.at("strategy").add(
            f"'single' with {', '.join(profiles)} on {covered} of {counted(machine.gpu_count, 'GPU')}",
            "single if every GPU of the node has the same number of instances of one profile, otherwise mixed",
            "write strategy: mixed, or one uniform layout",
        )
