"""How a pool's GPUs are offered: device-plugin config, MIG layouts, and the resources that follow.

Sources: NVIDIA k8s-device-plugin README (sharing, migStrategy), GPU Operator docs (time-slicing, MIG),
mig-parted; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_platform import names
from gpu_platform.catalog import Gpu, MachineType
from gpu_platform.planning.mig import check_layout
from gpu_platform.planning.plan import MigDevicesPlan, ResourceOffer, SharingPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.software import Owner
from gpu_platform.spec.pool import Dra, Mig, Mps, Pool, Sharing, TimeSlicing

DEFAULT_KEY = "default"  # key of the device-plugin config for nodes of no pool
WHOLE_GPU_CONFIG: Mapping[str, Any] = {"version": "v1", "flags": {"migStrategy": "none"}}


def plan_sharing(pool: Pool, gpu: Gpu, device_plugin: Owner) -> SharingPlan:
    """Return how a pool with legal sharing offers its GPUs."""
    sharing = pool.sharing
    layouts = tuple(_layouts(sharing)) if isinstance(sharing, Mig) else ()
    if device_plugin != "operator":
        return _shared_by_provider(sharing, layouts, device_plugin)
    strategy = sharing.strategy if isinstance(sharing, Mig) else "none"
    replicated = sharing if isinstance(sharing, TimeSlicing | Mps) else None
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": strategy}}
    if replicated is not None:
        config["sharing"] = {
            "timeSlicing" if replicated.mode == "time-slicing" else "mps": {
                "renameByDefault": replicated.rename,
                "failRequestsGreaterThanOne": replicated.fail_requests_greater_than_one,
                "resources": [{"name": names.GPU_RESOURCE, "replicas": replicated.replicas}],
            }
        }
    # A GPU that was cut before must be made whole again.
    whole = names.MIG_ALL_DISABLED if gpu.mig is not None else None
    return SharingPlan(
        mode=sharing.mode,
        replicas=replicated.replicas if replicated else 1,
        renamed=replicated.rename if replicated else False,
        mig_strategy=strategy,
        mig_layouts=layouts,
        mig_change=sharing.change if isinstance(sharing, Mig) else None,
        device_plugin_key=pool.name,
        device_plugin_config=config,
        mig_config=pool.name if layouts else whole,
    )


def _shared_by_provider(
    sharing: Sharing, layouts: tuple[MigDevicesPlan, ...], device_plugin: Owner
) -> SharingPlan:
    """Return the plan of GPUs that the image's plugin or GKE's offers, set on the node pool, by no ConfigMap."""
    replicated = sharing if isinstance(sharing, TimeSlicing | Mps) else None
    return SharingPlan(
        mode=sharing.mode,
        replicas=replicated.replicas if replicated else 1,
        # GKE has one name for whole and shared GPUs.
        renamed=replicated.rename if replicated and device_plugin == "image" else False,
        # Both know one profile on all GPUs, and offer its instances as nvidia.com/gpu.
        mig_strategy="single" if layouts else "none",
        mig_layouts=layouts,
        # The layout is part of the node pool, so new nodes bring a new one.
        mig_change="replace" if layouts else None,
        device_plugin_key=None,
        device_plugin_config=None,
        mig_config=None,
    )


def _layouts(sharing: Mig) -> Iterator[MigDevicesPlan]:
    if sharing.layout is not None:
        yield MigDevicesPlan(devices=None, layout=sharing.layout)
    for entry in sharing.layouts or ():
        yield MigDevicesPlan(devices=tuple(sorted(entry.devices)), layout=entry.layout)


def layout_of_gpu(sharing: SharingPlan, index: int) -> Mapping[str, int]:
    """Return the MIG instances of one GPU of the node; empty where MIG is off on it."""
    for entry in sharing.mig_layouts:
        if entry.devices is None or index in entry.devices:
            return entry.layout
    return {}


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
        # What a layout leaves over belongs to its instances: nobody else can have it.
        whole = sum(sizes[profile] * count for profile, count in layout.items())
        for profile, count in layout.items():
            single = sharing.mig_strategy == "single"
            name = names.GPU_RESOURCE if single else names.mig_resource(profile)
            units[name] = units.get(name, 0) + count
            physical[name] = physical.get(name, 0.0) + sizes[profile] * count / whole
        if not layout:
            units[names.GPU_RESOURCE] = units.get(names.GPU_RESOURCE, 0) + 1
            physical[names.GPU_RESOURCE] = physical.get(names.GPU_RESOURCE, 0.0) + 1
    return tuple(ResourceOffer(name=name, per_node=n, gpus=physical[name]) for name, n in units.items())


def mig_parted_entries(sharing: SharingPlan, gpus: int) -> list[dict[str, Any]]:
    """Return a pool's entry of the mig-parted config: every GPU of the node is named once."""
    entries: list[dict[str, Any]] = []
    covered: set[int] = set()
    for entry in sharing.mig_layouts:
        devices = "all" if entry.devices is None else list(entry.devices)
        covered |= set(range(gpus)) if entry.devices is None else set(entry.devices)
        entries.append({"devices": devices, "mig-enabled": True, "mig-devices": dict(entry.layout)})
    rest = [index for index in range(gpus) if index not in covered]
    if rest:
        entries.append({"devices": rest, "mig-enabled": False, "mig-devices": {}})
    return entries


def check_sharing(pool: Pool, machine: MachineType, gpu: Gpu, problems: Problems) -> None:
    """Record what is wrong with a pool's sharing on its GPU."""
    sharing = pool.sharing
    here = problems.at("sharing")
    if isinstance(sharing, Dra):
        here.at("mode").add(
            "'dra'",
            "none, time-slicing, mps or mig in this release",
            "use mig for isolation, or time-slicing to share",
        )
    if isinstance(sharing, Mig):
        _check_mig(sharing, machine, gpu, here)


def _check_mig(sharing: Mig, machine: MachineType, gpu: Gpu, here: Problems) -> None:
    if gpu.mig is None:
        found = check_layout(gpu, {})
        if found is not None:
            here.at("mode").add(f"'mig' on {gpu.product} ({machine.name})", found.allowed, found.fix)
        return
    taken: dict[int, int] = {}
    for index, entry in enumerate(_layouts(sharing)):
        place = here.at("layout") if entry.devices is None else here.at("layouts").at(f"[{index}]").at("layout")
        illegal = check_layout(gpu, entry.layout)
        if illegal is not None:
            place.add(illegal.found, illegal.allowed, illegal.fix)
        for device in entry.devices or ():
            where = here.at("layouts").at(f"[{index}]").at("devices")
            if device >= machine.gpu_count:
                where.add(
                    f"GPU {device}",
                    f"0 to {machine.gpu_count - 1}: {machine.name} has {machine.gpu_count} GPUs",
                    "take an index that the machine type has",
                )
            elif device in taken:
                where.add(
                    f"GPU {device} again",
                    f"each GPU once (it is in layouts[{taken[device]}])",
                    "name it once",
                )
            taken.setdefault(device, index)
    _check_single(sharing, machine, here)


def _check_single(sharing: Mig, machine: MachineType, here: Problems) -> None:
    if sharing.strategy != "single":
        return
    layouts = [entry.layout for entry in _layouts(sharing)]
    covered = machine.gpu_count if sharing.layout else sum(len(entry.devices) for entry in sharing.layouts or ())
    profiles = sorted({profile for layout in layouts for profile in layout})
    if len(profiles) > 1 or any(layout != layouts[0] for layout in layouts) or covered < machine.gpu_count:
        here.at("strategy").add(
            f"'single' with {', '.join(profiles)} on {covered} of {machine.gpu_count} GPUs",
            "single: one profile, the same number on every GPU of the node; mixed: anything",
            "write strategy: mixed, or one uniform layout",
        )
