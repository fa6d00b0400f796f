"""Plan how Karpenter adds simulated nodes to a sandbox pool through its KWOK provider.

The program creates `count.desired` permanent nodes. For pending pods, Karpenter creates additional nodes, up to
`count.max` nodes in total. It deletes these nodes when they are empty.

Sources: sigs.k8s.io/karpenter v1.14.1, pkg/apis/v1 (NodePool), kwok/apis/v1alpha1 (KWOKNodeClass), kwok/README.md;
read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.catalog import MachineType
from gpu_platform.planning.clouds.section import AutoscalerPlan
from gpu_platform.planning.clouds.vendors import DEFAULT_MAX_PODS
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.nodes.section import Taint
from gpu_platform.planning.nodes.simulated import simulated_annotations
from gpu_platform.planning.problems import Problems
from gpu_platform.planning.requirements.section import NodeRequirements
from gpu_platform.stack.pool import Pool
from gpu_platform.stack.sharing import Dra

# The time is shorter than in a cloud, because simulated nodes start quickly.
# In a sandbox, users wait for the removal of nodes.
EMPTY_SECONDS: Final = 30
_NODE_CLASS: Final = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass"}


def is_autoscaled(pool: Pool) -> bool:
    """Return whether an autoscaler adds nodes beyond those that the program creates for the pool."""
    return pool.count.maximum > pool.count.desired


def check_autoscaled(pool: Pool, problems: Problems) -> None:
    """Record a problem if an autoscaled pool offers its GPUs through DRA claims. `problems` points to the pool."""
    if is_autoscaled(pool) and isinstance(pool.sharing, Dra):
        count = pool.count
        problems.at("count").at("max").add(
            f"{count.maximum} with sharing 'dra' and desired {count.desired}",
            f"{count.desired}, because Karpenter creates no nodes for claims",
            f"write count: {{desired: {count.maximum}}}",
        )


def check_same_sharing(pools: Sequence[tuple[int, Pool]], problems: Problems) -> None:
    """Record a problem for autoscaled pools with the same machine type but different sharing.

    `problems` points to the root of the file.
    """
    first: dict[str, Pool] = {}
    for index, pool in pools:
        if is_autoscaled(pool):
            before = first.setdefault(pool.machine_type, pool)
            if before.sharing != pool.sharing:
                problems.at(f"pools[{index}]").at("sharing").add(
                    (
                        f"sharing of {pool.machine_type} that differs from the sharing of autoscaled pool "
                        f"{before.name}"
                    ),
                    "the same sharing settings for all autoscaled pools of a machine type, because Karpenter "
                    "in a sandbox derives the resources of a node from its machine type",
                    "write the same sharing, a different machine type, or only count.desired for one of the pools",
                )


def plan_autoscaler(
    pool: Pool, machine: MachineType, requirements: NodeRequirements
) -> Decided[AutoscalerPlan | None]:
    """Return the Karpenter objects for a valid pool, or None for a pool with a fixed number of nodes."""
    if not is_autoscaled(pool):
        return Decided(None)
    more = pool.count.maximum - pool.count.desired
    plan = AutoscalerPlan(
        nodes=more, node_class=_NODE_CLASS, node_pool=_node_pool(pool, machine, requirements, more)
    )
    decision = Decision(
        subject=f"pool {pool.name}",
        what="nodes",
        chosen=f"{pool.count.desired} to {pool.count.maximum}",
        why=f"the sandbox runs Karpenter, which adds simulated nodes for pending pods, and deletes them after "
        f"{EMPTY_SECONDS} s without pods; the first `up` builds Karpenter, which takes some minutes",
    )
    return Decided(plan, (decision,))


def _node_pool(pool: Pool, machine: MachineType, requirements: NodeRequirements, most: int) -> dict[str, Any]:
    taints = (*requirements.taints, *requirements.startup_taints)
    annotations = simulated_annotations(machine.name, taints, requirements.driver_version, requirements.kubelet)
    wanted = {
        names.INSTANCE_TYPE_LABEL: machine.name,
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": machine.arch,
        "kubernetes.io/os": "linux",
    }
    starting = Taint(key=names.SANDBOX_STARTING_TAINT, value="", effect="NoSchedule")
    return {
        "template": {
            "metadata": {"labels": dict(requirements.labels), "annotations": annotations},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": pool.name},
                "taints": [one.of_node_pool for one in requirements.taints],
                "startupTaints": [one.of_node_pool for one in (*requirements.startup_taints, starting)],
                "requirements": [
                    {"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()
                ],
                "expireAfter": "Never",
                "terminationGracePeriod": "30s",
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": f"{EMPTY_SECONDS}s",
            "budgets": [{"nodes": "100%"}],
        },
        # When Karpenter adds nodes for several pods at once, it does not enforce the limit on nodes.
        # Karpenter always enforces limits on resources, so the number of pods is also limited.
        "limits": {"nodes": str(most), "pods": str(most * DEFAULT_MAX_PODS)},
    }
