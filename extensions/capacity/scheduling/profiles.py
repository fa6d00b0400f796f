"""kube-scheduler profiles: the default profile, and a profile that packs pods with GPUs.

The default profile spreads pods, so that soon no node has eight free GPUs. It does not consider GPUs, so that pods
may take all CPU of a node whose GPUs are still free. The profile `gpu-packed` prefers the node whose CPU, memory
and GPUs would be used most evenly with the pod. If several nodes would be used equally evenly, it prefers the node
with the most GPUs in use. kube-scheduler's plugins cannot pack pods better, because they consider one pod at a
time, and because the device plugin chooses the GPUs of a pod. docs/place.md compares both profiles on public
traces.

Source: kubernetes v1.36.3, pkg/scheduler/framework/plugins/noderesources (most_allocated.go,
balanced_allocation.go; resource_allocation.go: an extended resource counts for the pods that request it) and
pkg/scheduler/apis/config/v1/default_plugins.go (the default weights), read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from extensions.capacity.scheduling.model import CPU, MEMORY, Node

PACKED_SCHEDULER: Final = "gpu-packed"
"""Value of `schedulerName` in pods that use the profile."""

BALANCE_WEIGHT: Final = 30
"""Weight of NodeResourcesBalancedAllocation. The default weight is 1.

With weight 10, the score for GPUs in use determines the node too often (trace cpu250 of openb: 92.7 instead of
98.2 % of the GPUs are allocated). Weight 100 is slightly better on this trace, but a preferred affinity (weight 2)
or an untolerated `PreferNoSchedule` taint (weight 3) would then have almost no effect.
"""

_FIT, _BALANCE = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def packed_config(nodes: Iterable[Node]) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration with the profile `gpu-packed` for the GPU resources of the nodes."""
    gpus = sorted({name for node in nodes for name in node.gpu_resources if scored_by_amount(name)})
    most = {"type": "MostAllocated", "resources": [{"name": name, "weight": 1} for name in gpus]}
    balanced = [{"name": name, "weight": 1} for name in (CPU, MEMORY, *gpus)]
    version = "kubescheduler.config.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "resourceName": PACKED_SCHEDULER},
        "profiles": [
            {
                "schedulerName": PACKED_SCHEDULER,
                "plugins": {
                    "score": {
                        "disabled": [{"name": _BALANCE}],
                        "enabled": [{"name": _BALANCE, "weight": BALANCE_WEIGHT}],
                    }
                },
                "pluginConfig": [
                    {
                        "name": _FIT,
                        "args": {"apiVersion": version, "kind": f"{_FIT}Args", "scoringStrategy": most},
                    },
                    {
                        "name": _BALANCE,
                        "args": {"apiVersion": version, "kind": f"{_BALANCE}Args", "resources": balanced},
                    },
                ],
            }
        ],
    }


def scored_by_amount(resource: str) -> bool:
    """Return whether a scoring strategy can name a resource.

    It cannot name a DRA device class, which has no slash.
    """
    return "/" in resource
