"""Check that pods have enough GPU memory on a whole GPU, a MIG instance, an MPS share or a time-sliced GPU.

MPS limits each replica to 1/replicas of the memory. Time-slicing does not divide memory. Pods on one GPU share all
of its memory, so it must be enough for all pods that may be scheduled there. Source: NVIDIA k8s-device-plugin,
"Shared Access to GPUs", read 2026-11-21. Memory is the total that NVML reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_platform.base.quantity import parse_memory_mib
from gpu_platform.catalog import Catalog
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.teams.available import Available
from gpu_platform.planning.teams.declared_pods import declared_pods
from gpu_platform.stack.team import Team
from gpu_platform.stack.team import Workload as WorkloadSpec


@dataclass(frozen=True, slots=True)
class _Need:
    """Pods of one workload that declares `gpu_memory`, and the kind of device that each pod uses."""

    path: str
    name: str
    pods: int
    memory_mib: int
    device: str
    device_mib: int


def check_gpu_memory(teams: Sequence[tuple[str, Team]], available: Available, problems: Problems) -> None:
    """Record a problem for each workload whose GPUs have too little memory. Each entry of `teams` is a pair: the
    team's path in the stack file, and the team.
    """
    for pool in available.pools:
        needs = [
            need
            for path, team in teams
            for one in declared_pods(team, available)
            if one.spec.pool == pool.name
            and (need := _need(one.spec, f"{path}.{one.path}", pool, available.catalog)) is not None
        ]
        for need in needs:
            _check_alone(need, pool, problems)
        if pool.sharing.replicas > 1 and pool.sharing.mode != "mps":
            for device in dict.fromkeys(need.device for need in needs):
                _check_together([need for need in needs if need.device == device], pool, problems)


def _need(workload: WorkloadSpec, path: str, pool: PoolPlan, catalog: Catalog) -> _Need | None:
    if workload.gpu_memory is None or not pool.has_gpus:
        return None
    device, memory = pool.gpu_product, pool.gpu_memory_mib
    if pool.sharing.mode == "mig":
        mig = catalog.gpus[pool.gpu_model].mig
        offered = sorted({profile for entry in pool.sharing.mig_layouts for profile in entry.layout})
        name = workload.profile or (offered[0] if len(offered) == 1 else "")
        profile = mig.profile(name) if mig is not None else None
        if profile is None:  # a wrong or missing profile is reported elsewhere
            return None
        device, memory = f"{name} on {pool.gpu_product}", profile.memory_mib
    return _Need(path, workload.name, workload.replicas, parse_memory_mib(workload.gpu_memory), device, memory)


def _check_alone(need: _Need, pool: PoolPlan, problems: Problems) -> None:
    replicas = pool.sharing.replicas if pool.sharing.mode == "mps" else 1
    most = need.device_mib // replicas
    if need.memory_mib <= most:
        return
    share = f", 1/{replicas} of {need.device_mib} MiB for each MPS replica" if replicas > 1 else ""
    fits = need.device_mib // need.memory_mib
    Problems(f"{need.path}.gpu_memory", problems.found).add(
        f"{need.memory_mib} MiB per pod on pool {pool.name}",
        f"at most {most} MiB: {need.device}{share}",
        f"write replicas: {fits} or fewer in {pool.path}.sharing"
        if replicas > 1 and fits > 1
        else "use a pool with more memory per GPU or instance",
    )


def _check_together(needs: Sequence[_Need], pool: PoolPlan, problems: Problems) -> None:
    """Record a problem if the largest pods that may share one device need more memory than the device has."""
    replicas, left = pool.sharing.replicas, pool.sharing.replicas
    meeting: list[tuple[_Need, int]] = []
    for need in sorted(needs, key=lambda need: -need.memory_mib):
        taken = min(left, need.pods)
        if taken:
            meeting.append((need, taken))
        left -= taken
    total = sum(need.memory_mib * pods for need, pods in meeting)
    # Another problem already covers a pod that is too large for the device even without other pods.
    if not meeting or total <= meeting[0][0].device_mib or meeting[0][0].memory_mib > meeting[0][0].device_mib:
        return
    largest = meeting[0][0]
    fits = largest.device_mib // largest.memory_mib
    pods_text = " + ".join(f"{pods} x {need.memory_mib} MiB ({need.name})" for need, pods in meeting)
    Problems(f"{largest.path}.gpu_memory", problems.found).add(
        f"{pods_text} = {total} MiB that may run on one {largest.device} with {replicas} replicas",
        f"at most {largest.device_mib} MiB in all: {largest.device}, and time-slicing does not divide memory",
        f"write replicas: {fits} in {pool.path}.sharing, or use a GPU with more memory"
        if fits > 1
        else "use whole GPUs, or a GPU with more memory",
    )
