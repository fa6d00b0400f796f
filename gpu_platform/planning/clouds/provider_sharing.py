"""Check GPU sharing modes against the device plugins of GKE and Bottlerocket.

Sources: GKE docs on GPU sharing strategies, time-sharing and multi-instance GPUs, and the partitioner in
container-engine-accelerators; bottlerocket.dev, kubelet-device-plugins 1.54, and nvidia-migmanager in
bottlerocket-core-kit; read 2026-11-21.
"""

from __future__ import annotations

from gpu_platform.catalog import Gpu, MachineType, MigProfile
from gpu_platform.planning.nodes.software import Owner
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra, Mig, MigRoll, Mps, TimeSlicing

BOTTLEROCKET_MIG_MODELS = ("a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb")
"""GPU models that have MIG profiles in Bottlerocket's documentation."""
NOT_OF_GKE = ("4g.20gb", "4g.40gb")
"""MIG profiles that GKE's partitioner creates but its device plugin refuses.

Source: container-engine-accelerators, gpuPartitionSizeMaxCount in pkg/gpu/nvidia/mig/mig.go; read 2026-11-23.
"""


def check_provider_sharing(
    pool: Pool, device_plugin: Owner, machine: MachineType, gpu: Gpu, here: Problems
) -> None:
    """Record problems with sharing that requires the operator's device plugin if the pool uses a different device
    plugin.

    `here` points to the sharing configuration.
    """
    if device_plugin in {"operator", "dra"}:
        return
    match pool.sharing:
        case TimeSlicing() | Mps() as sharing:
            _check_replicated(sharing, device_plugin, here)
        case Mig() as sharing:
            _check_mig(sharing, device_plugin, machine, gpu, here)
        case Dra():
            whose = "GKE" if device_plugin == "cloud" else "Bottlerocket"
            here.at("mode").add(
                f"'dra' with the device plugin of {whose}",
                "nodes without a device plugin, because it would allocate the same GPUs as the DRA driver",
                "write image: {family: al2023}" if device_plugin == "image" else "use the device plugin's modes",
            )
        case _:
            pass


def _check_replicated(sharing: TimeSlicing | Mps, device_plugin: Owner, here: Problems) -> None:
    if device_plugin == "cloud" and isinstance(sharing, Mps):
        # Pods need hostIPC to reach GKE's MPS daemon.
        # Source: GKE docs, "Share GPUs with multiple workloads using NVIDIA MPS"; read 2026-11-28.
        here.at("mode").add(
            "'mps' with GKE's device plugin",
            "time-slicing; pods reach GKE's MPS daemon only with hostIPC, which no team may use",
            "write mode: time-slicing, or device_plugin: operator with a fixed number of nodes",
        )
        return
    if device_plugin == "cloud" and "rename" in sharing.model_fields_set and sharing.rename:
        here.at("rename").add(
            "true with GKE's device plugin",
            "false; GKE offers whole and shared GPUs as nvidia.com/gpu",
            "remove rename, or write device_plugin: operator",
        )
    greedy = not sharing.fail_requests_greater_than_one
    if greedy and (device_plugin == "cloud" or isinstance(sharing, Mps)):
        whose = "GKE's" if device_plugin == "cloud" else "Bottlerocket's"
        here.at("fail_requests_greater_than_one").add(
            f"false with {whose} device plugin",
            "true; the plugin always refuses a request for more than one share",
            "remove it",
        )


def _check_mig(sharing: Mig, device_plugin: Owner, machine: MachineType, gpu: Gpu, here: Problems) -> None:
    if gpu.mig is None:  # check_sharing records this problem
        return
    whose = "GKE's" if device_plugin == "cloud" else "Bottlerocket's"
    if sharing.replicas > 1:
        here.at("replicas").add(
            f"time-slicing of MIG instances with {whose} device plugin",
            "MIG instances without time-slicing; only the operator's device plugin supports both together",
            "remove replicas",
        )
    if "strategy" in sharing.model_fields_set and sharing.strategy == "mixed":
        here.at("strategy").add(
            f"'mixed' with {whose} device plugin",
            "single; the plugin offers the instances as nvidia.com/gpu",
            "remove strategy" + (", or write device_plugin: operator" if device_plugin == "cloud" else ""),
        )
    if "change" in sharing.model_fields_set and sharing.change == "drain":
        here.at("change").add(
            f"'drain' with {whose} device plugin",
            "replace; the layout is a setting of the node pool, so only new nodes get a new layout",
            "remove change",
        )
    for field in sorted(MigRoll.model_fields.keys() & sharing.model_fields_set):
        here.at(field).add(
            f"{getattr(sharing, field)!r} with {whose} device plugin",
            "no such field; only new nodes get a new layout, and the pool's upgrade settings decide when",
            f"remove {field}",
        )
    if device_plugin == "image" and gpu.model not in BOTTLEROCKET_MIG_MODELS:
        here.at("mode").add(
            f"'mig' on {gpu.product} ({machine.name}) with Bottlerocket",
            "GPUs that Bottlerocket's MIG manager supports: " + ", ".join(BOTTLEROCKET_MIG_MODELS),
            "write image: {family: al2023}, so that the operator partitions the GPUs",
        )
    layout = sharing.layout or {}
    profile = gpu.mig.profile(next(iter(layout))) if len(layout) == 1 else None
    if len(layout) != 1:
        found = f"{len(layout)} profiles" if sharing.layout else "different layouts for different GPUs"
        here.at("layout" if sharing.layout else "layouts").add(
            f"{found} with {whose} device plugin",
            "one profile on every GPU of the node, because all GPUs are partitioned alike",
            "set layout to a single profile, such as " + _example(gpu, device_plugin),
        )
    elif profile is not None and not _knows(profile, gpu, device_plugin):
        here.at("layout").add(
            f"{profile.name} with {whose} device plugin",
            "one of " + ", ".join(p.name for p in gpu.mig.profiles if _knows(p, gpu, device_plugin)),
            "write layout: " + _example(gpu, device_plugin),
        )
    elif profile is not None and layout[profile.name] != profile.max_instances:
        here.at("layout").add(
            f"{profile.name} x{layout[profile.name]} with {whose} device plugin",
            f"x{profile.max_instances}, because each GPU is partitioned into as many instances as fit",
            f"write layout: {{{profile.name}: {profile.max_instances}}}",
        )


def _knows(profile: MigProfile, gpu: Gpu, device_plugin: Owner) -> bool:
    if not profile.name.endswith("gb"):  # a variant, such as 1g.10gb+me
        return False
    if device_plugin == "image":
        # If a profile name is unknown, Bottlerocket's MIG manager does not partition the GPU.
        return profile.compute_slices != 4
    if profile.name in NOT_OF_GKE:
        return False
    # On A100, GKE does not support the profile with one compute slice and twice the memory.
    return gpu.architecture != "ampere" or (profile.compute_slices, profile.memory_slices) != (1, 2)


def _example(gpu: Gpu, device_plugin: Owner) -> str:
    known = [p for p in (gpu.mig.profiles if gpu.mig else ()) if _knows(p, gpu, device_plugin)]
    return f"{{{known[0].name}: {known[0].max_instances}}}" if known else "{}"
