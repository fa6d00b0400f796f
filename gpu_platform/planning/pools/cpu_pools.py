"""Check CPU pools, whose machine type has no GPUs. CPU pools run monitoring, ingress, Ray heads and data loaders.

The machine type determines whether a pool is a CPU pool. No field of the pool sets this. Settings that only GPU
pools can have are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.catalog import MachineType
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.requirements import GPU_TAINT
from gpu_platform.stack.declared import reasons_for_gpus
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import NoSharing

GENERAL = "general"
"""Value of `workload` for CPU pools."""


def check_workload(pool: Pool, machine: MachineType, problems: Problems) -> None:
    """Record a problem if a pool's workload does not match its machine type. `problems` points to the pool."""
    here = problems.at("workload")
    if machine.has_gpus and pool.workload == GENERAL:
        here.add(
            f"'{GENERAL}' on {machine.name}, which has GPUs",
            "training, inference or development, which set the defaults of GPU nodes",
            "write one of them, or use a machine type without GPUs",
        )
    elif not machine.has_gpus and pool.workload != GENERAL:
        here.add(
            f"{pool.workload!r} on {machine.name}, which has no GPUs",
            f"{GENERAL}; {pool.workload} sets defaults and policy rules for GPU nodes",
            f"write workload: {GENERAL}, or use a machine type with GPUs",
        )


def check_cpu_pool(pool: Pool, machine: MachineType, problems: Problems) -> None:
    """Record a problem for every field that only pools with GPUs can have. `problems` points to the pool."""
    for field, because in _used(pool):
        problems.at(field).add(
            f"{field} on {machine.name}, which has no GPUs",
            f"{field} only on a pool with GPUs: {because}",
            f"remove {field}, or use a machine type with GPUs",
        )
    if pool.image.driver is not None:
        problems.at("image").at("driver").add(
            f"{pool.image.driver!r} on {machine.name}, which has no GPUs",
            "driver only on a pool with GPUs; this pool's image has no NVIDIA driver",
            "remove driver",
        )
    if pool.capacity.type == "flex-start":
        problems.at("capacity").at("type").add(
            f"'flex-start' on {machine.name}, which has no GPUs",
            "on-demand, spot or reservation; the platform supports flex-start only for GPU pools",
            "write type: on-demand, or remove capacity",
        )
    for index, taint in enumerate(pool.taints):
        if taint.key == GPU_TAINT.key:
            problems.at("taints").at(f"[{index}]").add(
                f"{taint.key}:{taint.effect} on {machine.name}, which has no GPUs",
                "another key; this key marks GPU nodes, and pods with GPUs tolerate it",
                "use your own key, such as example.com/dedicated",
            )


def _used(pool: Pool) -> Iterator[tuple[str, str]]:
    """Yield each GPU field that the stack file sets, with the reason why it needs GPUs."""
    if isinstance(pool.declared_sharing, str) or not isinstance(pool.declared_sharing, NoSharing):
        yield "sharing", "it sets how pods share a GPU"
    for field, because in reasons_for_gpus(Pool):
        if field in pool.model_fields_set and getattr(pool, field) not in (None, ()):
            yield field, because
