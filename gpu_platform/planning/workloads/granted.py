"""Environment variables GPU_PLATFORM_* that describe the GPUs, memory and network of a pod.

`gpu_platform_training.granted` reads them. Without them, a process in the container cannot find out its share of a
GPU, the network between nodes or the grace period.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_platform.base import names
from gpu_platform.base.quantity import parse_memory_mib, parse_quantity
from gpu_platform.catalog import Catalog
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.section import WorkloadPlan
from gpu_platform.planning.workloads.section import MountPlan, PodFabricPlan, PodPlan

_PREFIX: Final = "GPU_PLATFORM_"
GRACE_VARIABLE: Final = _PREFIX + "GRACE_SECONDS"
INTERCONNECT_VARIABLE: Final = _PREFIX + "INTERCONNECT"
TCP: Final = "tcp"
SCRATCH_VARIABLE: Final = _PREFIX + "SCRATCH"
_SCRATCH: Final = "/scratch"


def granted_environment(
    workload: WorkloadPlan, pool: PoolPlan, catalog: Catalog, fabric: PodFabricPlan | None, *, together: bool
) -> Mapping[str, str]:
    """Return the variables for a pod with GPUs. `together` means that the pod communicates with pods on other
    nodes.
    """
    if not workload.units:
        return {}
    found: dict[str, str | int | None] = {
        "GPUS": workload.units,
        "GPU": pool.gpu_product,
        "GPU_MEMORY_MIB": _memory(workload, pool, catalog),
        "SHARING": _sharing(pool),
        "MEMORY_MIB": int(parse_quantity(workload.memory)) // 2**20,
        "INTERCONNECT": _interconnect(workload, pool, fabric) if together else None,
        "PEAK_TFLOPS": _peak(pool, catalog),
    }
    return {_PREFIX + name: str(value) for name, value in found.items() if value is not None}


def scratch_of(pod: PodPlan, pool: PoolPlan) -> MountPlan | None:
    """Return a directory on the node's local NVMe disks.

    Return None if the node has no such disks, or if the pod already has such a directory.
    """
    taken = any(one.name == "scratch" or f"{one.path}/".startswith(f"{_SCRATCH}/") for one in pod.mounts)
    if not pod.workload.units or not pool.cloud_nodes.local_nvme or taken:
        return None
    return MountPlan(name="scratch", path=_SCRATCH)


def _sharing(pool: PoolPlan) -> str:
    """Return the mode in which the pod's GPU is shared. A MIG instance that several pods share is time-sliced."""
    if pool.devices:
        return "none"
    if pool.sharing.mode == "mig" and pool.sharing.replicas > 1:
        return "time-slicing"
    return pool.sharing.mode


def _memory(workload: WorkloadPlan, pool: PoolPlan, catalog: Catalog) -> int | None:
    """Return the memory in MiB of each GPU, instance or share. For a time-sliced GPU, this is the declared memory
    or an equal part of the GPU's memory.
    """
    if pool.devices:
        return pool.gpu_memory_mib if workload.resource == names.GPU_DEVICE_CLASS else None
    whole, sharing = pool.gpu_memory_mib, pool.sharing
    if sharing.mode == "mig":
        mig = catalog.gpus[pool.gpu_model].mig
        profiles = {name for entry in sharing.mig_layouts for name in entry.layout}
        offered = {names.mig_resource(name): name for name in profiles}
        name = offered.get(workload.resource.removesuffix(names.SHARED_SUFFIX))
        if name is None and len(profiles) == 1:
            name = next(iter(profiles))
        profile = mig.profile(name) if mig is not None and name is not None else None
        if profile is None:
            return None
        whole = profile.memory_mib
    if sharing.replicas > 1 and sharing.mode != "mps" and workload.gpu_memory is not None:
        return parse_memory_mib(workload.gpu_memory)
    return whole // sharing.replicas


def _interconnect(workload: WorkloadPlan, pool: PoolPlan, fabric: PodFabricPlan | None) -> str:
    """Return the fastest network that a job's pods can use between nodes."""
    if workload.compute_domain is not None:
        return "nvlink"
    node, nics = pool.cloud_nodes.node_fabric, pool.cloud_nodes.fabric_nics
    if node is not None and (fabric is not None or workload.nic_claim is not None):
        return node.name
    if nics is not None and (workload.network or workload.nic_claim is not None):
        return nics.kind
    return TCP


def _peak(pool: PoolPlan, catalog: Catalog) -> str | None:
    """Return the dense tensor-core throughput of a whole GPU in TFLOP/s. Return None if it is unknown, or if pods
    use only a part of a GPU.
    """
    whole = bool(pool.devices) or pool.sharing.mode == "none"
    peak = catalog.gpus[pool.gpu_model].tensor_tflops if whole else None
    return None if peak is None else f"{peak:g}"
