"""Profiles of kube-scheduler: the default one, and one for pods with GPUs that keeps the rest of a node usable.

The default profile spreads pods, so that soon no node has eight free GPUs, and it does not look at GPUs, so that
pods which take a node's CPU leave its GPUs without any. The profile `gpu-packed` prefers the node where CPU,
memory and GPUs are used most evenly after the pod, and among equal ones the node with the most GPUs in use. It is
as far as kube-scheduler's own plugins go: they look at one pod at a time, and which GPUs of a node a pod gets is
the device plugin's choice. Figures of both profiles on public traces: docs/place.md.

Source: kubernetes v1.36.3, pkg/scheduler/framework/plugins/noderesources (most_allocated.go,
balanced_allocation.go; resource_allocation.go: an extended resource counts for the pods that request it) and
pkg/scheduler/apis/config/v1/default_plugins.go (the default weights), read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from extensions.capacity.scheduling.model import CPU, MEMORY, Node

PACKED_SCHEDULER: Final = "gpu-packed"
"""What pods write as `schedulerName`."""

BALANCE_WEIGHT: Final = 30
"""Of NodeResourcesBalancedAllocation, 1 by default.

With 10 GPUs in use decide too often (cpu250 of openb: 92.7 instead of 98.2 % of the GPUs). With 100 it is a little
better there, but a preferred affinity (2) or a disliked taint (3) would hardly count any more.
"""

_FIT, _BALANCE = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def packed_config(nodes: Iterable[Node]) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration with the profile `gpu-packed` for the GPU resources of nodes."""
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
    """Return whether a scoring strategy can name a resource: a device class of DRA, without a slash, it cannot."""
    return "/" in resource
