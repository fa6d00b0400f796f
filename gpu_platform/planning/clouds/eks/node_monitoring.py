"""Faults that the EKS node monitoring agent detects, and the configuration of its add-on.

Node repair acts on the conditions that this agent sets. The agent reads GPU data only through its DaemonSet
`dcgm-server`. On a node without `dcgm-server`, the agent sets the condition AcceleratedHardwareReady to False with
the reason DCGMError, on which EKS takes no action. On arm64 nodes, the agent never reads GPU data, and keeps the
condition True.

Sources: aws/eks-node-monitoring-agent v1.6.6, monitors/nvidia/monitor.go, monitors/nvidia/dcgm/dcgm_reconcile.go
and charts (no tolerations of dcgm-server by default); EKS user guide, "Detect node health issues" (DCGMError: no
repair action) and "Automatically repair nodes"; aws/containers-roadmap#2555, #2567; read 2026-11-30.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_platform.base import names

MONITORING_AGENT: Final = "eks-node-monitoring-agent"
_MIG: Final = "mig"
_AMD64: Final = "amd64"

# By default the DaemonSet that detects broken GPUs has no tolerations.
# This DaemonSet must not run on MIG nodes.
# The MIG mode of a GPU cannot be changed while a process uses the GPU.
# The MIG manager does not stop the agent's DaemonSet before it changes the MIG mode.
AGENT_CONFIGURATION: Final[Mapping[str, Any]] = {
    "dcgmAgent": {
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": names.GPU_PRESENT_LABEL, "operator": "In", "values": ["true"]},
                                {"key": names.SHARING_LABEL, "operator": "NotIn", "values": [_MIG]},
                                {"key": "kubernetes.io/arch", "operator": "In", "values": [_AMD64]},
                            ]
                        }
                    ]
                }
            }
        },
    }
}


def why_unread(labels: Mapping[str, str], arch: str) -> str | None:
    """Return why the agent does not detect broken GPUs on nodes with these labels, or None if it detects them."""
    if arch != _AMD64:
        return f"the node monitoring agent does not read GPUs on {arch}"
    if labels.get(names.SHARING_LABEL) == _MIG:
        return (
            "the node monitoring agent does not read the GPUs of MIG nodes, "
            "because the MIG mode of a GPU cannot change while a process uses the GPU"
        )
    return None
