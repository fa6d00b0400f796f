"""Rules about the taints of GPU node pools and the device alignment of the kubelet."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_platform.base import names
from policies._inputs import NotVisible
from policies._node_pool import NodePool
from policies._pools import pools
from policies._rule import Breach, Rule, Settings, Severity
from policies._stack import Stack

_GPU_TAINT = f"{names.GPU_TAINT_KEY}={names.GPU_TAINT_VALUE}:NoSchedule"


def _no_taint(_: Stack, pool: NodePool, __: Settings) -> Iterator[Breach]:
    if not pool.has_gpus or any(taint.keeps_pods_off for taint in pool.taints):
        return
    found = ", ".join(str(taint) for taint in pool.taints)
    yield Breach(
        at=pool.taint_list,
        found=(f"only {found}" if found else "no taint") + f" on GPU pool {pool.name!r}",
        allowed="a permanent taint with effect NoSchedule or NoExecute",
        fix=f"add the taint {_GPU_TAINT}",
    )


gpu_node_taint = Rule(
    id="gpu-node-taint",
    severity=Severity.CRITICAL,
    description="GPU nodes have a NoSchedule taint. Otherwise pods without GPUs can occupy GPU nodes.",
    subjects=lambda stack: stack.view(pools),
    check=_no_taint,
    settings=Settings,
)


def _no_topology_policy(_: Stack, pool: NodePool, __: Settings) -> Iterator[Breach]:
    if pool.workload != "training" or not pool.has_gpus or _aligns_devices(pool) or pool.gpus_per_node < 2:
        return
    policy = pool.topology_policy
    yield Breach(
        at=policy,
        found=(f"Topology Manager policy {policy.text()!r}" if policy.text() else "no Topology Manager policy")
        + f" on training pool {pool.name!r} with {pool.gpus_per_node} GPUs a node",
        allowed="restricted or single-numa-node",
        fix="set it in the kubelet's configuration, with the static CPU Manager policy; if the configuration "
        f"is not visible, declare the policy with the node label {names.TOPOLOGY_POLICY_LABEL}",
    )


def _aligns_devices(pool: NodePool) -> bool:
    """Return whether a visible policy aligns devices. This is checked first, because the number of GPUs may not be
    visible.
    """
    try:
        return pool.topology_policy.text() in ("restricted", "single-numa-node")
    except NotVisible:
        return False


topology_for_multi_gpu = Rule(
    id="topology-for-multi-gpu",
    severity=Severity.MEDIUM,
    description="Training nodes with several GPUs align GPUs and CPUs. Jobs that span two NUMA nodes are slow.",
    subjects=lambda stack: stack.view(pools),
    check=_no_topology_policy,
    settings=Settings,
)


def _incomplete_numa(_: Stack, pool: NodePool, __: Settings) -> Iterator[Breach]:
    try:
        policy = pool.kubelet_policy("topology")
    except NotVisible:
        if pool.created or pool.label(names.TOPOLOGY_POLICY_LABEL).present:
            raise
        return  # no policy is declared for an existing node
    if policy.text() not in (None, "none"):
        cpus = pool.kubelet_policy("cpu")
        if cpus.text() != "static":
            yield Breach(
                at=cpus if cpus.present else policy,
                found=f"Topology Manager policy {policy.text()!r}, CPU Manager policy {cpus.text() or 'none'!r}",
                allowed="CPU Manager policy static, because other policies give no NUMA hints",
                fix="set cpuManagerPolicy: static in the kubelet's configuration",
            )
    memory = pool.kubelet_policy("memory")
    if memory.text() == "static" and not pool.reserves_memory:
        yield Breach(
            at=memory,
            found="Memory Manager policy Static without reservedMemory",
            allowed="reservedMemory equal to the sum of kube-reserved, system-reserved and the eviction threshold",
            fix="add reservedMemory; otherwise the kubelet does not start",
        )


numa_policy_complete = Rule(
    id="numa-policy-complete",
    severity=Severity.MEDIUM,
    description="A Topology Manager policy has matching CPU and memory settings. Otherwise it has no effect.",
    subjects=lambda stack: stack.view(pools),
    check=_incomplete_numa,
    settings=Settings,
)

RULES = (gpu_node_taint, topology_for_multi_gpu, numa_policy_complete)
