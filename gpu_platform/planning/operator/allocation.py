"""Decide whether the device plugin or the DRA driver of a GPUCluster allocates GPUs to pods.

Sources: GPU Operator docs 26.7, "DRA Driver for NVIDIA GPUs" (prerequisites, limitations) and release notes;
kubernetes-sigs/dra-driver-nvidia-gpu, "MIG"; read 2026-11-21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.dra.checks import MINIMUM_KUBERNETES, MINIMUM_PATCH
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.problems import Problems
from gpu_platform.stack.cluster import Operator

FEATURE_GATE = "DynamicMIG"
DEVICE_PLUGIN = "device-plugin"


def allocation_decisions(context: CompleteContext, pools: Sequence[PoolPlan]) -> Iterator[Decision]:
    """Yield decisions about DRA that apply to the whole cluster, and about pools whose pods claim devices."""
    if context.environment.queueing is None:
        yield from _without_preemption(pools, context.operator)
    if not any(pool.devices for pool in pools):
        return
    yield Decision(
        subject="operator",
        what="allocation",
        chosen="GPUCluster with the DRA driver; no device plugin, feature discovery or MIG manager",
        why="the pools have mode: dra; to go back to a ClusterPolicy, you need a new cluster",
    )
    if context.kubernetes == MINIMUM_KUBERNETES:
        yield Decision(
            subject="cluster",
            what="Kubernetes patch",
            chosen=f"{MINIMUM_PATCH} or newer; verify this yourself",
            why="the DRA driver requires this patch release, but a stack file contains only the minor version",
        )
    for pool in pools:
        if pool.sharing.partitions:
            yield Decision(
                subject=f"pool {pool.name}",
                what="partitions",
                chosen=f"feature gate {FEATURE_GATE}, which is alpha",
                why="MIG instances are created when claims request them; instances that existed before are "
                "destroyed",
            )


def _without_preemption(pools: Sequence[PoolPlan], operator: Operator) -> Iterator[Decision]:
    """Yield a decision for each pool whose devices kube-scheduler cannot take from pods of a lower priority.

    Source: kubernetes/enhancements#5690 (DRA preemption, alpha in 1.38), and Kubernetes docs, Dynamic Resource
    Allocation, "Limitations"; read 2026-11-30.
    """
    for pool in pools:
        claimed = {
            "GPUs": bool(pool.devices),
            "NICs": pool.cloud_nodes.nic_devices is not None,
            "IMEX channels": compute_domains([pool], operator),
        }
        if devices := " or ".join(name for name, is_claimed in claimed.items() if is_claimed):
            yield Decision(
                subject=f"pool {pool.name}",
                what="preemption",
                chosen=f"none for pods that claim {devices}",
                why="kube-scheduler preempts no pod for claimed devices, so a pod with a higher priority class "
                "waits until the devices are free; with `queueing`, Kueue preempts workloads",
            )


def allocation(pools: Sequence[PoolPlan]) -> str:
    """Return the component that allocates GPUs, in the form of the stack output `allocation`. A cluster keeps the
    same component for its whole life.
    """
    return "dra" if any(pool.devices for pool in pools) else DEVICE_PLUGIN


def check_allocation(outputs: Mapping[str, Any], pools: Sequence[PoolPlan], problems: Problems) -> None:
    """Record a problem if the allocation changes from the device plugin to DRA or back.

    The operator refuses a GPUCluster in a cluster with a ClusterPolicy, and cannot migrate from one to the other.
    `outputs` are the outputs of the last deployment, or empty if there was none.
    """
    if not outputs:
        return
    before, now = outputs.get("allocation", DEVICE_PLUGIN), allocation(pools)
    if before != now:
        problems.at("pools").add(
            f"{now} on a cluster that this stack has deployed with {before}",
            f"{before}, because the operator cannot migrate an existing cluster",
            "use a new cluster, or first run `gpu-platform destroy` when nothing runs there any more",
        )


def compute_domains(pools: Sequence[PoolPlan], operator: Operator) -> bool:
    """Return whether the GPUCluster's driver provides ComputeDomains, which are needed only for GPUs with NVLink
    between nodes.
    """
    return operator.compute_domains is not False and any(pool.nvlink_domain is not None for pool in pools)
