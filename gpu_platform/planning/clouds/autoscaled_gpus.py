"""Name the GPU resources of a pool's nodes that the Cluster Autoscaler does not count.

The clouds' managed autoscalers recognise the GPUs of a node only as `nvidia.com/gpu`. Source:
kubernetes/autoscaler#8095; read 2026-11-23.
"""

from __future__ import annotations

from gpu_platform.base import names
from gpu_platform.catalog import MachineType
from gpu_platform.planning.sharing.sharing import layouts_of
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Mig, Mps, TimeSlicing


def offered_gpus(pool: Pool, machine: MachineType) -> tuple[bool, str]:
    """Return whether the nodes advertise `nvidia.com/gpu`, and their other GPU resources as text."""
    match pool.sharing:
        case TimeSlicing() | Mps() as sharing if sharing.rename:
            return False, names.SHARED_GPU_RESOURCE
        case Mig(strategy="single") as sharing if sharing.replicas > 1 and sharing.rename:
            return False, names.SHARED_GPU_RESOURCE
        case Mig(strategy="mixed") as sharing:
            entries = tuple(layouts_of(sharing))
            profiles = sorted({profile for entry in entries for profile in entry.layout})
            partitioned = {device for entry in entries for device in entry.devices or range(machine.gpu_count)}
            whole = not partitioned >= set(range(machine.gpu_count))
            return whole, ", ".join(names.mig_resource(profile) for profile in profiles)
        case _:
            return True, ""
